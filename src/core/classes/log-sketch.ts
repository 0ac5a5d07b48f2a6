/**
 * A histogram of positive numbers in logarithmic bins, four to an octave. It is bounded, two of them can be merged, and
 * old values can be made to count for less. A bin keeps its weight and the sum of its values, so sums and means are exact,
 * and a quantile is off by at most a bin's width (19 %).
 */

/** A bin, the weight of its values, and their weighted sum. */
export type SketchBin = [bin: number, weight: number, sum: number]

const BINS_PER_OCTAVE = 4
/** The bin of values up to 2^53. */
export const BIN_MAX = 53 * BINS_PER_OCTAVE
/** Bins of less weight are dropped when a sketch is aged. */
const WEIGHT_MIN = 1e-4

/** Bin 0 has what is below 1. */
function binOf(value: number): number {
  return value < 1 ? 0 : Math.min(BIN_MAX, Math.floor(Math.log2(value) * BINS_PER_OCTAVE) + 1)
}

/** Values of a bin are at least the first and below the second. */
export function binEdges(bin: number): [low: number, high: number] {
  return bin === 0 ? [0, 1] : [2 ** ((bin - 1) / BINS_PER_OCTAVE), 2 ** (bin / BINS_PER_OCTAVE)]
}

/** Six digits. */
export function rounded(value: number): number {
  return Number(value.toPrecision(6))
}

export class LogSketch {
  readonly #bins = new Map<number, { weight: number; sum: number }>()
  #weight = 0
  #sum = 0

  static of(bins: readonly Readonly<SketchBin>[]): LogSketch {
    const sketch = new LogSketch()
    for (const [bin, weight, sum] of bins) sketch.#addToBin(bin, weight, sum)
    return sketch
  }

  get weight(): number {
    return this.#weight
  }

  get sum(): number {
    return this.#sum
  }

  /** Null: nothing is known. */
  get mean(): number | null {
    return this.#weight > 0 ? this.#sum / this.#weight : null
  }

  add(value: number, weight = 1): void {
    this.#addToBin(binOf(value), weight, weight * value)
  }

  /** `factor`: what the other's values count for. */
  merge(other: LogSketch, factor = 1): void {
    for (const [bin, { weight, sum }] of other.#bins) this.#addToBin(bin, weight * factor, sum * factor)
  }

  /** Makes what is known count for `factor` of its weight. */
  age(factor: number): void {
    this.#weight = 0
    this.#sum = 0
    for (const [bin, values] of this.#bins) {
      values.weight *= factor
      values.sum *= factor
      if (values.weight < WEIGHT_MIN) this.#bins.delete(bin)
      else {
        this.#weight += values.weight
        this.#sum += values.sum
      }
    }
  }

  /** Ascending. */
  bins(): SketchBin[] {
    const bins = [...this.#bins].map(([bin, { weight, sum }]): SketchBin => [bin, weight, sum])
    return bins.sort(([a], [b]) => a - b)
  }

  /**
   * At most `bins_max` bins, rounded: the lightest are joined with a neighbour. The mean stays within the rounding. For
   * sketches of which there are many.
   */
  coarseBins(bins_max: number): SketchBin[] {
    const bins = this.bins()
    while (bins.length > bins_max) {
      let lightest = 0
      for (const [at, [, weight]] of bins.entries()) if (weight < (bins[lightest] as SketchBin)[1]) lightest = at
      const [bin, weight, sum] = bins.splice(lightest, 1)[0] as SketchBin
      const before = bins[lightest - 1]
      const after = bins[lightest]
      const into = before === undefined || (after !== undefined && after[0] - bin < bin - before[0]) ? after : before
      if (into === undefined) break
      into[1] += weight
      into[2] += sum
    }
    return bins.map(([bin, weight, sum]) => [bin, rounded(weight), rounded(sum)])
  }

  /** The standard deviation of the values' logarithms, in octaves. Values of a bin count as its mean, and those below 1 as 1. 0: all are alike. */
  get spread_octaves(): number {
    let [sum, squares] = [0, 0]
    for (const [, weight, values] of this.bins()) {
      const octaves = Math.log2(Math.max(1, values / weight))
      sum += weight * octaves
      squares += weight * octaves ** 2
    }
    return this.#weight > 0 ? Math.sqrt(Math.max(0, squares / this.#weight - (sum / this.#weight) ** 2)) : 0
  }

  /** The mean of the bin in which the quantile lies. Null: nothing is known. */
  quantile(share: number): number | null {
    const bins = this.bins()
    let left = share * this.#weight
    for (const [, weight, sum] of bins) {
      left -= weight
      if (left <= 0) return sum / weight
    }
    const last = bins.at(-1)
    return last === undefined ? null : last[2] / last[1]
  }

  #addToBin(bin: number, weight: number, sum: number): void {
    const values = this.#bins.get(bin)
    if (values === undefined) this.#bins.set(bin, { weight, sum })
    else {
      values.weight += weight
      values.sum += sum
    }
    this.#weight += weight
    this.#sum += sum
  }
}
