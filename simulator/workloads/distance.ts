/** Two-sample distances. */

/** Kolmogorov and Smirnov: the largest difference of the two shares below a value. */
export function ksDistance(a: readonly number[], b: readonly number[]): number {
  let largest = 0
  walk(a, b, (share_a, share_b) => {
    largest = Math.max(largest, Math.abs(share_a - share_b))
  })
  return largest
}

/** Wasserstein-1 over the mean of `b`: how far, as a share of the mean, values must move. */
export function wassersteinOverMean(a: readonly number[], b: readonly number[]): number {
  let area = 0
  walk(a, b, (share_a, share_b, width) => {
    area += Math.abs(share_a - share_b) * width
  })
  const mean = b.reduce((sum, value) => sum + value, 0) / b.length
  return mean === 0 ? area : area / Math.abs(mean)
}

/** Visits every distinct value with the shares at or below it and the distance to the next. */
function walk(
  a: readonly number[],
  b: readonly number[],
  visit: (share_a: number, share_b: number, width: number) => void,
): void {
  const left = [...a].sort((x, y) => x - y)
  const right = [...b].sort((x, y) => x - y)
  let i = 0
  let j = 0
  while (i < left.length || j < right.length) {
    const value = Math.min(left[i] ?? Number.POSITIVE_INFINITY, right[j] ?? Number.POSITIVE_INFINITY)
    while (i < left.length && left[i] === value) i += 1
    while (j < right.length && right[j] === value) j += 1
    const next = Math.min(left[i] ?? Number.POSITIVE_INFINITY, right[j] ?? Number.POSITIVE_INFINITY)
    visit(i / left.length, j / right.length, next === Number.POSITIVE_INFINITY ? 0 : next - value)
  }
}
