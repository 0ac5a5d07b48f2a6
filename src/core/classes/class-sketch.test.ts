import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ClassSketchData } from '../../protocol/classes.ts'
import { ClassSketch, ENDS_REMEMBERED } from './class-sketch.ts'
import type { EndedProgram } from './ended-program.ts'

const figure = fc.integer({ min: 0, max: 10_000_000_000 })
const program: fc.Arbitrary<EndedProgram> = fc.record({
  output_tokens: fc.integer({ min: 1, max: 1_000_000 }),
  calls: fc.integer({ min: 1, max: 20_000 }),
  ...{ path_us: figure, service_us: figure, tool_us: figure, later_prompt_tokens: figure },
})

const ended = (output_tokens: number, change: Partial<EndedProgram> = {}): EndedProgram => ({
  ...{ output_tokens, calls: 1, path_us: 1, service_us: 1, tool_us: 0, later_prompt_tokens: 0 },
  ...change,
})

function sketchOf(programs: readonly EndedProgram[]): ClassSketch {
  const sketch = new ClassSketch()
  for (const one of programs) sketch.add(one)
  return sketch
}

describe('a class', () => {
  it('survives the wire, and what comes over it is within its bounds', () => {
    fc.assert(
      fc.property(fc.array(program, { maxLength: 50 }), (programs) => {
        const data = sketchOf(programs).data()
        const read = ClassSketchData.parse(JSON.parse(JSON.stringify(data)))
        expect(read).toEqual(data)
        expect(ClassSketch.from(read).data()).toEqual(data)
      }),
    )
  })

  it('does not depend on the order in which two are merged', () => {
    fc.assert(
      fc.property(fc.array(program, { maxLength: 20 }), fc.array(program, { maxLength: 20 }), (one, other) => {
        const forth = sketchOf(one)
        forth.merge(sketchOf(other))
        const back = sketchOf(other)
        back.merge(sketchOf(one))
        expect(forth.ends).toBe(one.length + other.length)
        expect(back.ends).toBe(forth.ends)
        for (const share of [0.1, 0.5, 0.9]) {
          const quantile = forth.output_tokens.quantile(share)
          if (quantile === null) expect(back.output_tokens.quantile(share)).toBeNull()
          else expect(back.output_tokens.quantile(share)).toBeCloseTo(quantile, 6)
        }
      }),
    )
  })

  it('follows a workload that changes', () => {
    const sketch = sketchOf(Array.from({ length: 5 * ENDS_REMEMBERED }, () => ended(10)))
    expect(sketch.output_tokens.weight).toBeGreaterThan(0.99 * ENDS_REMEMBERED)
    expect(sketch.output_tokens.weight).toBeLessThanOrEqual(ENDS_REMEMBERED)
    for (let end = 0; end < ENDS_REMEMBERED; end++) sketch.add(ended(10_000))
    expect(sketch.output_tokens.quantile(0.5)).toBeCloseTo(10_000, 6)
    expect(sketch.output_tokens.quantile(0.3)).toBeCloseTo(10, 6)
    for (let end = 0; end < 4 * ENDS_REMEMBERED; end++) sketch.add(ended(10_000))
    expect(sketch.output_tokens.quantile(0.02)).toBeCloseTo(10_000, 6)
    expect(sketch.ends).toBe(10 * ENDS_REMEMBERED)
  })

  it('tells how far programs differ by the number of their calls: the share of a mean call that an open call is taken for', () => {
    const share = (programs: readonly (readonly [calls: number, output_tokens: number])[]) =>
      sketchOf(programs.map(([calls, output_tokens]) => ended(output_tokens, { calls }))).call_share
    expect(share([])).toBe(0)
    expect(share(Array(9).fill([3, 600] as const))).toBe(0)
    expect(
      share([
        [2, 20],
        [2, 200],
        [2, 2_000],
      ]),
    ).toBe(0)
    expect(
      share([
        [1, 100],
        [4, 400],
        [16, 1_600],
      ]),
    ).toBeCloseTo(1)
    expect(
      share([
        [1, 100],
        [2, 400],
        [4, 1_600],
      ]),
    ).toBeCloseTo(0.5)
    expect(
      share([
        [1, 100],
        [8, 100],
        [1, 200],
        [8, 200],
      ]),
    ).toBe(1)
  })

  it('learns nothing from a program without output', () => {
    expect(sketchOf([ended(0, { later_prompt_tokens: 50 })]).data()).toEqual(new ClassSketch().data())
  })

  it('knows what its output costs in prompts, and that nothing costs nothing', () => {
    expect(new ClassSketch().prompt_tokens_per_output_token).toBe(0)
    const sketch = sketchOf([ended(10, { later_prompt_tokens: 30 }), ended(10, { later_prompt_tokens: 30 })])
    expect(sketch.prompt_tokens_per_output_token).toBeCloseTo(3, 9)
  })
})

describe('the wire form', () => {
  const data = sketchOf([ended(7), ended(700)]).data()
  const [low, high] = data.output_tokens as [(typeof data.output_tokens)[0], (typeof data.output_tokens)[0]]

  it.each([
    ['bins that do not ascend', [high, low]],
    ['a bin twice', [low, low]],
    ['a bin beyond the last', [[213, 1, 1]]],
    ['a weight of nothing', [[1, 0, 0]]],
    ['a sum below nothing', [[1, 1, -1]]],
    ['what is no number', [[1, 1, null]]],
  ])('is refused with %s', (_, bins) => {
    expect(ClassSketchData.safeParse({ ...data, output_tokens: bins }).success).toBe(false)
  })
})
