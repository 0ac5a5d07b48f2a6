import { describe, expect, test } from 'vitest'
import type { ReplayedCall } from '../../../src/protocol/replay.ts'
import { createPolicy, type PolicyName } from '../order/policies/index.ts'
import { engineCall, testConfig } from '../testing/calls.ts'
import { type Program, runPrograms, UNIT_STEPS } from '../testing/programs.ts'
import { ARRIVALS_MAX, ArrivalLog } from './arrival-log.ts'
import { type ReplayEngine, replayFcfs } from './fcfs-replay.ts'

const ENGINE: ReplayEngine = { seats: 1, kv_capacity_tokens: 0 }
const NOTHING_OPEN = () => 0

interface Told {
  lease: string
  at_us: number
  program?: string
  tenant?: string
  /** Null: it is open. */
  service_us: number | null
  wait_us?: number
  kv_tokens?: number
}

function logged(log: ArrivalLog, { lease, at_us, program = lease, tenant = 't', service_us, ...told }: Told): void {
  const { wait_us = 0, kv_tokens = 1 } = told
  log.arrived(engineCall({ lease, program, tenant }), lease, at_us)
  log.promptTokens(lease, kv_tokens)
  if (service_us === null) return
  log.ended(lease, { at_us: at_us + wait_us + service_us, service_us, wait_us, kv_tokens })
}

function logOf(calls: readonly Told[]): ArrivalLog {
  const log = new ArrivalLog()
  for (const call of calls) logged(log, call)
  return log
}

/** By call: its estimate, or why there is none. */
function replayed(log: ArrivalLog, program: string, engine = ENGINE, served = NOTHING_OPEN): Record<string, unknown> {
  const replay = replayFcfs(log, engine, program, served)
  if (replay.status !== 'replayed') throw new Error(replay.status)
  return Object.fromEntries(replay.calls.map((call) => [call.id, told(call)]))
}

function told(call: ReplayedCall): unknown {
  if (call.status === 'unknown') return call.reason
  return call.at_least ? [call.fcfs_wait_us] : call.fcfs_wait_us
}

describe('the replay under first come, first served', () => {
  test('a short call that passed a long one would have waited for it', () => {
    const log = logOf([
      { lease: 'long', at_us: 0, service_us: 100_000, wait_us: 5_000 },
      { lease: 'short', at_us: 10_000, service_us: 5_000 },
    ])
    expect(replayed(log, 'short')).toEqual({ short: 90_000 })
    expect(replayed(log, 'long')).toEqual({ long: 0 })
    expect(replayed(log, 'short', { ...ENGINE, seats: 2 })).toEqual({ short: 0 })
  })

  test('a call whose context does not fit waits for room, and those behind it wait too', () => {
    const log = logOf([
      { lease: 'a', at_us: 0, service_us: 50_000, kv_tokens: 60 },
      { lease: 'b', at_us: 10_000, service_us: 20_000, kv_tokens: 60 },
      { lease: 'c', at_us: 11_000, service_us: 5_000, kv_tokens: 10 },
    ])
    const engine = { seats: 4, kv_capacity_tokens: 100 }
    expect([replayed(log, 'b', engine), replayed(log, 'c', engine)]).toEqual([{ b: 40_000 }, { c: 39_000 }])
    expect(replayed(log, 'b', { seats: 4, kv_capacity_tokens: 50 })).toEqual({ b: 40_000 })
  })

  test('the next call of a program comes as long after the one before as it did', () => {
    const log = logOf([
      { lease: 'long', at_us: 0, service_us: 100_000, wait_us: 10_000 },
      { lease: 'first', program: 'p', at_us: 1_000, service_us: 5_000 },
      { lease: 'second', program: 'p', at_us: 7_000, service_us: 5_000 },
    ])
    // The first ends at 105 ms, and the second comes a millisecond later.
    expect(replayed(log, 'p')).toEqual({ first: 99_000, second: 0 })
  })

  test('tenants share the seats as they do, so one that floods the engine delays itself', () => {
    const flood = Array.from({ length: 20 }, (_, n) => ({ lease: `f${n}`, tenant: 'f', at_us: n, service_us: 10_000 }))
    const log = logOf([...flood, { lease: 'own', tenant: 'o', at_us: 100, service_us: 10_000 }])
    const { own } = replayed(log, 'own', { seats: 2, kv_capacity_tokens: 0 })
    expect(own).toBeLessThan(40_000)
  })

  test('says what it does not know: open calls, forgotten neighbours, and what open calls will still need', () => {
    const log = logOf([
      { lease: 'open', at_us: 0, service_us: null },
      { lease: 'done', at_us: 1_000, service_us: 5_000 },
    ])
    expect(replayed(log, 'open')).toEqual({ open: 'open' })
    expect(replayed(log, 'done', ENGINE, () => 40_000)).toEqual({ done: [39_000] })
    expect(replayed(log, 'nothing of it')).toEqual({})
  })

  test('a call that ran beside forgotten ones is unknown, and later ones are known', () => {
    const log = new ArrivalLog()
    logged(log, { lease: 'beside', at_us: 0, service_us: null })
    for (let n = 1; n < ARRIVALS_MAX; n++) logged(log, { lease: `c${n}`, at_us: n * 10, service_us: 5 })
    expect(log.size).toBe(ARRIVALS_MAX)
    logged(log, { lease: 'after', at_us: 30_000, service_us: 5 })
    expect(log.size).toBe(ARRIVALS_MAX)
    // The forgotten call is still open, and what runs beside it is not known.
    expect(replayed(log, 'after')).toEqual({ after: 'too_early' })
    log.ended('beside', { at_us: 31_000, service_us: 31_000, wait_us: 0, kv_tokens: 1 })
    logged(log, { lease: 'last', at_us: 32_000, service_us: 5 })
    expect([replayed(log, 'after'), replayed(log, 'last')]).toEqual([{ after: 'too_early' }, { last: 0 }])
  })

  test('a call that was refused is as if it had not come', () => {
    const log = logOf([
      { lease: 'refused', at_us: 0, service_us: 0 },
      { lease: 'a', at_us: 1, service_us: 5 },
    ])
    expect([log.size, replayed(log, 'refused')]).toEqual([1, {}])
  })

  test('gives up past its bound of work', () => {
    const log = logOf(Array.from({ length: 10 }, (_, n) => ({ lease: `c${n}`, at_us: n, service_us: 100 })))
    expect(replayFcfs(log, ENGINE, 'c9', NOTHING_OPEN, 10)).toEqual({
      ...{ status: 'unknown', reason: 'too_long' },
    })
    expect(replayFcfs(log, ENGINE, 'c9', NOTHING_OPEN, 100).status).toBe('replayed')
  })

  test('a full log of one tenant stays within the bound, and one of as many tenants exceeds it', () => {
    const full = (tenantOf: (n: number) => string) =>
      logOf(
        Array.from({ length: ARRIVALS_MAX }, (_, n) => ({
          ...{ lease: `c${n}`, tenant: tenantOf(n), at_us: n, service_us: 500_000 },
        })),
      )
    const last = `c${ARRIVALS_MAX - 1}`
    expect(
      replayed(
        full(() => 't'),
        last,
      ),
    ).toEqual({ [last]: (ARRIVALS_MAX - 1) * (500_000 - 1) })
    expect(
      replayFcfs(
        full((n) => `t${n}`),
        ENGINE,
        last,
        NOTHING_OPEN,
      ).status,
    ).toBe('unknown')
  })
})

