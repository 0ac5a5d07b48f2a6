import { expect, test } from 'vitest'
import { ArrivalLog } from '../../engine/replay/arrival-log.ts'
import { engineCall } from '../../engine/testing/calls.ts'
import { engineProgram } from '../fronts/local/engine-call.ts'
import { REPLAY_SHARE, Replays } from './replays.ts'

const ASKED = { engine: 'a-e0', tenant: 't', program: 'p', run: 'r' }

/** A clock that goes on by `step_us` with each look. */
function agent({ limit_wait_us, seats = null }: { limit_wait_us?: number; seats?: number | null } = {}) {
  const arrivals = new ArrivalLog()
  for (const [lease, program] of [
    ['long', 'other'],
    ['short', engineProgram(ASKED)],
  ] as const) {
    arrivals.arrived(engineCall({ lease, program }), `call of ${lease}`, lease === 'long' ? 0 : 10)
  }
  arrivals.ended('short', { at_us: 20, service_us: 10, wait_us: 0, kv_tokens: 1 })
  const status = { limit_wait_us }
  const front = { status: () => status, seats }
  const description = { seats: 1, kv_capacity_tokens: 0 }
  const clock = { now_us: 0, step_us: 1_000 }
  const replays = new Replays({
    engine: (id) => (id === ASKED.engine ? ({ arrivals, front, description } as never) : undefined),
    open: () => [{ lease: 'long', wall_us: 5_000 }],
    monotonic_us: () => {
      clock.now_us += clock.step_us
      return clock.now_us
    },
  })
  return { replays, clock }
}

test('replays on the seats that the engine has, with what open calls were served', () => {
  const call = { status: 'estimated', id: 'call of short', wait_us: 0, at_least: true }
  const answered = (fcfs_wait_us: number) => ({ status: 'replayed', calls: [{ ...call, fcfs_wait_us }] })
  expect(agent().replays.answer(ASKED)).toEqual(answered(4_990))
  expect(agent({ seats: 2 }).replays.answer(ASKED)).toEqual(answered(0))
})

test('says why there is no estimate: another engine, limits, or too many replays', () => {
  const { replays, clock } = agent()
  expect(replays.answer({ ...ASKED, engine: 'a-e1' })).toEqual({ status: 'unknown', reason: 'gone' })
  expect(agent({ limit_wait_us: 5 }).replays.answer(ASKED)).toEqual({ status: 'unknown', reason: 'limits' })
  expect(replays.answer(ASKED)).toMatchObject({ status: 'replayed' })
  // It took a millisecond, and asking takes one too.
  clock.now_us += (REPLAY_SHARE - 2) * clock.step_us
  expect(replays.answer(ASKED)).toEqual({ status: 'unknown', reason: 'busy' })
  expect(replays.answer(ASKED)).toMatchObject({ status: 'replayed' })
})
