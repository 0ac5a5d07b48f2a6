/** Small statistics of the fits. */

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value))
}

/** Four digits: what is written into a profile. */
export function normalised(value: number): number {
  return Math.round(value * 10_000) / 10_000
}

/** Of pairs in which both are known; 0 where one does not vary. */
export function correlation(a: readonly (number | null)[], b: readonly (number | null)[]): number {
  const pairs = a.flatMap((x, i) => {
    const y = b[i]
    return x === null || y === null || y === undefined ? [] : [[x, y] as const]
  })
  if (pairs.length < 2) return 0
  const mean_a = mean(pairs.map(([x]) => x))
  const mean_b = mean(pairs.map(([, y]) => y))
  let product = 0
  let square_a = 0
  let square_b = 0
  for (const [x, y] of pairs) {
    product += (x - mean_a) * (y - mean_b)
    square_a += (x - mean_a) ** 2
    square_b += (y - mean_b) ** 2
  }
  return square_a * square_b === 0 ? 0 : product / Math.sqrt(square_a * square_b)
}

/** Lower triangle of the matrix, drawn towards the identity until it has one. */
export function choleskyShrunk(matrix: readonly (readonly number[])[]): number[][] {
  for (let keep = 1; keep > 0; keep -= 0.05) {
    const shrunk = matrix.map((row, i) => row.map((value, j) => (i === j ? 1 : value * keep)))
    const lower = cholesky(shrunk)
    if (lower !== null) return lower.map((row) => row.map(normalised))
  }
  return matrix.map((_, i) => matrix.map((__, j) => (i === j ? 1 : 0)))
}

function cholesky(matrix: readonly (readonly number[])[]): number[][] | null {
  const lower: number[][] = []
  for (let i = 0; i < matrix.length; i += 1) {
    const row: number[] = []
    for (let j = 0; j <= i; j += 1) {
      const known = row.slice(0, j).reduce((sum, value, k) => sum + value * (j === i ? value : (lower[j]?.[k] ?? 0)), 0)
      const rest = (matrix[i]?.[j] ?? 0) - known
      if (i === j && rest <= 1e-6) return null
      row.push(i === j ? Math.sqrt(rest) : rest / (lower[j]?.[j] ?? 1))
    }
    lower.push(row)
  }
  return lower
}
