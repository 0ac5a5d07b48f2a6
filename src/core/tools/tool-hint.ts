/**
 * A client's hint of how long the tool after the call will take: `expect_tool_s` in the call's metadata. It becomes a part of
 * the call's forecast and nothing else. It orders programs only among those of its own tenant.
 */

export const TOOL_HINT_FIELD = 'expect_tool_s'
/** A day. A program without a call for so long has gone stale. */
export const TOOL_HINT_S_MAX = 86_400

/** Seconds in decimal digits. Metadata has texts only. */
const SECONDS = /^\d{1,5}(\.\d{1,6})?$/

export type ToolHint = { ok: true; expect_tool_us: number | null } | { ok: false; param: string; message: string }

export function toolHint(metadata: Readonly<Record<string, string>> | null): ToolHint {
  const written = metadata?.[TOOL_HINT_FIELD]
  if (written === undefined) return { ok: true, expect_tool_us: null }
  const seconds = SECONDS.test(written) ? Number(written) : Number.NaN
  if (seconds <= TOOL_HINT_S_MAX) return { ok: true, expect_tool_us: Math.round(seconds * 1e6) }
  const param = `metadata.${TOOL_HINT_FIELD}`
  const message = `Invalid value for '${param}': a number of seconds from 0 to ${TOOL_HINT_S_MAX} is required, with at most 6 decimals.`
  return { ok: false, param, message }
}
