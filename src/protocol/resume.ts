/**
 * What a Worker sends with a call whose answer had begun on an engine that failed, so that another engine goes on from there
 * and the client sees one stream. It comes as one more field of the body, and an agent reads it only where the ticket says so.
 *
 * An agent names the tokens behind each event in the event's `id`, which the Worker keeps and no client sees. An engine of the
 * same model computes prompt and tokens, runs them through its own parsers again, and leaves out what was delivered. Of servers
 * that do not name tokens the `id` says how many they were. Others go on from the text then, if they can.
 */
import { z } from 'zod'
import { Count } from './ids.ts'
import { TOOLS_PER_CALL_MAX } from './tools.ts'

export const RESUME_FIELD = 'switchyard_resume'
/** An answer beyond either is not resumed. Characters: of all texts and ids of events together. */
export const RESUME_TOKENS_MAX = 32_768
export const RESUME_CHARS_MAX = 256 * 1024
/** All of it, written as JSON: no character takes more than six bytes. */
export const RESUME_BYTES_MAX = 6 * RESUME_CHARS_MAX + 64 * 1024

const Delivered = z.string().max(RESUME_CHARS_MAX)

export const Resume = z.object({
  /** What the call had generated when its last delivered event was made. Empty: an engine of it did not name them. */
  tokens: z.array(Count.max(2 ** 32 - 1)).max(RESUME_TOKENS_MAX),
  /** How many they were, named or not. Left out: as many as are named. */
  output_tokens: Count.max(RESUME_TOKENS_MAX).optional(),
  // What the client has.
  content: Delivered,
  reasoning: Delivered,
  tool_calls: z.array(z.object({ name: Delivered, arguments: Delivered })).max(TOOLS_PER_CALL_MAX),
  // Of the chunks that it has.
  created_s: Count,
  system_fingerprint: z.string().max(256).nullable(),
})
export type Resume = z.infer<typeof Resume>

/** What was generated for an event: its tokens, or how many, where the server does not name them. */
export type Generated = readonly number[] | number

export function tokensText(tokens: readonly number[]): string {
  return tokens.join(',')
}

/** The `id` of an event. Null: it is of nothing that was generated. */
export function eventId(generated: Generated): string | null {
  if (typeof generated === 'number') return generated === 0 ? null : `+${generated}`
  return generated.length === 0 ? null : tokensText(generated)
}

/** Of two events that became one. */
export function joinedGenerated(one: Generated, other: Generated): Generated {
  if (typeof one !== 'number' && typeof other !== 'number') return [...one, ...other]
  return generatedCount(one) + generatedCount(other)
}

export function generatedCount(generated: Generated): number {
  return typeof generated === 'number' ? generated : generated.length
}

/** Of all events of an answer, in order. Null: one is no such id. */
export function generatedBy(ids: readonly string[]): (Pick<Resume, 'tokens'> & { output_tokens: number }) | null {
  const counts = ids.filter((id) => /^\+\d{1,10}$/.test(id)).map(Number)
  const unnamed = counts.reduce((sum, count) => sum + count, 0)
  const lists = ids.length - counts.length
  const text = counts.length === 0 ? ids.join(',') : ids.filter((id) => !id.startsWith('+')).join(',')
  const named = lists === 0 ? [] : tokensOf(text)
  if (named === null) return null
  return { tokens: unnamed > 0 ? [] : named, output_tokens: named.length + unnamed }
}

/** Null: `text` is no list of tokens. */
function tokensOf(text: string): number[] | null {
  if (!/^\d{1,10}(,\d{1,10})*$/.test(text)) return null
  return text.split(',').map(Number)
}
