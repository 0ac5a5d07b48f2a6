/**
 * What a client measured of its tools since its last call: X-Tool-Time, `search;dur=120, read;dur=8` in milliseconds. Client
 * libraries send it. It names tools where an answer is text only, and tells tools apart that ran at once. Tolerant: an entry
 * that does not fit is passed over.
 */
import { TOOLS_PER_CALL_MAX, type ToolTime } from '../../protocol/index.ts'
import { toolName } from './tool-name.ts'

export const TOOL_TIMES_HEADER = 'X-Tool-Time'
/** The rest is not read. */
export const TOOL_TIMES_CHARS_MAX = 4096
/** A day. */
const DURATION_MS_MAX = 86_400_000

/** At most TOOLS_PER_CALL_MAX, in order. */
export function toolTimes(header: string | null | undefined): ToolTime[] {
  if (header == null || header === '') return []
  const times: ToolTime[] = []
  for (const entry of header.slice(0, TOOL_TIMES_CHARS_MAX).split(',')) {
    if (times.length === TOOLS_PER_CALL_MAX) break
    const [written = '', duration = ''] = entry.split(';dur=', 2)
    const name = toolName(written.trim())
    const duration_ms = /^\d{1,9}$/.test(duration.trim()) ? Number(duration) : Number.NaN
    if (name !== null && duration_ms <= DURATION_MS_MAX) times.push({ name, duration_us: duration_ms * 1000 })
  }
  return times
}
