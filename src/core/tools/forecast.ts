/**
 * The forecast of a call before it runs (call/forecast.ts): what follows it, how long that takes, and how much it writes.
 *
 * What follows is learned from counts. With c(x) of n calls in the same situation having been followed by x,
 *
 *     p(x | tool before, place) = (c(x) + K · p(x | tool before)) / (n + K)
 *     p(x | tool before)        = (c(x) + K · p(x)) / (n + K)
 *
 * so a situation that is hardly known counts as the wider one around it. Tools that the call does not offer are left out.
 *
 * How long a tool takes is what the narrowest sketch says that has had USES_MIN uses: the tool in the class, the tool in the
 * tenant, all tools of the class, all tools of the tenant. Nothing is taken from other tenants.
 *
 * Where it is open which tool follows, all that may follow count (`expectedTool`).
 */
import { type CallForecast, CONFIDENCE_MIN, FORECAST_ALTERNATIVES_MAX, type ToolForecast } from '../call/forecast.ts'
import { LogSketch } from '../classes/log-sketch.ts'
import { ANY, ENDS, named, nameOf, OTHER, placeOf, SAME, type Situation, UNNAMED } from './situation.ts'
import type { ToolBook } from './tool-book.ts'
import type { ToolSketch } from './tool-sketch.ts'

/** Calls that the wider situation counts for in a narrower one. */
const K = 2
/** Uses from which on a sketch is asked. */
const USES_MIN = 3
/** Calls from which on a situation's output is asked. */
const OUTPUTS_MIN = 8
/** Half as sure as the likeliest outcome makes it, where so many calls are known. */
const EVIDENCE_CALLS = 4
/** Calls of the class from which on its own counts say what follows. */
const CLASS_CALLS_MIN = 4

export interface CallSituation {
  /** Calls of the program before it. Null: not known. */
  position: number | null
  /** The tool before it. Null: nothing names it, or none came before. */
  last: string | null
  /** Names of the tools that the call offers. Null: not known. */
  offered: readonly string[] | null
  /** How long the tool will take, as the client says. Null: it does not. */
  expect_tool_us: number | null
  /** What the model says of the prompt's last token (length-classifier.ts). Null or left out: not known. */
  prompt_embedding?: ArrayLike<number> | null
}

/** What is known of the call's class, and of classes of its tenant together. Null: nothing. */
export interface KnownTools {
  of_class: ToolBook | null
  /** Asked only where the class does not know. */
  of_tenant: () => ToolBook | null
}

/** How much a call will write. */
export interface OutputPredictor {
  /** Null: nothing is known. */
  outputTokens(situation: CallSituation, known: KnownTools): LogSketch | null
}

/** Quantiles of what calls of the class wrote in the same situation. */
export const outputBySituation: OutputPredictor = {
  outputTokens: (situation, { of_class, of_tenant }) =>
    outputsIn(wellKnown(of_class, CLASS_CALLS_MIN), situation) ?? outputsIn(of_tenant() ?? of_class, situation),
}

/** Null: nothing is known of the tenant's calls, or too few were seen to say that none of them uses a tool. */
export function forecastCall(
  situation: CallSituation,
  known: KnownTools,
  output: OutputPredictor = outputBySituation,
): CallForecast | null {
  const written = output.outputTokens(situation, known)?.mean ?? null
  const { shares, calls } = whatFollows(situation, known)
  if (written === null || shares.size === 0) return null
  const ends = shares.get(ENDS) ?? 0
  const tools = [...shares]
    .filter(([key]) => key !== ENDS)
    .map(([key, probability]) => ({ key, probability, sketches: sketchesOf(key, known) }))
    .sort((a, b) => b.probability - a.probability)
  const [likeliest, ...others] = tools
  const confidence = (Math.max(ends, likeliest?.probability ?? 0) * calls) / (calls + EVIDENCE_CALLS)
  const told = { output_tokens: written, ends, confidence }
  // A few programs that ended without a tool do not say that others use none.
  if (likeliest === undefined) return confidence < CONFIDENCE_MIN ? null : { ...told, tool: null }
  const { expect_tool_us } = situation
  const alternatives = alternativesOf(others, expect_tool_us)
  return { ...told, tool: mixed([likeliest], expect_tool_us), ...(alternatives.length === 0 ? {} : { alternatives }) }
}

/** From the end of a call to the next, once it is known which tools its answer asked for. Null: nothing is known. */
export function expectedToolUs(
  names: readonly string[],
  expect_tool_us: number | null,
  known: KnownTools,
): number | null {
  if (expect_tool_us !== null) return expect_tool_us
  const keys = names.length === 0 ? [UNNAMED] : names.map(named)
  const means = keys.map((key) => sketchesOf(key, known).duration_us?.mean ?? null)
  // The next call waits for the slowest of them.
  return means.includes(null) ? null : Math.max(...means.map(Number))
}

interface Sketches {
  duration_us: LogSketch | null
  answer_tokens: LogSketch | null
}

interface Follower {
  key: string
  probability: number
  sketches: Sketches
}

function wellKnown(book: ToolBook | null, calls_min: number): ToolBook | null {
  return (book?.situation(ANY, null)?.weight ?? 0) >= calls_min ? book : null
}

/**
 * What follows the call, as probabilities by key (situation.ts), and how many calls of the situation say so. Empty: nothing
 * is known.
 */
