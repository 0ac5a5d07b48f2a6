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
 * of which little is known is ordered by that. It also goes on beyond the longest program seen. Of a class of which no
 * program has ended, it is what the tenant's other programs had (class-pool.ts), worth one end: programs of the class that go on
 * for longer soon outweigh it.
 *
 * For each step of `o` the table has the lines (k + c·C) / W that are the least for some k. Everything is in tokens: the
 * policy knows what they cost.
 */
import type { Objective } from '../../protocol/objective.ts'
import type { ClassSketch } from './class-sketch.ts'
import type { LogSketch } from './log-sketch.ts'

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
  /** Of it, what the last open call of a program is taken to have before it. 0 to 1. */
  call_share: number
}

/** Programs of so much output. */
export interface Sample {
  tokens: number
  weight: number
}

/** The prior counts as much as so many ends. */
const PRIOR_ENDS = 40
/** Of a class without ends, where no other has any. */
const PRIOR_MEDIAN_TOKENS = 200
/** What the tenant's other programs had counts as much as so many ends of the class. */
const OTHERS_ENDS = 1
/** The prior's points lie this far apart, and go up to so many tokens. */
const PRIOR_RATIO = 2 ** (1 / 8)
export const TOKENS_MAX = 2 ** 27
/**
 * Where the programs of a bin are taken to lie, by its mean: in the middles of its thirds. A bin in one point would be a time at which
 * many programs end at once, and the index would rush towards it.
 */
const WITHIN_BIN = [2 ** (-1 / 12), 1, 2 ** (1 / 12)] as const
/** Steps of `o`. */
const STEP_MIN_TOKENS = 4
const STEP_RATIO = 1.2
/** A `d` by which fewer end than this share of the whole worth is no time to stop at. */
const WORTH_SHARE_MIN = 0.02
/** Lines that are the least only beyond so many prompt tokens, in tokens of output's cost, are left out. No prompt has more. */
const PROMPT_TOKENS_MAX = 2 ** 20
/** A line is kept if without it the index would be more than this many times as much. */
const LINE_WORTH = 1.01
/** Beyond rounding errors. */
const WEIGHT_MIN = 1e-12

/** `others`: what the tenant's programs of other classes had. It counts while none of the class has ended. Null: nothing is known of them. */
export function indexTable(
  sketch: ClassSketch | null,
  objective: Objective = 'token_latency',
  others: ClassSketch | null = null,
): IndexTable {
  const by_others = others !== null && (sketch?.ends ?? 0) === 0
  const ended = by_others ? others : sketch
  const samples = withPrior(samplesOf(ended?.output_tokens))
  const counting = by_others ? weighing(OTHERS_ENDS, samples) : samples
  return {
    steps: indexSteps(censoredBy(samplesOf(sketch?.going_on), counting), objective),
    prompt_tokens_per_output_token: ended?.prompt_tokens_per_output_token ?? 0,
    call_tokens: Math.min(TOKENS_MAX, ended?.call_tokens ?? 0),
    call_share: ended?.call_share ?? 0,
  }
}

function samplesOf(sketch: LogSketch | undefined): Sample[] {
  const bins = sketch?.bins() ?? []
  return bins.flatMap(([, weight, sum]) =>
    WITHIN_BIN.map((place) => ({ tokens: (place * sum) / weight, weight: weight / WITHIN_BIN.length })),
  )
}

/** `samples` ascend, and the last has at least TOKENS_MAX. */
export function indexSteps(samples: readonly Sample[], objective: Objective): IndexStep[] {
  const worth = samples.map(({ tokens, weight }) => (objective === 'response' ? weight : weight / tokens))
  const weight_from = sumsFrom(samples.map(({ weight }) => weight))
  const worth_from = sumsFrom(worth)
  const steps: IndexStep[] = []
  let first = 0
  for (let from_tokens = 0; from_tokens < TOKENS_MAX; from_tokens = nextStep(from_tokens)) {
    while ((samples[first] as Sample).tokens <= from_tokens) first += 1
    steps.push(indexStep({ samples, worth, weight_from, worth_from }, first, from_tokens))
  }
  return steps
}

