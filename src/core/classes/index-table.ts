/**
 * The Gittins index of a class of programs (Gittins 1979; Aalto, Ayesta and Righter 2009), as a table.
 *
 * A program that has had `o` output tokens, and whose next token needs `k` prompt tokens computed first, is worth a seat
 * for as long as its cost for each unit of what it gains is least:
 *
 *     G(o, k) = min over d of (k + c · C(o, d)) / W(o, d)
 *     C(o, d) = E[min(O, d) − o | O > o]          output tokens until the program ends or has had d
 *     W(o, d) = E[1/O · 1{O ≤ d} | O > o]         what its end is worth: a program's latency counts by 1 ÷ its tokens
 *
 * `O` is the output of the class's programs, and `c` what one token of it costs, prompts of later calls included. With the
 * response time as the objective W is the probability P[O ≤ d | O > o]. A cached context has k = 0, so a program with its
 * context at hand goes on, and one that lost it pays for it in full.
 *
 * The prior is a Pareto distribution of index 1, worth some ends. It is what least attained service assumes, so a class
 * of which little is known is ordered by that. It also goes on beyond the longest program seen.
 *
 * For each step of `o` the table has the lines (k + c·C) / W that are the least for some k. Everything is in tokens: the
 * policy knows what they cost.
 */
import type { ClassSketch } from './class-sketch.ts'

export type Objective = 'token_latency' | 'response'

/** Of one `o`: what an index costs without prompt tokens, and for each prompt token more. In tokens ÷ worth. */
export type IndexLine = readonly [base: number, slope: number]

export interface IndexStep {
  /** It holds from so many output tokens on. */
  from_tokens: number
  /** The least of them counts. By slope, falling: the last is the least for large k. */
  lines: readonly IndexLine[]
  /** E[O − o | O > o]. */
  remaining_tokens: number
  /** The median of O, given O > o. */
  median_tokens: number
}

export interface IndexTable {
  steps: readonly IndexStep[]
  /** Of later calls, for each token of output. */
  prompt_tokens_per_output_token: number
}

/** Programs of so much output. */
export interface Sample {
  tokens: number
  weight: number
}

/** The prior counts as much as so many ends. */
const PRIOR_ENDS = 40
/** Of a class without ends. */
const PRIOR_MEDIAN_TOKENS = 8
/** The prior's points lie this far apart, and go up to so many tokens. */
const PRIOR_RATIO = Math.SQRT2
export const TOKENS_MAX = 2 ** 27
/** Steps of `o`. */
const STEP_MIN_TOKENS = 4
const STEP_RATIO = 1.2
/** A `d` by which fewer end than this share of the whole worth is no time to stop at. */
const WORTH_SHARE_MIN = 0.02

export function indexTable(sketch: ClassSketch | null, objective: Objective = 'token_latency'): IndexTable {
  return {
    steps: indexSteps(withPrior(sketch), objective),
    prompt_tokens_per_output_token: sketch?.prompt_tokens_per_output_token ?? 0,
  }
}

/** `samples` ascend, and the last has at least TOKENS_MAX. */
export function indexSteps(samples: readonly Sample[], objective: Objective): IndexStep[] {
  const steps: IndexStep[] = []
  for (let from_tokens = 0; from_tokens < TOKENS_MAX; from_tokens = nextStep(from_tokens)) {
    steps.push(indexStep(samples, from_tokens, objective))
  }
  return steps
}

function nextStep(from_tokens: number): number {
  return from_tokens === 0 ? STEP_MIN_TOKENS : Math.max(from_tokens + 1, Math.round(from_tokens * STEP_RATIO))
}

/** What is known, and the prior. Ascending. */
function withPrior(sketch: ClassSketch | null): Sample[] {
  const known = (sketch?.output_tokens.bins() ?? []).map(([, weight, sum]) => ({ tokens: sum / weight, weight }))
  const median = sketch?.output_tokens.quantile(0.5) ?? PRIOR_MEDIAN_TOKENS
  const prior: Sample[] = []
  let total = 0
  for (let tokens = median, weight = 1; tokens < TOKENS_MAX * 2; tokens *= PRIOR_RATIO, weight /= PRIOR_RATIO) {
    prior.push({ tokens, weight })
    total += weight
  }
  for (const point of prior) point.weight *= PRIOR_ENDS / total
  return [...known, ...prior].sort((a, b) => a.tokens - b.tokens)
}

function indexStep(samples: readonly Sample[], from_tokens: number, objective: Objective): IndexStep {
  const later = samples.filter(({ tokens }) => tokens > from_tokens)
  const total = later.reduce((sum, { weight }) => sum + weight, 0)
  const worthOf = ({ tokens, weight }: Sample) => (objective === 'response' ? weight : weight / tokens)
  const worth_total = later.reduce((sum, sample) => sum + worthOf(sample), 0)
  const lines: IndexLine[] = []
  let left = total
  let done_cost = 0
  let worth = 0
  for (const [index, sample] of later.entries()) {
    left -= sample.weight
    done_cost += sample.weight * (sample.tokens - from_tokens)
    worth += worthOf(sample)
    const last = index === later.length - 1
    if (!last && (worth < WORTH_SHARE_MIN * worth_total || later[index + 1]?.tokens === sample.tokens)) continue
    const cost = done_cost + Math.max(0, last ? 0 : left) * (sample.tokens - from_tokens)
    lines.push([cost / worth, total / worth])
  }
  return {
    from_tokens,
    lines: lowerEnvelope(lines),
    remaining_tokens: done_cost / total,
    median_tokens: medianOf(later, total),
  }
}

function medianOf(samples: readonly Sample[], total: number): number {
  let left = total / 2
  for (const { tokens, weight } of samples) {
    left -= weight
    if (left <= 0) return tokens
  }
  return samples.at(-1)?.tokens ?? 0
}

/** Those that are the least somewhere in k ≥ 0. The slopes given fall. */
function lowerEnvelope(lines: readonly IndexLine[]): IndexLine[] {
  const hull: IndexLine[] = []
  for (const line of lines) {
    for (let last = hull.at(-1); last !== undefined; last = hull.at(-1)) {
      const before = hull.at(-2)
      const useless = line[0] <= last[0] || (before !== undefined && crossing(before, line) <= crossing(before, last))
      if (!useless) break
      hull.pop()
    }
    hull.push(line)
  }
  return hull
}

/** The k at which the second, which has the smaller slope, becomes the less. */
function crossing(a: IndexLine, b: IndexLine): number {
  return (b[0] - a[0]) / (a[1] - b[1])
}

/** The position of the step that holds at `output_tokens`, from the position `at` on. */
export function stepAt({ steps }: IndexTable, output_tokens: number, at = 0): number {
  let position = at
  while (position + 1 < steps.length && (steps[position + 1] as IndexStep).from_tokens <= output_tokens) position += 1
  return position
}

/** G ÷ c. `prompt_tokens`: k, in tokens of output's cost. */
export function indexOf({ lines }: IndexStep, prompt_tokens: number): number {
  let least = Number.POSITIVE_INFINITY
  for (const [base, slope] of lines) least = Math.min(least, base + slope * prompt_tokens)
  return least
}

/**
 * The whole octave that an index is nearest to. Exact in any language that has IEEE doubles, unlike the rounding of a
 * logarithm.
 */
export function octaveOf(index: number): number {
  let octave = Math.round(Math.log2(index))
  if (index < Math.SQRT1_2 * 2 ** octave) octave -= 1
  else if (index >= Math.SQRT1_2 * 2 ** (octave + 1)) octave += 1
  return octave
}
