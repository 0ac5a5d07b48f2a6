/**
 * How a batch's actor has its lines served: by an entrypoint of the same Worker (relay/batch-lines.ts), which no client can
 * reach. A line is served in a Worker and not in the actor, since what an isolate remembers for calls is made for Workers:
 * one object must not wait for what another one asked.
 */
import { z } from 'zod'
import type { LineAnswer } from '../../core/batch/line-result.ts'

export interface LineCall {
  tenant: string
  /** Id of the API key. */
  key: string
  endpoint: string
  body: Readonly<Record<string, unknown>>
}

/**
 * `broken`: the answer broke off, or the call was aborted. `refused`: the key opens nothing any more, so no line of the
 * batch can be served.
 */
export type LineOutcome =
  | (LineAnswer & { status: 'answered'; error_code: string | null; retry_after_s: number | null })
  | { status: 'broken' }
  | { status: 'refused'; message: string }

export type ServeLine = (call: LineCall, signal: AbortSignal) => Promise<LineOutcome>

/** `exports.BatchLines`. */
export type BatchLinesFetcher = Pick<Fetcher, 'fetch'>

/** Whose line it is. The entrypoint reads these headers, and no line has headers of its own. */
export const LINE_TENANT_HEADER = 'x-batch-tenant'
export const LINE_KEY_HEADER = 'x-batch-key'
/** Set to 1 where the key opens nothing any more. The body is the reason. */
export const LINE_REFUSED_HEADER = 'x-batch-refused'
/** GET: which models the key may call. */
export const LINE_MODELS_PATH = '/models'
const ORIGIN = 'https://batch.invalid'

const Models = z.object({ models: z.array(z.string()) })
/** In OpenAI's form, or in Anthropic's. */
const Failed = z.object({
  error: z.object({ code: z.string().nullish(), details: z.object({ error_code: z.string().nullish() }).nullish() }),
})

export async function callLine(
  lines: BatchLinesFetcher,
  { tenant, key, endpoint, body }: LineCall,
  signal: AbortSignal,
): Promise<LineOutcome> {
  const headers = { 'content-type': 'application/json', [LINE_TENANT_HEADER]: tenant, [LINE_KEY_HEADER]: key }
  let response: Response
  let text: string
  try {
    response = await lines.fetch(`${ORIGIN}${endpoint}`, {
      method: 'POST',
      headers,
      signal,
      body: JSON.stringify(body),
    })
    text = await response.text()
  } catch {
    // Only an engine that failed in the middle, or an abort, breaks off an answer of ours.
    return { status: 'broken' }
  }
  if (response.headers.has(LINE_REFUSED_HEADER)) return { status: 'refused', message: text }
  const { status: http_status } = response
  if (text === '') return { status: 'broken' }
  const wait = response.headers.get('retry-after')
  return {
    ...{ status: 'answered', http_status, call: response.headers.get('x-call-id'), body: text },
    error_code: http_status === 200 ? null : errorCodeOf(text),
    retry_after_s: wait === null ? null : Number(wait),
  }
}

/** None where the key opens nothing any more. */
export async function callableModels(
  lines: BatchLinesFetcher,
  { tenant, key }: Pick<LineCall, 'tenant' | 'key'>,
): Promise<ReadonlySet<string>> {
  const headers = { [LINE_TENANT_HEADER]: tenant, [LINE_KEY_HEADER]: key }
  const response = await lines.fetch(`${ORIGIN}${LINE_MODELS_PATH}`, { headers })
  if (response.headers.has(LINE_REFUSED_HEADER)) return new Set()
  if (!response.ok) throw new Error(`the models of a key are not known: status ${response.status}`)
  return new Set(Models.parse(await response.json()).models)
}

function errorCodeOf(body: string): string | null {
  const read = Failed.safeParse(JSON.parse(body))
  return read.success ? (read.data.error.code ?? read.data.error.details?.error_code ?? null) : null
}
