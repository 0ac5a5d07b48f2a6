/** The normal distribution, and samples as normal scores: what a copula joins marginals by. */

/** Share of a standard normal below x (Abramowitz and Stegun 7.1.26: error below 2e-7). */
export function normalShare(x: number): number {
  const z = Math.abs(x) / Math.SQRT2
  const t = 1 / (1 + 0.3275911 * z)
  const poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
  const erf = 1 - poly * Math.exp(-z * z)
  return x >= 0 ? (1 + erf) / 2 : (1 - erf) / 2
}

const SCORE_MAX = 6

/** The inverse, by bisection: fits alone need it. */
function scoreAt(share: number): number {
  let low = -SCORE_MAX
  let high = SCORE_MAX
  for (let i = 0; i < 40; i += 1) {
    const middle = (low + high) / 2
    if (normalShare(middle) < share) low = middle
    else high = middle
  }
  return (low + high) / 2
}

/** Of each value: the score of the middle of its ties. */
export function normalScores(sample: readonly number[]): number[] {
  const order = sample.map((value, index) => ({ value, index })).sort((a, b) => a.value - b.value)
  const scores = new Array<number>(sample.length).fill(0)
  for (let from = 0; from < order.length; ) {
    let to = from
    while (to < order.length && order[to]?.value === order[from]?.value) to += 1
    const score = scoreAt((from + to) / 2 / order.length)
    for (let i = from; i < to; i += 1) scores[(order[i] as { index: number }).index] = score
    from = to
  }
  return scores
}
