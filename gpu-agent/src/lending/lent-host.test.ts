import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { HomeEngine, WantedEngine } from '../../../src/protocol/host.ts'
import type { AgentEvent } from '../events.ts'
import { LEND_DRAIN_LIMIT_MS, LentHost } from './lent-host.ts'

const HOME: HomeEngine[] = [{ id: 'h-e0', model: 'home', gpus: [0, 1] }]
const LEASE_MS = 60_000

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function hostWith(start: (id: string, leaving: AbortSignal) => Promise<void> = async () => undefined) {
  const done: string[] = []
  const events: AgentEvent[] = []
  const host = new LentHost({
    ...{ agent: 'h', home: HOME, isUp: () => true, changed: () => undefined, random: () => 0 },
    report: (event) => events.push(event),
    start: async ({ id, home }, leaving) => {
      await start(id, leaving)
      done.push(`${home ? 'home ' : ''}start ${id}`)
    },
    end: async (id, limit_ms) => {
      expect(limit_ms).toBe(LEND_DRAIN_LIMIT_MS)
      done.push(`end ${id}`)
    },
  })
  const stage = (epoch: number, engines: WantedEngine[]) =>
    host.stage({ type: 'stage', epoch, lease_ms: LEASE_MS, engines })
  return { host, done, events, stage }
}

const settled = () => vi.advanceTimersByTimeAsync(0)

test('a home engine stops before its GPUs are used, and comes back under its own id', async () => {
  const { stage, done, host } = hostWith()
  stage(1, [{ model: 'x', gpus: [1] }])
  await settled()
  expect(done).toEqual(['end h-e0', 'start h-x1'])
  expect(host.lent).toBe(true)
  stage(2, [])
  await settled()
  expect(done.slice(2)).toEqual(['end h-x1', 'home start h-e0'])
  expect(host.lent).toBe(false)
})

test('between two stages home engines stay stopped, and what is wanted again goes on', async () => {
  const { stage, done } = hostWith()
  stage(1, [
    { model: 'x', gpus: [0] },
    { model: 'y', gpus: [1] },
  ])
  await settled()
  stage(2, [{ model: 'x', gpus: [0] }])
  await settled()
  expect(done).toEqual(['end h-e0', 'start h-x0', 'start h-x1', 'end h-x1'])
})

test('a home engine that is what a stage wants is not loaded again', async () => {
  const { stage, done, host } = hostWith()
  stage(1, [{ model: 'home', gpus: [0, 1] }])
  await settled()
  expect(done).toEqual([])
  expect(host.engines).toMatchObject([{ id: 'h-e0', home: true, state: 'ready' }])
})

test('the same epoch renews the lease; without it the host returns', async () => {
  const { stage, done, events } = hostWith()
  stage(1, [{ model: 'x', gpus: [0] }])
  await vi.advanceTimersByTimeAsync(LEASE_MS - 1)
  stage(1, [{ model: 'x', gpus: [0] }])
  await vi.advanceTimersByTimeAsync(LEASE_MS - 1)
  expect(done).toEqual(['end h-e0', 'start h-x0'])
  await vi.advanceTimersByTimeAsync(1)
  expect(done.slice(2)).toEqual(['end h-x0', 'home start h-e0'])
  expect(events).toContainEqual(expect.objectContaining({ event: 'stage_over', epoch: 1 }))
})

test('a lower epoch is refused and changes nothing', async () => {
  const { stage, done, host } = hostWith()
  expect(stage(5, [])).toBe(true)
  expect(stage(4, [{ model: 'x', gpus: [0] }])).toBe(false)
  await settled()
  expect([host.epoch, done]).toEqual([5, []])
})

test('an engine that does not start is tried again, with its reason in the status, for as long as it is wanted', async () => {
  let fails = true
  const { stage, host, done } = hostWith(async () => {
    if (fails) throw new Error('no memory')
  })
  stage(1, [{ model: 'x', gpus: [0] }])
  await settled()
  expect(host.engines).toMatchObject([{ id: 'h-x0', state: 'failed', message: 'no memory' }])
  fails = false
  await vi.advanceTimersByTimeAsync(1000)
  expect(host.engines).toMatchObject([{ id: 'h-x0', state: 'ready', message: null }])
  fails = true
  stage(2, [{ model: 'y', gpus: [0] }])
  await settled()
  stage(3, [])
  fails = false
  await vi.advanceTimersByTimeAsync(120_000)
  expect(done).toEqual(['end h-e0', 'start h-x0', 'end h-x0', 'home start h-e0'])
})

test('an engine that loads when nobody wants it any more is told so, and ends', async () => {
  let aborted = false
  const { stage, host } = hostWith((id, leaving) =>
    id === 'h-e0'
      ? Promise.resolve()
      : new Promise((_, reject) => {
          leaving.addEventListener('abort', () => {
            aborted = true
            reject(new Error('it was ended'))
          })
        }),
  )
  stage(1, [{ model: 'x', gpus: [0] }])
  await settled()
  expect(host.engines).toMatchObject([{ state: 'loading' }])
  stage(2, [])
  await settled()
  expect(aborted).toBe(true)
  expect(host.engines).toMatchObject([{ id: 'h-e0', state: 'ready' }])
})

test('a pool that refuses this agent fails its lent engines, not the home ones', async () => {
  const { stage, host } = hostWith()
  stage(1, [{ model: 'x', gpus: [0] }])
  await settled()
  host.poolRefused('x', 'There is no model "x".')
  expect(host.engines).toMatchObject([{ state: 'failed', message: 'There is no model "x".' }])
  expect([host.isHomeModel('home'), host.isHomeModel('x')]).toEqual([true, false])
})
