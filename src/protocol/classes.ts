/** What the control plane tells its agents about classes of programs, so that their engines can order by it. */
import { z } from 'zod'
import { Count, Id } from './ids.ts'
import { SketchBins } from './sketches.ts'
import { ToolsData } from './tools.ts'

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
  /** What its programs call between their calls. Left out: nothing is known. */
  tools: ToolsData.optional(),
})
export type ClassSketchData = z.infer<typeof ClassSketchData>

/** Of one tenant. */
export const ClassData = z.object({ tenant: Id, class: Id, sketch: ClassSketchData })
export type ClassData = z.infer<typeof ClassData>
