/** What the control plane tells its agents about classes of programs, so that their engines can order by it. */
import { z } from 'zod'
import { Count, Id } from './ids.ts'

/** Four bins to an octave, up to 2^53 (core/classes/log-sketch.ts). */
export const SKETCH_BINS_MAX = 213

const Weight = z.number().nonnegative().max(Number.MAX_SAFE_INTEGER)

/** Ascending bins of a histogram, with the weight and the weighted sum of the values in each. */
const SketchBins = z
  .array(z.tuple([Count.max(SKETCH_BINS_MAX - 1), Weight.positive(), z.number().nonnegative().max(Number.MAX_VALUE)]))
  .max(SKETCH_BINS_MAX)
  .refine((bins) => bins.every(([bin], index) => index === 0 || bin > (bins[index - 1]?.[0] ?? 0)), 'bins ascend')

export const ClassSketchData = z.object({
  /** Programs that have ended since the class is known. Sketches count about the last 256 of them. */
  ends: Count,
  output_tokens: SketchBins,
  calls: SketchBins,
  /** The longest chain of calls. */
  path_us: SketchBins,
  service_us: SketchBins,
  tool_us: SketchBins,
  later_prompt_tokens: SketchBins,
  /** Output tokens so far of programs that have not ended. Left out: none. */
  going_on: SketchBins.optional(),
})
export type ClassSketchData = z.infer<typeof ClassSketchData>

/** Of one tenant. */
export const ClassData = z.object({ tenant: Id, class: Id, sketch: ClassSketchData })
export type ClassData = z.infer<typeof ClassData>
