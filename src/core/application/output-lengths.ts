/**
 * How long answers are (SamuLLM §4.1), learned from those that were given. Bounded, and two of them can be merged.
 *
 * An answer that was cut at its limit says only that it would have been longer. So quantiles are those of the product-limit estimate (Kaplan and
 * Meier): lengths from nodes with different limits can be merged, and a plan for a higher limit is not made with the lower one. What would have
 * been longer than the longest that was seen counts as that one.
 */
import { z } from 'zod'
import type { OutputLengths } from '../../protocol/application-tokens.ts'
import { SketchBins } from '../../protocol/sketches.ts'
import { binEdges, LogSketch, type SketchBin } from '../classes/log-sketch.ts'

/** Of each histogram. A bin is a fifth of its lengths wide, so these reach from 1 token to 65,536 without joining any. */
export const LENGTH_BINS_MAX = 64
const PERCENTS = 100
/** Fields of a body that limit an answer's tokens. */
export const OUTPUT_LIMITS = ['max_completion_tokens', 'max_output_tokens', 'max_tokens'] as const

/** Of all our APIs: how an answer that met its limit ended. */
export const CUT_REASONS = ['length', 'max_tokens', 'incomplete']

/** Tokens of answers that ended by themselves, and of those that were cut. */
export const LengthSketch = z.object({ ended: SketchBins, cut: SketchBins })
export type LengthSketch = z.infer<typeof LengthSketch>

/** Of a model's answers, whatever they were asked for. */
export const ModelLengths = z.object({ model: z.string(), lengths: LengthSketch })
export type ModelLengths = z.infer<typeof ModelLengths>

export const NO_LENGTHS: LengthSketch = { ended: [], cut: [] }

export interface Answer {
  output_tokens: number
  /** It met its limit of tokens. */
  is_cut: boolean
}

export function withAnswers(lengths: LengthSketch, answers: readonly Answer[]): LengthSketch {
  if (answers.length === 0) return lengths
  const [ended, cut] = [LogSketch.of(lengths.ended), LogSketch.of(lengths.cut)]
  for (const { output_tokens, is_cut } of answers) (is_cut ? cut : ended).add(output_tokens)
  return { ended: ended.coarseBins(LENGTH_BINS_MAX), cut: cut.coarseBins(LENGTH_BINS_MAX) }
}

export function mergedLengths(all: readonly LengthSketch[]): LengthSketch {
  const [ended, cut] = [new LogSketch(), new LogSketch()]
  for (const one of all) {
    ended.merge(LogSketch.of(one.ended))
    cut.merge(LogSketch.of(one.cut))
  }
  return { ended: ended.coarseBins(LENGTH_BINS_MAX), cut: cut.coarseBins(LENGTH_BINS_MAX) }
}

export function answersIn({ ended, cut }: LengthSketch): number {
  return weightOf(ended) + weightOf(cut)
}

/** Null: nothing was answered. */
export function lengthsOf(lengths: LengthSketch): OutputLengths | null {
  const pieces = productLimit(lengths)
  if (pieces.length === 0) return null
  const quantiles = Array.from({ length: PERCENTS + 1 }, (_, percent) => quantileOf(pieces, percent / PERCENTS))
  const mean_tokens = pieces.reduce((sum, { share, mean }) => sum + share * mean, 0)
  return { quantiles, mean_tokens: Math.max(1, mean_tokens) }
}

/** Of an answer under a limit, in the mean: min(X, max). */
export function meanUnder({ quantiles, mean_tokens }: OutputLengths, max_tokens: number): number {
  if ((quantiles.at(-1) ?? 0) <= max_tokens) return mean_tokens
  const limited = quantiles.map((tokens) => Math.min(tokens, max_tokens))
  return limited.slice(1).reduce((sum, tokens, at) => sum + (tokens + (limited[at] as number)) / 2, 0) / PERCENTS
}

/** A share of all answers. Within it lengths are even around the mean. */
interface Piece {
  share: number
  mean: number
  half_width: number
}

function productLimit({ ended, cut }: LengthSketch): Piece[] {
  const cut_in = new Map(cut.map((bin) => [bin[0], bin]))
  const ended_in = new Map(ended.map((bin) => [bin[0], bin]))
  const bins = [...new Set([...cut_in.keys(), ...ended_in.keys()])].sort((a, b) => a - b)
  let at_risk = weightOf(ended) + weightOf(cut)
  let survive = 1
  const pieces: Piece[] = []
  for (const bin of bins) {
    const ends = ended_in.get(bin)
    if (ends !== undefined && at_risk > 0) {
      const share = survive * (ends[1] / at_risk)
      pieces.push(pieceOf(ends, share))
      survive -= share
    }
    at_risk -= (ends?.[1] ?? 0) + (cut_in.get(bin)?.[1] ?? 0)
  }
  const last_cut = cut.at(-1)
  const is_open = survive > 1e-9 && last_cut !== undefined
  if (is_open) pieces.push(pieceOf(last_cut, survive))
  return pieces
}

function pieceOf([bin, weight, sum]: Readonly<SketchBin>, share: number): Piece {
  const mean = Math.max(1, sum / weight)
  const [low, high] = binEdges(bin)
  // Joined bins may have their mean beyond the edges of this one.
  return { share, mean, half_width: Math.max(0, Math.min(mean - Math.max(1, low), high - mean)) }
}

function quantileOf(pieces: readonly Piece[], at: number): number {
  let before = 0
  for (const [number, { share, mean, half_width }] of pieces.entries()) {
    const is_last = number === pieces.length - 1
    if (at > before + share && !is_last) {
      before += share
      continue
    }
    const within = share > 0 ? Math.min(1, Math.max(0, (at - before) / share)) : 0
    return mean + half_width * (2 * within - 1)
  }
  return 1
}

function weightOf(bins: LengthSketch['ended']): number {
  return bins.reduce((sum, [, weight]) => sum + weight, 0)
}
