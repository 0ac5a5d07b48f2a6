/** Histograms as they travel (core/classes/log-sketch.ts). */
import { z } from 'zod'
import { Count } from './ids.ts'

/** Four bins to an octave, up to 2^53. */
export const SKETCH_BINS_MAX = 213

export const Weight = z.number().nonnegative().max(Number.MAX_SAFE_INTEGER)

/** Ascending bins of a histogram, with the weight and the weighted sum of the values in each. */
export const SketchBins = z
  .array(z.tuple([Count.max(SKETCH_BINS_MAX - 1), Weight.positive(), z.number().nonnegative().max(Number.MAX_VALUE)]))
  .max(SKETCH_BINS_MAX)
  .refine((bins) => bins.every(([bin], index) => index === 0 || bin > (bins[index - 1]?.[0] ?? 0)), 'bins ascend')
