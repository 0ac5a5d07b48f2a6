/**
 * The call that a client's body is. The prompt of a body in an API that engines speak is not parsed where that is possible
 * (core/call/scanned-body.ts): its bytes go to the engine's agent as they came, which parses them once. Otherwise the body is
 * parsed whole:
 *
 * - it is short, so that parsing it costs less than what is put in its place
 * - it is in an API that is translated, so every message is read
 * - it is not ordinary, or not valid; then parsing says what is wrong
 * - a volatile line is taken out of its prompt (core/call/prompt-head.ts)
 * - it has an Idempotency-Key, which stands for the body that engines get: not for how its client wrote it
 */
import { withoutVolatileHead } from '../core/call/prompt-head.ts'
import { type ScannedBody, scanBody } from '../core/call/scanned-body.ts'
import type { ApiErrorFields } from '../platform/api-error.ts'
import { parseObject, readBodyBytes } from './body.ts'
import type { Dialect, Json, ParsedCall } from './dialects/dialect.ts'
import { KEY_HEADER } from './idempotency-key.ts'
import type { ResponseStore } from './response-store.ts'

/** A shorter body is parsed whole. */
export const SCANNED_BYTES_MIN = 8 * 1024

export type CallRead =
  | {
      status: 'read'
      call: ParsedCall
      /** Every field of the body, for what names the program. */
      body: Readonly<Json>
      bytes: number
      /** What stands for the prompt. Null: the body was parsed whole. */
      scanned: ScannedBody | null
    }
  | { status: 'refused'; http_status: number; error: ApiErrorFields; headers?: HeadersInit }

export async function readCall(request: Request, dialect: Dialect, store: ResponseStore): Promise<CallRead> {
  const read = await readBodyBytes(request)
  if (read.status === 'refused') return read
  return scannedCall(read.bytes, request.headers, dialect) ?? parsedCall(read.bytes, request.headers, dialect, store)
}

async function parsedCall(
  bytes: Uint8Array,
  headers: Headers,
  dialect: Dialect,
  store: ResponseStore,
): Promise<CallRead> {
  const read = parseObject(bytes)
  if (read.status === 'refused') return read
  const recalled = (await dialect.recall?.(read.body, store)) ?? null
  if (recalled?.status === 'refused') return recalled
  const parsed = dialect.parse(read.body, headers, recalled)
  if (parsed.status === 'refused') return { status: 'refused', http_status: 400, error: parsed.error }
  return { status: 'read', call: parsed.call, body: read.body, bytes: read.bytes, scanned: null }
}

/** Null: it is parsed whole. */
function scannedCall(bytes: Uint8Array, headers: Headers, dialect: Dialect): CallRead | null {
  const { prompt_field } = dialect
  if (prompt_field === undefined || bytes.length < SCANNED_BYTES_MIN || headers.has(KEY_HEADER)) return null
  const scanned = scanBody(bytes, prompt_field)
  if (scanned === null || withoutVolatileHead(scanned.prompt) !== scanned.prompt) return null
  const parsed = dialect.parse(scanned.fields, headers)
  if (parsed.status === 'refused') return null
  const call = { ...parsed.call, body: { ...parsed.call.body, ...scanned.prompt } }
  return { status: 'read', call, body: scanned.fields, bytes: bytes.length, scanned }
}
