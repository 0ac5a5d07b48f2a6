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

  it('gives the same where a call that waits beside a free seat has come back from its image', () => {
    const call = (
      parents: number,
      new_tokens: number,
      output_tokens: number,
      tool_seconds: 0.001 | 0.02 | null = null,
    ) => ({
      ...{ parents, new_tokens, output_tokens, tool_seconds },
    })
    const program = (arrival_us: number, calls: ReturnType<typeof call>[], app_prefix_tokens: 0 | 20 = 0) => ({
      ...{ calls, app_prefix_tokens, app: 'chat' as const, client: {}, arrival_us },
    })
    const shapes = [
      program(0, [call(0, 1, 1, 0.02), call(51, 1, 1), call(0, 1, 1)]),
      program(20601, [call(0, 1, 6)]),
      program(0, [call(0, 1, 1)]),
      program(20601, [call(0, 1, 8), call(20, 1, 7), call(132, 1, 1)]),
      program(19996, [call(0, 4, 5), call(0, 4, 11), call(0, 4, 9)]),
      program(15780, [
        call(0, 2, 2, 0.001),
        call(0, 16, 16),
        call(93, 8, 5),
        call(38, 1, 5),
        call(4, 1, 8),
        call(68, 1, 4),
      ]),
      program(42946, [call(0, 1, 1), call(0, 1, 1)], 20),
    ]
    const config = configOf(shapes, {
      ...{
        policy: 'rr',
        balancer: 'locality',
        reading: 'modelled',
        engines: [1],
        rtt_us: 0,
        report_us: 1,
        record_us: 0,
      },
      ...{ tenants: 2, max_seqs: 2, capacity_blocks: 40, prefix_cache: false, chunked_prefill: false },
      ...{
        steps_per_decision: 4,
        standby: 'resident_first',
        hold_kv: false,
        swap_tokens: 100_000,
        decision_us: 0,
        seed: 0,
      },
    })
    const jumped = bytes(config)
    expect(JSON.parse(jumped).result.swapped_in_tokens).toBeGreaterThan(0)
    expect(bytes({ ...config, jump: false })).toBe(jumped)
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
