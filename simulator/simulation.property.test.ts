/** What must hold of every simulation, over random DAGs, policies, balancers, regions and sizes. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type CallResult, type SimulationConfig, simulate } from './simulation.ts'
import { configOf, PROGRAMS, WORLDS } from './testing/random-programs.ts'

function played(config: SimulationConfig) {
  const calls: CallResult[] = []
  const result = simulate({ ...config, onCall: (call) => calls.push(call) })
  return { calls, result }
}

/** Everything that comes out, but for how many events it took. */
function bytes(config: SimulationConfig): string {
  const { calls, result } = played(config)
  return JSON.stringify({ calls, result: { ...result, step_events: 0 } })
}

const startOf = ({ ended_us, measured }: CallResult) => ended_us - measured.duration_us

describe('any simulation', { timeout: 60_000 }, () => {
  it('ends every call once, with all its tokens, and accounts for all of its time', () => {
    fc.assert(
      fc.property(PROGRAMS, WORLDS, (shapes, world) => {
        const config = configOf(shapes, world)
        const { calls, result } = played(config)
        const stated = config.programs.flatMap(({ calls: own }) => own)
        expect(calls.length).toBe(stated.length)
        for (const { program, call, measured } of calls) {
          const { prompt_tokens, output_tokens } = config.programs[program]?.calls[call] ?? {}
          expect(measured).toMatchObject({ prompt_tokens, output_tokens })
          expect(measured.service_wall_us + measured.wait_us).toBe(measured.duration_us)
          if (!world.prefix_cache) expect(measured.cached_tokens).toBe(0)
        }
        expect(new Set(calls.map(({ program, call }) => `${program}/${call}`)).size).toBe(stated.length)
        for (const program of result.programs) expect(program.response_us).toBeGreaterThan(0)
      }),
      { numRuns: 150 },
    )
  })

  it('starts no call before its program, its parents and their tools', () => {
    fc.assert(
      fc.property(PROGRAMS, WORLDS, (shapes, world) => {
        const config = configOf(shapes, world)
        const { calls } = played(config)
        const ended = new Map(calls.map((one) => [`${one.program}/${one.call}`, one]))
        for (const one of calls) {
          const { parents = [] } = config.programs[one.program]?.calls[one.call] ?? {}
          expect(startOf(one)).toBeGreaterThanOrEqual(config.arrivals_us[one.program] as number)
          for (const parent of parents) {
            const tool_us = (config.programs[one.program]?.calls[parent]?.tool_seconds ?? 0) * 1e6
            const before = ended.get(`${one.program}/${parent}`) as CallResult
            expect(startOf(one)).toBeGreaterThanOrEqual(before.ended_us + Math.round(tool_us))
          }
        }
      }),
      { numRuns: 100 },
    )
  })

  it('keeps KV within capacity, and an engine busy exactly while it has calls', () => {
    fc.assert(
      fc.property(PROGRAMS, WORLDS, (shapes, world) => {
        const config = configOf(shapes, { ...world, engines: [1] })
        const { capacity_blocks, block_tokens } = config.profile
        const onStepped: SimulationConfig['onStepped'] = ({ scheduler }) => {
          expect(scheduler.status().kv_used_tokens).toBeLessThanOrEqual(capacity_blocks * block_tokens)
        }
        const { calls, result } = played({ ...config, onStepped })
        expect(result.busy_us).toBe(unionUs(calls.map((one) => [startOf(one), one.ended_us])))
      }),
      { numRuns: 100 },
    )
  })

  it('gives the same bytes for the same seed, and whether it jumps or steps', () => {
    fc.assert(
      fc.property(PROGRAMS, WORLDS, (shapes, world) => {
        const config = configOf(shapes, world)
        const jumped = bytes(config)
        expect(bytes(configOf(shapes, world))).toBe(jumped)
        expect(bytes({ ...config, jump: false })).toBe(jumped)
      }),
      { numRuns: 250 },
    )
  })

  it('jumps over steps that nothing interrupts', () => {
    const call = { thread: 0, parents: [], tool: null, tool_seconds: null, shared_prefix_tokens: 0, prefix_of: null }
    const calls = [{ ...call, prompt_tokens: 10, output_tokens: 24 }]
    const [world] = fc.sample(WORLDS, { seed: 1, numRuns: 1 })
    if (world === undefined) throw new Error('a world is drawn')
    const drawn = { ...world, policy: 'fcfs', engines: [1], capacity_blocks: 90, report_us: 1_000_000 } as const
    const config = { ...configOf([], { ...drawn, engines: [1] }), arrivals_us: [0] }
    const { result } = played({ ...config, programs: [{ id: 'p', workload: 'w', calls }] })
    expect(result.steps).toBe(24)
    expect(result.step_events).toBeLessThanOrEqual(4)
  })
})

/** Length of the union of intervals. */
function unionUs(intervals: [number, number][]): number {
  let union_us = 0
  let covered_us = 0
  for (const [from_us, to_us] of intervals.sort(([a], [b]) => a - b)) {
    union_us += Math.max(0, to_us - Math.max(from_us, covered_us))
    covered_us = Math.max(covered_us, to_us)
  }
  return union_us
}
