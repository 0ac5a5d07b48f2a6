/** JSON in and out of a server that stands in for another. */
import type { IncomingMessage, ServerResponse } from 'node:http'

const BODY_BYTES_MAX = 16 * 1024 * 1024

export type Json = Record<string, unknown>

export function reply(
  response: ServerResponse,
  status: number,
  value: Json,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))
}

/** Null: it is not a JSON object, or too long. */
export async function bodyOf(request: IncomingMessage): Promise<Json | null> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request) {
    bytes += (part as Buffer).length
    if (bytes > BODY_BYTES_MAX) return null
    parts.push(part as Buffer)
  }
  try {
    const value: unknown = JSON.parse(Buffer.concat(parts).toString())
    return typeof value === 'object' && value !== null ? (value as Json) : null
  } catch {
    // What is not JSON is refused.
    return null
  }
}
