/** What a running system served, planned: played on the simulator, small. */
import { describe, expect, it } from 'vitest'
import { TINY } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { planServed, type ServedQuestion } from './plan-served.ts'
import { modelsOf, ofModel, type ServedProgram, served, type TenantPrograms } from './served-programs.ts'

function program(number: number, change: Partial<ServedProgram> = {}): ServedProgram {
  const call = {
    thread: 0,
    prompt_tokens: 200,
    shared_prefix_tokens: 0,
    output_tokens: 40,
    tool: null,
    tool_seconds: 0,
  }
  return {
    ...{ id: `run-${number}`, workload: 'w', app_prefix_tokens: 0, arrival_seconds: number * 0.01, response_s: 2 },
    ...{ output_tokens: 80, prompt_tokens: 500, cached_tokens: 240, engines: ['e0'], models: ['m'] },
    calls: [
      { ...call, parents: [] },
      { ...call, parents: [0], prompt_tokens: 300, shared_prefix_tokens: 240 },
    ],
    ...change,
  }
}

const tenants = (of: readonly ServedProgram[]): TenantPrograms[] => [
  { tenant: 'a', weight: 1, programs: of.filter((_, at) => at % 2 === 0) },
  { tenant: 'b', weight: 3, programs: of.filter((_, at) => at % 2 === 1) },
]
const PROGRAMS = Array.from({ length: 40 }, (_, number) => program(number))
const TARGET = { measure: 'ms_per_token', at_most: 1e9 } as const
const QUESTION: ServedQuestion = {
  ...{ tenants: tenants(PROGRAMS), profiles: [TINY], policies: ['plas', 'fcfs'], balancers: ['cost-aware'] },
  ...{ target: TARGET, range: { min: 1, max: 8 }, gpu_cost: 2 },
}

describe('a plan of what was served', () => {
  it('names the fewest engines, has played one fewer, and plays as many as served it', async () => {
    const alone = await planServed(QUESTION)
    expect(alone?.candidates.map(({ fewest_engines }) => fewest_engines)).toEqual([1, 1])
    const [best] = alone?.candidates ?? []
    // One engine served it here, so that size is in the curve already.
    expect(alone?.p95_as_served).toBe(best?.played[0]?.p95)
    const at_most = (best?.played[0]?.p95 ?? 0) * 0.7
    const plan = await planServed({ ...QUESTION, policies: ['plas'], target: { ...TARGET, at_most } })
    const [found] = plan?.candidates ?? []
    const fewest = found?.fewest_engines ?? 0
    expect(fewest).toBeGreaterThan(1)
    expect(found?.played.find(({ engines }) => engines === fewest - 1)?.meets).toBe(false)
  })

  it('leaves out and counts programs that an engine has no room for, and is nothing where none is left', async () => {
    const long = {
      ...PROGRAMS[0],
      id: 'long',
      calls: [{ ...(PROGRAMS[0] as ServedProgram).calls[0], prompt_tokens: 5000 }],
    }
    const plan = await planServed({ ...QUESTION, tenants: tenants([...PROGRAMS, long as ServedProgram]) })
    expect([plan?.too_long, plan?.served.programs]).toEqual([1, 40])
    expect(await planServed({ ...QUESTION, tenants: tenants([long as ServedProgram]) })).toBeNull()
  })

  it('gives the same answer for the same programs', async () => {
    expect(await planServed(QUESTION)).toEqual(await planServed(QUESTION))
  })
})

describe('what was served', () => {
  it('is measured in the target’s unit, over the engines that served it', () => {
    const two = [program(0), program(100, { response_s: 4, engines: ['e0', 'e1'] })]
    expect(served(tenants(two), TARGET)).toMatchObject({
      ...{ programs: 2, calls: 4, span_s: 1, engines: 2, cached_prompt_share: 0.48 },
    })
    expect(served(tenants(two), { ...TARGET, measure: 'program_s' }).p95).toBeCloseTo(3.9)
    expect(served(tenants([program(0)]), TARGET).p95).toBe(25)
  })

  it('is planned for one model at a time', () => {
    const mixed = tenants([program(0), program(1, { models: ['n'] }), program(2, { models: ['m', 'n'] }), program(3)])
    expect(modelsOf(mixed)).toEqual(['m', 'n'])
    expect(
      ofModel(mixed, 'm')
        .flatMap(({ programs }) => programs.map(({ id }) => id))
        .sort(),
    ).toEqual(['run-0', 'run-3'])
    expect(ofModel(mixed, 'none')).toEqual([])
  })
})
