import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SKETCH_BINS_MAX } from '../../protocol/sketches.ts'
import { BIN_MAX, LogSketch } from './log-sketch.ts'

const value = fc.oneof(
  fc.nat(3),
  fc.integer({ min: 1, max: 200_000 }),
  fc.double({ min: 0, max: 2 ** 60, noNaN: true }),
)
const values = fc.array(value, { maxLength: 200 })
/** A bin's width. */
const QUANTILE_ERROR = 2 ** (1 / 4)

function sketchOf(all: readonly number[]): LogSketch {
  const sketch = new LogSketch()
  for (const one of all) sketch.add(one)
  return sketch
}

/** Bins alike but for the rounding of sums. */
function expectAlike(one: LogSketch, other: LogSketch): void {
  const bins = other.bins()
  expect(one.bins().map(([bin, weight]) => [bin, weight])).toEqual(bins.map(([bin, weight]) => [bin, weight]))
  for (const [at, [, , sum]] of one.bins().entries()) expect(sum / (bins[at]?.[2] || 1)).toBeCloseTo(sum > 0 ? 1 : 0, 9)
}

describe('a sketch', () => {
  it('has exact weights, and sums and quantiles as exact as its bins are narrow', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(
        fc.array(
          value.filter((one) => one >= 1 && one < 2 ** 53),
          { minLength: 1 },
        ),
        share,
        (all, at) => {
          const sketch = sketchOf(all)
          expect(sketch.weight).toBe(all.length)
          expect(sketch.sum / all.reduce((sum, one) => sum + one, 0)).toBeCloseTo(1, 9)
          const sorted = all.toSorted((a, b) => a - b)
          const exact = sorted[Math.max(0, Math.ceil(at * all.length) - 1)] as number
          const ratio = (sketch.quantile(at) as number) / exact
          expect(ratio).toBeGreaterThan(1 / QUANTILE_ERROR - 1e-9)
          expect(ratio).toBeLessThan(QUANTILE_ERROR + 1e-9)
        },
      ),
    )
  })

  it('knows how many octaves its values spread over', () => {
    const of = (values: readonly number[]) => {
      const sketch = new LogSketch()
      for (const value of values) sketch.add(value)
      return sketch.spread_octaves
    }
    expect([of([]), of([7]), of([7, 7, 7])]).toEqual([0, 0, 0])
    expect(of([10, 20])).toBeCloseTo(0.5)
    expect(of([3, 3, 48, 48])).toBeCloseTo(2)
  })

  it('knows no quantile of nothing', () => {
    expect(new LogSketch().quantile(0.5)).toBeNull()
  })

  it('has a bound, for any values', () => {
    fc.assert(
      fc.property(values, (all) => {
        const bins = sketchOf([...all, 0, 2 ** 53, Number.MAX_SAFE_INTEGER * 4]).bins()
        expect(bins.length).toBeLessThanOrEqual(SKETCH_BINS_MAX)
        expect(bins.map(([bin]) => bin)).toEqual(bins.map(([bin]) => bin).toSorted((a, b) => a - b))
        expect(bins[0]?.[0]).toBe(0)
        expect(bins.at(-1)?.[0]).toBe(BIN_MAX)
      }),
    )
    expect(BIN_MAX + 1).toBe(SKETCH_BINS_MAX)
  })

  it('does not depend on the order of merging, and is as if it had seen all the values itself', () => {
    fc.assert(
      fc.property(values, values, (one, other) => {
        const forth = sketchOf(one)
        forth.merge(sketchOf(other))
        const back = sketchOf(other)
        back.merge(sketchOf(one))
        expectAlike(forth, back)
        expectAlike(forth, sketchOf([...one, ...other]))
      }),
    )
  })

  it('does not share what it merged', () => {
    const [one, other] = [sketchOf([5]), sketchOf([5])]
    one.merge(other)
    one.add(5)
    expect(other.bins()).toEqual(sketchOf([5]).bins())
  })

  it('survives its bins', () => {
    fc.assert(fc.property(values, (all) => expectAlike(LogSketch.of(sketchOf(all).bins()), sketchOf(all))))
  })

  it('forgets what is old: bins of no weight go, and sums follow', () => {
    const sketch = sketchOf([1, 1, 1000])
    sketch.age(0.5)
    expect(sketch.bins()).toEqual([
      [1, 1, 1],
      [40, 0.5, 500],
    ])
    expect([sketch.weight, sketch.sum]).toEqual([1.5, 501])
    sketch.age(1e-3)
    sketch.age(0.15)
    expect(sketch.bins().map(([bin]) => bin)).toEqual([1])
    sketch.age(0.1)
    expect([sketch.bins(), sketch.weight, sketch.sum]).toEqual([[], 0, 0])
  })

  it('in few bins keeps its weight and its mean, and nearly its quantiles', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 2 ** 40, noNaN: true }), { minLength: 1, maxLength: 200 }),
        (values) => {
          const sketch = new LogSketch()
          for (const value of values) sketch.add(value)
          const bins = sketch.coarseBins(24)
          const back = LogSketch.of(bins)
          expect(bins.length).toBeLessThanOrEqual(24)
          for (const [at, [bin]] of bins.entries()) expect(bin).toBeGreaterThan(bins[at - 1]?.[0] ?? -1)
          expect(back.weight).toBeCloseTo(sketch.weight, 2)
          expect(Math.abs((back.mean ?? 0) - (sketch.mean ?? 0))).toBeLessThanOrEqual(1e-4 * (sketch.mean ?? 0) + 1e-9)
        },
      ),
    )
    const few = new LogSketch()
    for (const value of [1, 1, 1, 1000]) few.add(value)
    expect(LogSketch.of(few.coarseBins(24)).quantile(0.9)).toBe(1000)
    expect(few.coarseBins(1)).toEqual([[expect.any(Number), 4, 1003]])
  })
})
