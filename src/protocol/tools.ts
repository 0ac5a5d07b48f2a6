/**
 * Tools that programs call between their calls: the names as they travel, and what came back. Clients choose the names, so
 * a name is bounded and is printable ASCII: in a record, a ticket, a table, a terminal.
 */
import { z } from 'zod'
import { Count, Microseconds } from './ids.ts'
import { SketchBins, Weight } from './sketches.ts'

export const TOOL_NAME_CHARS_MAX = 128
/** Tools of one answer that are recorded, the first ones. */
export const TOOLS_PER_CALL_MAX = 16

export const ToolName = z
  .string()
  .min(1)
  .max(TOOL_NAME_CHARS_MAX)
  .regex(/^[\x21-\x7e]+$/)

/** What a tool returned, as the next call brought it. */
export const ToolResult = z.object({
  /** Null: nothing names the tool. */
  name: ToolName.nullable(),
  /** Estimated from its bytes. */
  tokens: Count,
})
export type ToolResult = z.infer<typeof ToolResult>

/** How long a tool took, as the client measured it. */
export const ToolTime = z.object({ name: ToolName, duration_us: Microseconds })
export type ToolTime = z.infer<typeof ToolTime>

/** Tools of which a class knows each by its name. The others count together. */
export const TOOLS_PER_CLASS_MAX = 16
/** Situations of a class of which is known what follows. */
export const TOOL_SITUATIONS_MAX = 64
export const POSITIONS = 8
/** Bins of one sketch of tools, and of one of the output in a situation. */
export const TOOL_BINS_MAX = 24
export const SITUATION_BINS_MAX = 12

/** How long a tool takes, and how long its answers are. */
export const ToolSketchData = z.object({
  /** Since it is known. Sketches count about the last 256 of them. */
  uses: Count,
  duration_us: SketchBins,
  answer_tokens: SketchBins,
})
export type ToolSketchData = z.infer<typeof ToolSketchData>

/** A place in `tools`, or what TOOL_CODES says. */
const ToolCode = z
  .number()
  .int()
  .min(-6)
  .max(TOOLS_PER_CLASS_MAX - 1)
/** `any`: of all situations. `first`: no tool came before. `ends`: none follows. `same`: the one before follows again. */
export const TOOL_CODES = { any: -1, first: -2, ends: -3, same: -4, unnamed: -5, other: -6 } as const

/** What follows calls in one situation: behind one tool, at one place in the program. */
const SituationData = z.object({
  last: ToolCode,
  /** Null: at any place. */
  position: Count.max(POSITIONS - 1).nullable(),
  next: z.array(z.tuple([ToolCode, Weight.positive()])).max(TOOLS_PER_CLASS_MAX + 4),
  output_tokens: SketchBins,
})

/** What is known about the tools of a class. */
export const ToolsData = z.object({
  tools: z.array(ToolSketchData.extend({ name: ToolName })).max(TOOLS_PER_CLASS_MAX),
  /** Where the answer names none. */
  unnamed: ToolSketchData.optional(),
  /** Tools without a place of their own, together. */
  other: ToolSketchData.optional(),
  /** All of them together. */
  all: ToolSketchData,
  situations: z.array(SituationData).max(TOOL_SITUATIONS_MAX),
})
export type ToolsData = z.infer<typeof ToolsData>
