/**
 * A client's hint of how long the tool after the call will take: `expect_tool_s` in the call's metadata, or in X-Program-Hints,
 * as the client libraries send it. It becomes a part of the call's forecast and nothing else. It orders programs only among
 * those of its own tenant.
 */
import type { HeaderGetter } from '../call/identity.ts'

export const TOOL_HINT_FIELD = 'expect_tool_s'
const HINTS_HEADER = 'X-Program-Hints'
export const HINTS_CHARS_MAX = 4096
/** A day. A program without a call for so long has gone stale. */
export const TOOL_HINT_S_MAX = 86_400

const SECONDS = /^\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,3})?$/i
/** As HTTP's structured fields write a dictionary of numbers: `expect_tool_s=2.5, other=1`. */
const HINT = /(?:^|,)[ \t]*expect_tool_s=([^,]*)/

export type ToolHint = { ok: true; expect_tool_us: number | null } | { ok: false; param: string; message: string }

/** What metadata says counts before the header. */
export function toolHint(metadata: Readonly<Record<string, string>> | null, header: HeaderGetter): ToolHint {
  const told = metadata?.[TOOL_HINT_FIELD]
  if (told !== undefined) return hintOf(told, `metadata.${TOOL_HINT_FIELD}`)
  const hints = header(HINTS_HEADER.toLowerCase()) ?? ''
  if (hints.length > HINTS_CHARS_MAX) {
    const message = `${HINTS_HEADER} is longer than ${HINTS_CHARS_MAX} characters.`
    return { ok: false, param: HINTS_HEADER, message }
  }
  const written = HINT.exec(hints)?.[1]
  return written === undefined ? { ok: true, expect_tool_us: null } : hintOf(written.trim(), HINTS_HEADER)
}

function hintOf(written: string, param: string): ToolHint {
  const seconds = SECONDS.test(written) ? Number(written) : Number.NaN
  if (seconds <= TOOL_HINT_S_MAX) return { ok: true, expect_tool_us: Math.round(seconds * 1e6) }
  const message = `Invalid value for '${param}': ${TOOL_HINT_FIELD} is a number of seconds from 0 to ${TOOL_HINT_S_MAX}.`
  return { ok: false, param, message }
}