export function whatFollows(
  situation: CallSituation,
  { of_class, of_tenant }: KnownTools,
): { shares: ReadonlyMap<string, number>; calls: number } {
  const book = wellKnown(of_class, CLASS_CALLS_MIN) ?? of_tenant() ?? of_class
  let shares: ReadonlyMap<string, number> = new Map()
  let calls = 0
  for (const row of book === null ? [] : rowsOf(book, situation)) {
    shares = narrowed(shares, row, situation.last)
    calls = row.weight
  }
  return { shares: offeredOnly(shares, situation), calls }
}

/** The widest first. */
function rowsOf(book: ToolBook, { position, last }: CallSituation): Situation[] {
  const any = book.situation(ANY, null)
  if (position === null) return any === null ? [] : [any]
  const before = book.lastKey(position, last)
  const rows = [any, book.situation(before, null), book.situation(before, placeOf(position))]
  return rows.filter((row) => row !== null)
}

function narrowed(wider: ReadonlyMap<string, number>, row: Situation, last: string | null): Map<string, number> {
  const own = wider.size === 0 ? 0 : K
  const calls = row.weight + own
  const shares = new Map<string, number>()
  for (const [key, share] of wider) shares.set(key, (own * share) / calls)
  for (const [key, count] of row.next) {
    const to = key === SAME && last !== null ? named(last) : key
    shares.set(to, (shares.get(to) ?? 0) + count / calls)
  }
  return shares
}

/** Without tools that the call does not offer, and with a sum of 1 again. */
function offeredOnly(shares: ReadonlyMap<string, number>, { offered }: CallSituation): Map<string, number> {
  const names = offered === null ? null : new Set(offered)
  const kept = new Map<string, number>()
  let sum = 0
  for (const [key, share] of shares) {
    const name = nameOf(key)
    const is_offered = names === null || (name === null ? key !== OTHER || names.size > 0 : names.has(name))
    // The tool before is not known, so it cannot follow again.
    if (key === SAME || !is_offered) continue
    kept.set(key, share)
    sum += share
  }
  for (const [key, share] of kept) kept.set(key, share / sum)
  return kept
}

function sketchesOf(key: string, known: KnownTools): Sketches {
  const duration_us = narrowest(key, known, 'duration_us')
  return { duration_us, answer_tokens: narrowest(key, known, 'answer_tokens') }
}

/** The first that has had USES_MIN uses, otherwise the widest that has had any. Null: none has. */
function narrowest(key: string, known: KnownTools, of: keyof Sketches): LogSketch | null {
  let widest: LogSketch | null = null
  for (const sketch of sketchesFor(key, known)) {
    const { [of]: values } = sketch ?? {}
    if (values === undefined || values.weight === 0) continue
    // A weight decays a little with each use.
    if (values.weight > USES_MIN - 1) return values
    widest = values
  }
  return widest
}

/** The narrowest first. */
function* sketchesFor(key: string, { of_class, of_tenant }: KnownTools): Generator<ToolSketch | null | undefined> {
  yield of_class?.sketchOf(key)
  const tenant = of_tenant()
  yield tenant?.sketchOf(key)
  // What is unnamed is mostly a person, and resembles no tool.
  if (key === UNNAMED) return
  yield of_class?.all
  yield tenant?.all
}

/** One tool, or several as one. */
function mixed(tools: readonly Follower[], expect_tool_us: number | null): ToolForecast {
  const [first] = tools
  const duration_us = new LogSketch()
  const answer_tokens = new LogSketch()
  let probability = 0
  for (const { probability: share, sketches } of tools) {
    probability += share
    mergeShare(duration_us, sketches.duration_us, share)
    mergeShare(answer_tokens, sketches.answer_tokens, share)
  }
  return {
    name: tools.length === 1 && first !== undefined ? nameOf(first.key) : null,
    probability,
    duration_us: expect_tool_us ?? Math.round(duration_us.mean ?? 0),
    duration_p90_us: expect_tool_us ?? Math.round(duration_us.quantile(0.9) ?? 0),
    answer_tokens: answer_tokens.mean ?? 0,
  }
}

function mergeShare(into: LogSketch, sketch: LogSketch | null, share: number): void {
  if (sketch !== null && sketch.weight > 0) into.merge(sketch, share / sketch.weight)
}

/** Those beyond the bound are one. */
function alternativesOf(others: readonly Follower[], expect_tool_us: number | null): ToolForecast[] {
  if (others.length <= FORECAST_ALTERNATIVES_MAX) return others.map((one) => mixed([one], expect_tool_us))
  const single = others.slice(0, FORECAST_ALTERNATIVES_MAX - 1).map((one) => mixed([one], expect_tool_us))
  return [...single, mixed(others.slice(FORECAST_ALTERNATIVES_MAX - 1), expect_tool_us)]
}

function outputsIn(book: ToolBook | null, { position, last }: CallSituation): LogSketch | null {
  if (book === null) return null
  const overall = book.situation(ANY, null)?.output_tokens ?? null
  if (position === null) return overall
  const before = book.lastKey(position, last)
  const rows = [book.situation(before, placeOf(position)), book.situation(before, null)]
  const known = rows.find((row) => (row?.output_tokens.weight ?? 0) > OUTPUTS_MIN - 1)
  return known?.output_tokens ?? overall
}
