/** Reads a client's JSON body under a bound: what is over it is refused as soon as that is known, and never held. */
import type { ApiErrorFields } from '../api/errors.ts'

export const BODY_BYTES_MAX = 4 * 1024 * 1024

export type BodyRead =
  | { status: 'read'; body: Readonly<Record<string, unknown>>; bytes: number }
  | { status: 'refused'; http_status: number; error: ApiErrorFields }

export async function readBody(request: Request, bytes_max: number = BODY_BYTES_MAX): Promise<BodyRead> {
  if (request.body === null) return malformed('The request has no body; it must be a JSON object.')
  if (Number(request.headers.get('content-length') ?? 0) > bytes_max) return tooLarge(bytes_max)
  const bytes = await readBytes(request.body, bytes_max)
  if (bytes === null) return tooLarge(bytes_max)
  return parseObject(bytes)
}

/** Null: more than `bytes_max`. */
async function readBytes(stream: ReadableStream<Uint8Array>, bytes_max: number): Promise<Uint8Array | null> {
  const parts: Uint8Array[] = []
  let total = 0
  const reader = stream.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    total += value.length
    if (total > bytes_max) {
      await reader.cancel()
      return null
    }
    parts.push(value)
  }
  const only = parts[0]
  if (parts.length === 1 && only !== undefined) return only
  const joined = new Uint8Array(total)
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

function parseObject(bytes: Uint8Array): BodyRead {
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes))
  } catch (error) {
    if (error instanceof SyntaxError) return malformed(`The body is not valid JSON${positionOf(error.message)}.`)
    if (error instanceof TypeError) return malformed('The body is not valid UTF-8.')
    throw error
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return malformed('The body must be a JSON object.')
  }
  return { status: 'read', body: body as Record<string, unknown>, bytes: bytes.length }
}

/** V8 names the position in most of its messages; the rest of them quotes the body and is not repeated. */
function positionOf(message: string): string {
  const position = /at position (\d+)/.exec(message)?.[1]
  return position === undefined ? ' (it ends too early or is empty)' : ` (at position ${position})`
}

function malformed(message: string): BodyRead {
  return { status: 'refused', http_status: 400, error: { message, code: 'invalid_json' } }
}

function tooLarge(bytes_max: number): BodyRead {
  const message = `The body is larger than ${bytes_max} bytes.`
  return { status: 'refused', http_status: 413, error: { message, code: 'request_too_large' } }
}
