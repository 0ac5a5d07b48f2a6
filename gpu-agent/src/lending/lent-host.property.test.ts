/**
 * A host under random stages, starts that fail, leases that run out and engines that take their time. At every moment no two lent engines have one
 * GPU, and in the end it comes to what was wanted last.
 */
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import type { HomeEngine, WantedEngine } from '../../../src/protocol/host.ts'
import { LentHost } from './lent-host.ts'

const GPUS = 4
const LEASE_MS = 50_000
const HOME: HomeEngine[] = [
  { id: 'h-e0', model: 'home', gpus: [0, 1] },
  { id: 'h-e1', model: 'home', gpus: [2, 3] },
]

interface World {
  host: LentHost
  /** Engines with a process, by id. */
  up: Map<string, readonly number[]>
  /** Starts that fail from here on. */
  failing: { left: number }
  clashes: string[]
}

function world(): World {
  const up = new Map<string, readonly number[]>(HOME.map(({ id, gpus }) => [id, gpus]))
  const failing = { left: 0 }
  const clashes: string[] = []
  let steps = 0
  const later = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, (steps++ % 7) * 300))
  const host = new LentHost({
    ...{ agent: 'h', home: HOME, isUp: () => true, changed: () => undefined, report: () => undefined },
    start: async ({ id, gpus }) => {
      for (const [other, taken] of up) if (taken.some((gpu) => gpus.includes(gpu))) clashes.push(`${id} on ${other}`)
      up.set(id, gpus)
      await later()
      if (failing.left === 0) return
      failing.left -= 1
      up.delete(id)
      throw new Error('no memory')
    },
    end: async (id) => {
      await later()
      up.delete(id)
    },
    random: () => 0.5,
    start_pause: { min_ms: 100, max_ms: 1000 },
  })
  return { host, up, failing, clashes }
}

/** Engines on disjoint GPUs. */
const stage = fc
  .array(fc.record({ model: fc.constantFrom('x', 'y', 'home'), tp: fc.constantFrom(1, 2) }), { maxLength: 4 })
  .map((list): WantedEngine[] => {
    const engines: WantedEngine[] = []
    let first = 0
    for (const { model, tp } of list) {
      const from = Math.ceil(first / tp) * tp
      if (from + tp > GPUS) break
      engines.push({ model, gpus: Array.from({ length: tp }, (_, at) => from + at) })
      first = from + tp
    }
    return engines
  })
const event = fc.oneof(
  fc.record({ kind: fc.constant('stage' as const), engines: stage }),
  fc.record({ kind: fc.constant('late stage' as const), engines: stage }),
  fc.record({ kind: fc.constant('fail' as const), starts: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 3000 }) }),
)

/** Engines that are ready, as model and GPUs. */
const ready = (host: LentHost): string[] =>
  host.engines.filter(({ state }) => state === 'ready').map(({ model, gpus }) => `${model} ${gpus.join('+')}`)
const named = (engines: readonly WantedEngine[]): string[] =>
  engines.map(({ model, gpus }) => `${model} ${gpus.join('+')}`)

test('comes to what is wanted, whatever came before, and home in the end', async () => {
  vi.useFakeTimers()
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 12 }), stage, async (events, last) => {
        const { host, up, failing, clashes } = world()
        let epoch = 1
        for (const one of events) {
          if (one.kind === 'wait') await vi.advanceTimersByTimeAsync(one.ms)
          else if (one.kind === 'fail') failing.left = one.starts
          else if (one.kind === 'late stage')
            expect(host.stage({ type: 'stage', epoch: epoch - 2, lease_ms: LEASE_MS, engines: one.engines })).toBe(
              false,
            )
          else {
            epoch += 1
            expect(host.stage({ type: 'stage', epoch, lease_ms: LEASE_MS, engines: one.engines })).toBe(true)
          }
          if (epoch === 1) host.stage({ type: 'stage', epoch, lease_ms: LEASE_MS, engines: [] })
        }
        epoch += 1
        host.stage({ type: 'stage', epoch, lease_ms: LEASE_MS, engines: last })
        await vi.advanceTimersByTimeAsync(30_000)
        expect(ready(host)).toEqual(expect.arrayContaining(named(last)))
        const wanted_gpus = new Set(last.flatMap(({ gpus }) => gpus))
        const others = ready(host).filter((name) => !named(last).includes(name))
        // Only home engines on GPUs that nobody wants.
        for (const name of others) {
          const home = HOME.find(({ model, gpus }) => name === `${model} ${gpus.join('+')}`)
          expect(home?.gpus.some((gpu) => wanted_gpus.has(gpu))).toBe(false)
        }
        // Nobody renews it.
        await vi.advanceTimersByTimeAsync(LEASE_MS + 30_000)
        expect(ready(host).sort()).toEqual(named(HOME).sort())
        expect([...up.keys()].sort()).toEqual(HOME.map(({ id }) => id))
        expect(host.lent).toBe(false)
        expect(clashes).toEqual([])
        await host.stop()
      }),
      { numRuns: 150 },
    )
  } finally {
    vi.useRealTimers()
  }
})
