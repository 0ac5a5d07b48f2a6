import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Objective } from '../../protocol/objective.ts'
import { ClassSketch } from './class-sketch.ts'
import { type IndexStep, indexOf, indexSteps, indexTable, type Sample, stepAt, TOKENS_MAX } from './index-table.ts'

const program = { calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 }

function sketchOf(outputs: readonly number[]): ClassSketch {
  const sketch = new ClassSketch()
  for (const output_tokens of outputs) sketch.add({ ...program, output_tokens })
  return sketch
}

/** The definition, over every time at which a program may be stopped. */
function gittins(samples: readonly Sample[], o: number, k: number, objective: Objective): number {
  const later = samples.filter(({ tokens }) => tokens > o)
  const worth = (d: number) =>
    later.reduce(
      (sum, { tokens, weight }) => sum + (tokens <= d ? weight / (objective === 'response' ? 1 : tokens) : 0),
      0,
    )
  const total = later.reduce((sum, { weight }) => sum + weight, 0)
  const all = worth(Number.POSITIVE_INFINITY)
  let least = Number.POSITIVE_INFINITY
  for (const { tokens: d } of later) {
    if (worth(d) < 0.02 * all) continue
    const cost = later.reduce((sum, { tokens, weight }) => sum + weight * (Math.min(tokens, d) - o), 0)
    least = Math.min(least, (k * total + cost) / worth(d))
  }
  return least
}

const samples = fc
  .uniqueArray(
    fc.record({ tokens: fc.integer({ min: 1, max: 20_000 }), weight: fc.double({ min: 0.01, max: 10, noNaN: true }) }),
    {
      minLength: 1,
      maxLength: 30,
      selector: ({ tokens }) => tokens,
    },
  )
  .map((some) => [...some.sort((a, b) => a.tokens - b.tokens), { tokens: TOKENS_MAX, weight: 0.001 }])

describe('the index', () => {
  it('is the least cost for its worth over every time to stop, for every k, or up to 1 % more', () => {
    fc.assert(
      fc.property(
        samples,
        fc.nat(20_000),
        fc.nat(50_000),
        fc.constantFrom<Objective>('token_latency', 'response'),
        (some, o, k, objective) => {
          const steps = indexSteps(some, objective)
          const step = steps[stepAt({ steps }, o)] as IndexStep
          const expected = gittins(some, step.from_tokens, k, objective)
          const ratio = indexOf(step, k) / expected
          expect(ratio).toBeGreaterThan(1 - 1e-9)
          expect(ratio).toBeLessThan(1.01 + 1e-9)
        },
      ),
    )
  })

  it('falls with output where all programs are alike, and rises with it beyond 200 tokens where nothing is known', () => {
    const alike = indexTable(sketchOf(Array(500).fill(1000)))
    const unknown = indexTable(null)
    const index = (table: typeof alike, o: number) => indexOf(table.steps[stepAt(table, o)] as IndexStep, 0)
    const known = [0, 100, 300, 600, 900].map((o) => index(alike, o))
    expect(known).toEqual([...known].sort((a, b) => b - a))
    const guessed = [200, 400, 1000, 5000, 20_000].map((o) => index(unknown, o))
    expect(guessed).toEqual([...guessed].sort((a, b) => a - b))
  })

  it('charges a lost context: more prompt tokens never make it less', () => {
    fc.assert(
      fc.property(samples, fc.nat(20_000), fc.nat(50_000), fc.nat(50_000), (some, o, k, more) => {
        const steps = indexSteps(some, 'token_latency')
        const step = steps[stepAt({ steps }, o)] as IndexStep
        expect(indexOf(step, k + more)).toBeGreaterThanOrEqual(indexOf(step, k))
      }),
    )
  })

  it('goes on beyond the longest program that was seen', () => {
    const table = indexTable(sketchOf([10, 20, 40]))
    const far = [1e3, 1e4, 1e5, 1e6, 1e9].map((o) => indexOf(table.steps[stepAt(table, o)] as IndexStep, 0))
    expect(far.every(Number.isFinite)).toBe(true)
    expect(far).toEqual([...far].sort((a, b) => a - b))
  })
})

describe('the prior of a class that is new to its tenant', () => {
  const others = sketchOf([...Array(100).fill(20), ...Array(100).fill(2000)])
  const index = (table: ReturnType<typeof indexTable>, o: number) =>
    indexOf(table.steps[stepAt(table, o)] as IndexStep, 0)

  it('is what its other programs had, calls too', () => {
    const unknown = indexTable(null, 'token_latency', others)
    expect(unknown.call_tokens).toBe(others.call_tokens)
    expect(index(unknown, 0)).toBeLessThan(index(indexTable(null), 0))
    expect(index(unknown, 30)).toBeGreaterThan(index(unknown, 0))
  })

  it('gives way to its own programs: those that go on for longer, and the first that ends', () => {
    const going_on = new ClassSketch()
    const median = () => indexTable(going_on, 'token_latency', others).steps[0]?.median_tokens as number
    expect(median()).toBeLessThan(2100)
    for (let open = 0; open < 4; open++) going_on.going_on.add(3000)
    expect(median()).toBeGreaterThan(2500)
    const ended = sketchOf([2000])
    expect(indexTable(ended, 'token_latency', others)).toEqual(indexTable(ended))
  })

  it('takes few programs of others for a hint, not for sure', () => {
    const table = indexTable(null, 'token_latency', sketchOf([20]))
    expect(index(table, 1000)).toBeGreaterThan(index(table, 0))
    expect(table.steps[0]?.remaining_tokens).toBeGreaterThan(100)
  })
})

describe('expected remaining tokens', () => {
  it('are the mean of what the programs that go on still have', () => {
    const some = [100, 200, 400].map((tokens) => ({ tokens, weight: 1 }))
    const steps = indexSteps([...some, { tokens: TOKENS_MAX, weight: 1e-12 }], 'token_latency')
    const at = (o: number) => (steps[stepAt({ steps }, o)] as IndexStep).remaining_tokens
    expect(at(0)).toBeCloseTo(700 / 3, 1)
    const step = steps.findLast(({ from_tokens }) => from_tokens <= 150)?.from_tokens as number
    expect(at(150)).toBeCloseTo((200 + 400) / 2 - step, 1)
  })
})