/** Of each position, the sum from it to the end. */
function sumsFrom(values: readonly number[]): number[] {
  const sums = [...values]
  for (let index = sums.length - 2; index >= 0; index--)
    sums[index] = (sums[index] as number) + (sums[index + 1] as number)
  return sums
}

function nextStep(from_tokens: number): number {
  return from_tokens === 0 ? STEP_MIN_TOKENS : Math.max(from_tokens + 1, Math.round(from_tokens * STEP_RATIO))
}

/** What is known, and the prior. Ascending. */
function withPrior(known: readonly Sample[]): Sample[] {
  const median = known.length === 0 ? PRIOR_MEDIAN_TOKENS : medianFrom(known, 0, weightOf(known))
  const prior: Sample[] = []
  for (let tokens = median, weight = 1; tokens < TOKENS_MAX * 2; tokens *= PRIOR_RATIO, weight /= PRIOR_RATIO) {
    prior.push({ tokens, weight })
  }
  return [...known, ...weighing(PRIOR_ENDS, prior)].sort((a, b) => a.tokens - b.tokens)
}

function weighing(ends: number, samples: readonly Sample[]): Sample[] {
  const factor = ends / weightOf(samples)
  return samples.map(({ tokens, weight }) => ({ tokens, weight: weight * factor }))
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

interface Weighed {
  samples: readonly Sample[]
  worth: readonly number[]
  /** Of the sample and all after it. */
  weight_from: readonly number[]
  worth_from: readonly number[]
}

/** `first`: the first sample of more than `from_tokens`. */
function indexStep(
  { samples, worth, weight_from, worth_from }: Weighed,
  first: number,
  from_tokens: number,
): IndexStep {
  const total = weight_from[first] as number
  const worth_min = WORTH_SHARE_MIN * (worth_from[first] as number)
  const lines: IndexLine[] = []
  let done_cost = 0
  let done_worth = 0
  for (let index = first; index < samples.length; index++) {
    const { tokens, weight } = samples[index] as Sample
    done_cost += weight * (tokens - from_tokens)
    done_worth += worth[index] as number
    const last = index === samples.length - 1
    if (!last && (done_worth < worth_min || samples[index + 1]?.tokens === tokens)) continue
    const cost = done_cost + (weight_from[index + 1] ?? 0) * (tokens - from_tokens)
    lines.push([cost / done_worth, total / done_worth])
  }
  return {
    from_tokens,
    lines: thinned(lowerEnvelope(lines)),
    remaining_tokens: done_cost / total,
    median_tokens: medianFrom(samples, first, total),
  }
}

/** Of the samples from `first` on, which weigh `total`. */
function medianFrom(samples: readonly Sample[], first: number, total: number): number {
  let left = total / 2
  for (let index = first; index < samples.length; index++) {
    const { tokens, weight } = samples[index] as Sample
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

/** Without lines that make the index less by no more than LINE_WORTH: each costs memory and time at every decision. */
function thinned(hull: readonly IndexLine[]): IndexLine[] {
  const kept = hull.slice(0, 1)
  for (let from = 0; from < hull.length - 1; ) {
    let to = from + 1
    while (to + 1 < hull.length && isNear(hull, from, to + 1)) to += 1
    kept.push(hull[to] as IndexLine)
    from = to
  }
  return kept
}

/** Whether two lines of a hull are nearly the least where lines between them are. They are farthest from it where they cross. */
function isNear(hull: readonly IndexLine[], from: number, to: number): boolean {
  const [a, b] = [hull[from] as IndexLine, hull[to] as IndexLine]
  const k = crossing(a, b)
  const index = a[0] + a[1] * k
  for (let between = from + 1; between < to; between++) {
    const [base, slope] = hull[between] as IndexLine
    if (index > LINE_WORTH * (base + slope * k)) return false
  }
  return true
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
