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
import type { LogSketch } from './log-sketch.ts'

export const OBJECTIVES = ['token_latency', 'response'] as const
export type Objective = (typeof OBJECTIVES)[number]

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
  /** Mean output of a call. 0: not known. */
  call_tokens: number
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
/** Lines that are the least only beyond so many prompt tokens, in tokens of output's cost, are left out. No prompt has more. */
const PROMPT_TOKENS_MAX = 2 ** 20
/** Beyond rounding errors. */
const WEIGHT_MIN = 1e-12

export function indexTable(sketch: ClassSketch | null, objective: Objective = 'token_latency'): IndexTable {
  const samples = samplesOf(sketch?.output_tokens)
  return {
    steps: indexSteps(censoredBy(samplesOf(sketch?.going_on), withPrior(samples)), objective),
    prompt_tokens_per_output_token: sketch?.prompt_tokens_per_output_token ?? 0,
    call_tokens: Math.min(TOKENS_MAX, sketch?.call_tokens ?? 0),
  }
}

function samplesOf(sketch: LogSketch | undefined): Sample[] {
  return (sketch?.bins() ?? []).map(([, weight, sum]) => ({ tokens: sum / weight, weight }))
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
function withPrior(known: readonly Sample[]): Sample[] {
  const median = known.length === 0 ? PRIOR_MEDIAN_TOKENS : medianOf(known, weightOf(known))
  const prior: Sample[] = []
  for (let tokens = median, weight = 1; tokens < TOKENS_MAX * 2; tokens *= PRIOR_RATIO, weight /= PRIOR_RATIO) {
    prior.push({ tokens, weight })
  }
  const ends = PRIOR_ENDS / weightOf(prior)
  const weighed = prior.map(({ tokens, weight }) => ({ tokens, weight: weight * ends }))
  return [...known, ...weighed].sort((a, b) => a.tokens - b.tokens)
}

function weightOf(samples: readonly Sample[]): number {
  return samples.reduce((sum, { weight }) => sum + weight, 0)
}

/**
 * The samples' weights as Kaplan and Meier (1958) have them: a program that goes on has shown that it ends later, so its
 * weight goes to the ends beyond. Without it a class would be taken for shorter than it is until its long programs end, and
 * one of which nothing has ended for unknown. Both ascend.
 */
export function censoredBy(going_on: readonly Sample[], samples: readonly Sample[]): Sample[] {
  let at_risk = weightOf(samples) + weightOf(going_on)
  const total = at_risk
  let next = 0
  let survival = 1
  return samples.map(({ tokens, weight }) => {
    for (; next < going_on.length && (going_on[next] as Sample).tokens < tokens; next++) {
      at_risk -= (going_on[next] as Sample).weight
    }
    const share = Math.min(1, weight / at_risk)
    const mass = survival * share * total
    survival *= 1 - share
    at_risk -= weight
    return { tokens, weight: Math.max(mass, WEIGHT_MIN) }
  })
}

function indexStep(samples: readonly Sample[], from_tokens: number, objective: Objective): IndexStep {
  const later = samples.filter(({ tokens }) => tokens > from_tokens)
  const total = weightOf(later)
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

/** Those that are the least somewhere in 0 ≤ k ≤ PROMPT_TOKENS_MAX. The slopes given fall. */
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
  const beyond = hull.findIndex(
    (line, index) => index > 0 && crossing(hull[index - 1] as IndexLine, line) > PROMPT_TOKENS_MAX,
  )
  return beyond === -1 ? hull : hull.slice(0, beyond)
}

/** The k at which the second, which has the smaller slope, becomes the less. */
function crossing(a: IndexLine, b: IndexLine): number {
  return (b[0] - a[0]) / (a[1] - b[1])
}

/** The position of the step that holds at `output_tokens`. Quick if it is near `at`. */
export function stepAt({ steps }: Pick<IndexTable, 'steps'>, output_tokens: number, at = 0): number {
  let position = at
  while (position > 0 && (steps[position] as IndexStep).from_tokens > output_tokens) position -= 1
  while (position + 1 < steps.length && (steps[position + 1] as IndexStep).from_tokens <= output_tokens) position += 1
  return position
}

/** G ÷ c. `prompt_tokens`: k, in tokens of output's cost. */
export function indexOf({ lines }: IndexStep, prompt_tokens: number): number {
  let least = Number.POSITIVE_INFINITY
  for (const [base, slope] of lines) least = Math.min(least, base + slope * prompt_tokens)
  return least
}

/** Ranks to an octave of the index. */
export const RANKS_PER_OCTAVE = 4
/** Where one rank ends and the next begins, within an octave. */
const RANK_ENDS = [2 ** (1 / 8), 2 ** (3 / 8), 2 ** (5 / 8), 2 ** (7 / 8)] as const

/**
 * The quarter of an octave that an index, above 0, is nearest to. Scaling by powers of two and comparing are exact, so every
 * language with IEEE doubles gives the same.
 */
export function rankOf(index: number): number {
  let octave = Math.floor(Math.log2(index))
  while (2 ** octave > index) octave -= 1
  while (2 ** (octave + 1) <= index) octave += 1
  const within = index / 2 ** octave
  return octave * RANKS_PER_OCTAVE + RANK_ENDS.filter((end) => within >= end).length
}

/** The least index of a rank. */
export function rankFrom(rank: number): number {
  const octave = Math.floor(rank / RANKS_PER_OCTAVE)
  const within = rank - octave * RANKS_PER_OCTAVE
  return within === 0 ? RANK_ENDS[3] * 2 ** (octave - 1) : (RANK_ENDS[within - 1] as number) * 2 ** octave
}

/** The least number of prompt tokens at which the index is no less than `index`. */
export function promptTokensAt({ lines }: IndexStep, index: number): number {
  let least = 0
  for (const [base, slope] of lines) least = Math.max(least, (index - base) / slope)
  return least
}
