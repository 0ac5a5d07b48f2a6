/** A tool's name as a client or a model wrote it → the name under which it is known (protocol/tools.ts). */
import { TOOL_NAME_CHARS_MAX } from '../../protocol/index.ts'

/**
 * Null: it is no name. Characters that a header, a table or a terminal may not carry become underscores. Names that differ
 * in nothing else, or only beyond the bound, count as one tool.
 */
export function toolName(written: unknown): string | null {
  if (typeof written !== 'string' || written === '') return null
  return written.slice(0, TOOL_NAME_CHARS_MAX).replace(/[^\x21-\x7e]/g, '_')
}
