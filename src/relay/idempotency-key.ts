/** The `Idempotency-Key` header as clients send it. */
import { KEY_CHARS_MAX } from '../core/call/idempotency-table.ts'
import type { RequestHeaders } from './request-headers.ts'

export const KEY_HEADER = 'Idempotency-Key'
const PRINTABLE_ASCII = /^[\x20-\x7e]+$/

/** The header's value. Null: there is none. False: it is invalid. */
export function idempotencyKey(headers: RequestHeaders): string | null | false {
  const key = headers.get(KEY_HEADER)
  if (key === null) return null
  return key.length > 0 && key.length <= KEY_CHARS_MAX && PRINTABLE_ASCII.test(key) ? key : false
}
