/** A strict call is refused for a field that has no effect, or that has one on some engines only. */
import type { FieldNotes } from '../core/call/field-warnings.ts'
import type { ApiErrorFields } from '../platform/api-error.ts'
import type { RequestHeaders } from './request-headers.ts'

export const STRICT_HEADER = 'X-Switchyard-Strict'

export const STRICT_FAULT: ApiErrorFields = {
  message: `${STRICT_HEADER} is \`true\` or \`false\`.`,
  param: STRICT_HEADER,
  code: 'invalid_value',
}

/** What the call asks for; null: the header is invalid. */
export function strictOf(headers: RequestHeaders): boolean | null {
  const value = headers.get(STRICT_HEADER)?.toLowerCase() ?? 'false'
  return value === 'true' || value === 'false' ? value === 'true' : null
}

/** Null: every field is binding. */
export function strictRefusal({ ignored, hints }: FieldNotes): ApiErrorFields | null {
  const [unused] = ignored.fields
  if (unused !== undefined) return refusal(unused.param, 'it would have no effect')
  const [hint] = hints.fields
  return hint === undefined ? null : refusal(hint.param, 'it is a hint, which not every engine applies')
}

function refusal(param: string, reason: string): ApiErrorFields {
  const message = `Unsupported parameter: '${param}' is refused because the call is strict and ${reason}.`
  return { message, param, code: 'unsupported_parameter' }
}
