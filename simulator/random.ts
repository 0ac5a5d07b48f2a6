/** Seeded draws. Equal seeds give equal sequences on every machine. */

export { seededRandom } from '../src/core/seeded-random.ts'

/** Mean 1. */
export function exponential(random: () => number): number {
  return -Math.log(1 - random())
}

/** Standard normal (Box and Muller; the second value is not used, so that draws do not depend on each other). */
export function normal(random: () => number): number {
  return Math.sqrt(2 * exponential(random)) * Math.cos(2 * Math.PI * random())
}

/** Gamma of mean 1 and coefficient of variation `cv` (Marsaglia and Tsang, 2000). */
export function gamma(cv: number, random: () => number): number {
  const shape = 1 / cv ** 2
  // A shape below 1 is drawn from shape + 1 and scaled down.
  const boost = shape < 1 ? (1 - random()) ** (1 / shape) : 1
  const d = (shape < 1 ? shape + 1 : shape) - 1 / 3
  const c = 1 / Math.sqrt(9 * d)
  for (;;) {
    const x = normal(random)
    const v = (1 + c * x) ** 3
    if (v <= 0) continue
    if (Math.log(1 - random()) < 0.5 * x ** 2 + d - d * v + d * Math.log(v)) return (boost * d * v) / shape
  }
}
