/** Lengths with the minimum, mean and maximum that the paper publishes, in the shape of data at hand. */
import { mean } from '../../statistics.ts'

export interface Marginals {
  min: number
  mean: number
  max: number
}

const HALVINGS = 60

/**
 * Quantiles bent to the marginals: x = min + (max − min) · u^p, where u is how far a quantile lies between the first and the last, and p is such that
 * the mean is right. The order of lengths, and so the shape, stays.
 */
export function bent(quantiles: readonly number[], { min, mean: wanted, max }: Marginals): number[] {
  const [first, last] = [quantiles[0] as number, quantiles.at(-1) as number]
  const shares = quantiles.map((one) => (one - first) / (last - first))
  const at = (power: number) => shares.map((share) => min + (max - min) * share ** power)
  let [low, high] = [0.001, 1000]
  for (let halving = 0; halving < HALVINGS; halving += 1) {
    const power = Math.sqrt(low * high)
    if (meanOf(at(power)) > wanted) low = power
    else high = power
  }
  return at(Math.sqrt(low * high))
}

/** Of what `drawn` draws. */
function meanOf(quantiles: readonly number[]): number {
  return mean(quantiles.slice(1).map((one, below) => (one + (quantiles[below] as number)) / 2))
}

/** Linear between quantiles; whole, at least 1. */
export function drawn(quantiles: readonly number[], random: () => number): number {
  const position = random() * (quantiles.length - 1)
  const below = Math.floor(position)
  const low = quantiles[below] as number
  const high = quantiles[below + 1] ?? low
  return Math.max(1, Math.round(low + (high - low) * (position - below)))
}