/** Two long programs, and short ones that come while they run. */
const PROGRAMS: Program[] = [
  ...[0, 1].map((n) => ({ id: `long ${n}`, at_us: n * 1_000, calls: [{ output_tokens: 80 }, { output_tokens: 80 }] })),
  ...Array.from({ length: 12 }, (_, n) => ({
    id: `short ${n}`,
    at_us: 20_000 + n * 9_000,
    calls: [{ output_tokens: 6 }, { output_tokens: 4, gap_us: 3_000 }],
  })),
]

/** Runs the scheduler, and logs what it did as the agent does. */
function ran(policy: PolicyName) {
  const config = testConfig({ policy: createPolicy({ name: policy }), seats: 2, slots: 16, ordering: 'wall' })
  const run = runPrograms(config, PROGRAMS, { profile: UNIT_STEPS })
  const log = new ArrivalLog()
  for (const event of run.events) {
    if (event.do !== 'submit') continue
    const { call } = event
    const ended = run.ended.get(call.lease)
    if (ended === undefined) throw new Error(`${call.lease} did not end`)
    const { measurement: m } = ended
    log.arrived(call, call.lease, event.at_us)
    log.promptTokens(call.lease, m.prompt_tokens)
    const kv_tokens = m.prompt_tokens + m.output_tokens
    log.ended(call.lease, {
      at_us: event.at_us + m.duration_us,
      service_us: m.service_wall_us,
      wait_us: m.wait_us,
      kv_tokens,
    })
  }
  return { run, log, engine: { seats: 2, kv_capacity_tokens: config.capacity_blocks * config.block_tokens } }
}

function waitOf(log: ArrivalLog, engine: ReplayEngine, program: string): number {
  const replay = replayFcfs(log, engine, program, NOTHING_OPEN)
  if (replay.status !== 'replayed') throw new Error(replay.status)
  return replay.calls.reduce((sum, call) => sum + (call.status === 'estimated' ? call.fcfs_wait_us : Number.NaN), 0)
}

test('of a scheduler that ran under fcfs the replay gives the waits that were measured', () => {
  const { run, log, engine } = ran('fcfs')
  for (const { id } of PROGRAMS) expect([id, waitOf(log, engine, id)]).toEqual([id, run.wait_us.get(id)])
})

test('of one that ran under plas it gives the waits that the same programs have under fcfs', () => {
  const { run, log, engine } = ran('plas')
  const truth = ran('fcfs').run
  let short_us = { measured: 0, estimated: 0, truth: 0 }
  for (const { id } of PROGRAMS) {
    if (!id.startsWith('short')) continue
    short_us = {
      measured: short_us.measured + (run.wait_us.get(id) ?? 0),
      estimated: short_us.estimated + waitOf(log, engine, id),
      truth: short_us.truth + (truth.wait_us.get(id) ?? 0),
    }
  }
  expect(short_us.truth).toBeGreaterThan(3 * short_us.measured)
  expect(Math.abs(short_us.estimated / short_us.truth - 1)).toBeLessThan(0.1)
})
