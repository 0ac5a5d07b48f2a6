/**
 * Least squares with coefficients that are not negative, of relative errors, deaf to outliers.
 *
 * A latency has no negative part, so a feature that would get a negative coefficient gets none (coordinate descent on the normal
 * equations, which is exact at convergence because the problem is convex). Residuals are relative to what was measured, since a
 * profile is judged by percentage; rows whose relative residual exceeds HUBER count linearly (iteratively reweighted), since logs have
 * stalls of tens of milliseconds that belong to no step.
 */

export interface Sample {
  /** One value for each coefficient. */
  features: readonly number[]
  measured: number
}

/** Relative residual from which a row counts linearly. */
const HUBER = 0.1
const REWEIGHTINGS = 12
/** A prediction near 0 gives a row no more weight than this share of what was measured would. */
const UNIT_SHARE_MIN = 0.01
const SWEEPS_MAX = 20_000
const CONVERGED = 1e-10

/**
 * `relative_to`: what a residual is a share of. Of `measured` minimises the percentage errors that are reported; of `predicted` is unbiased where
 * equal work takes unequal time (a shared machine), since a row that took twice as long then weighs no less than one that took half.
 */
export function fitNonNegative(
  samples: readonly Sample[],
  features: number,
  relative_to: 'measured' | 'predicted' = 'measured',
): number[] {
  let weights = samples.map(({ measured }) => 1 / measured ** 2)
  let coefficients: number[] = []
  for (let round = 0; round < REWEIGHTINGS; round += 1) {
    coefficients = solve(samples, weights, features)
    weights = samples.map(({ features: row, measured }) => {
      const predicted = predict(coefficients, row)
      const unit = relative_to === 'measured' ? measured : Math.max(predicted, measured * UNIT_SHARE_MIN)
      const residual = Math.abs(predicted - measured) / unit
      return Math.min(1, HUBER / Math.max(residual, 1e-12)) / unit ** 2
    })
  }
  return coefficients
}

export function predict(coefficients: readonly number[], features: readonly number[]): number {
  let sum = 0
  for (let i = 0; i < coefficients.length; i += 1) sum += (coefficients[i] ?? 0) * (features[i] ?? 0)
  return sum
}

/** Features are scaled to a weighted square sum of 1 first: they differ by orders of magnitude. */
function solve(samples: readonly Sample[], weights: readonly number[], count: number): number[] {
  const { gram, right } = normalEquations(samples, weights, count)
  const scale = gram.map((row, i) => 1 / Math.sqrt(Math.max(row[i] ?? 0, Number.MIN_VALUE)))
  const at = (i: number, j: number) => (gram[i]?.[j] ?? 0) * (scale[i] ?? 0) * (scale[j] ?? 0)
  const x = new Array<number>(count).fill(0)
  for (let sweep = 0; sweep < SWEEPS_MAX; sweep += 1) {
    let moved = 0
    for (let i = 0; i < count; i += 1) {
      let gradient = (right[i] ?? 0) * (scale[i] ?? 0)
      for (let j = 0; j < count; j += 1) if (j !== i) gradient -= at(i, j) * (x[j] ?? 0)
      const next = Math.max(0, gradient / Math.max(at(i, i), Number.MIN_VALUE))
      moved = Math.max(moved, Math.abs(next - (x[i] ?? 0)))
      x[i] = next
    }
    if (moved < CONVERGED) break
  }
  return x.map((value, i) => value * (scale[i] ?? 0))
}

function normalEquations(samples: readonly Sample[], weights: readonly number[], count: number) {
  const gram = Array.from({ length: count }, () => new Array<number>(count).fill(0))
  const right = new Array<number>(count).fill(0)
  samples.forEach(({ features, measured }, s) => {
    const weight = weights[s] ?? 0
    for (let i = 0; i < count; i += 1) {
      const weighted = weight * (features[i] ?? 0)
      right[i] = (right[i] ?? 0) + weighted * measured
      const row = gram[i] as number[]
      for (let j = 0; j < count; j += 1) row[j] = (row[j] ?? 0) + weighted * (features[j] ?? 0)
    }
  })
  return { gram, right }
}

export interface FitError {
  rows: number
  mean_abs_percent: number
  p95_abs_percent: number
}

export function fitError(pairs: readonly { predicted: number; measured: number }[]): FitError {
  const errors = pairs.map(({ predicted, measured }) => 100 * Math.abs(predicted / measured - 1)).sort((a, b) => a - b)
  const sum = errors.reduce((total, error) => total + error, 0)
  return {
    rows: errors.length,
    mean_abs_percent: errors.length === 0 ? 0 : sum / errors.length,
    p95_abs_percent: errors[Math.max(0, Math.ceil(errors.length * 0.95) - 1)] ?? 0,
  }
}
