/**
 * Questions to a server that somebody else runs: bounded in time and bytes, without redirects, since its key goes with them and
 * must not reach another host. What goes wrong is a sentence for the operator.
 */
import { messageOf } from '../../events.ts'
import { isAzure } from './provider-hosts.ts'

/** Servers answer these from their API process, in milliseconds also when they are busy. */
export const ANSWER_MS_MAX = 5000
const HEALTH_MS_MAX = 10_000
export const BODY_BYTES_MAX = 8 * 1024 * 1024

export interface Asking {
  /** Base, without /v1. */
  url: string
  api_key: string | null
  /** Left out: OpenAI's. */
  api?: ServerApi
  /** It speaks both APIs. */
  speaks_chat?: boolean
  /** Of Azure, in the query of every address. Left out or null: it has none. */
  api_version?: string | null
  /** Left out or null: as its API and its host say. */
  key_header?: KeyHeader | null
}

export const KEY_HEADERS = ['bearer', 'api-key', 'x-api-key'] as const
export type KeyHeader = (typeof KEY_HEADERS)[number]

const DEPLOYMENT = /\/deployments\/([^/]+)$/

/** The model that an older address of Azure names. Null: it is no such address. */
export function deploymentOf(url: string): string | null {
  return DEPLOYMENT.exec(url)?.[1] ?? null
}

/** `path`: with /v1. Older addresses of Azure have none, and list models beside their deployments. */
export function addressOf({ url, api_version }: Pick<Asking, 'url' | 'api_version'>, path: string): string {
  const query = api_version == null ? '' : `?api-version=${encodeURIComponent(api_version)}`
  if (deploymentOf(url) === null) return url + path + query
  const base = path === '/v1/models' ? url.replace(DEPLOYMENT, '') : url
  return base + path.replace(/^\/v1/, '') + query
}

/** Which API a server speaks: how it takes its key, and where it is called. */
export type ServerApi = 'openai' | 'messages'
const ANTHROPIC_VERSION = '2023-06-01'

export function keyHeaders(server: Asking): Record<string, string> {
  const { url, api_key, key_header, api = 'openai', speaks_chat = false } = server
  const version: Record<string, string> = api === 'messages' ? { 'anthropic-version': ANTHROPIC_VERSION } : {}
  if (api_key === null) return version
  const own = api === 'messages' ? 'x-api-key' : isAzure(url) ? 'api-key' : 'bearer'
  const header = key_header ?? own
  // Servers that speak Messages beside chat take the key of chat.
  const bearer = header === 'bearer' || (speaks_chat && api === 'messages' && key_header == null)
  return {
    ...version,
    ...(header === 'bearer' ? {} : { [header]: api_key }),
    ...(bearer ? { authorization: `Bearer ${api_key}` } : {}),
  }
}

export type Asked<T> = { ok: true; value: T } | { ok: false; status: number | null; reason: string }

/** `body`: posted as JSON. */
export async function ask(
  server: Asking,
  path: string,
  {
    body,
    ms_max = ANSWER_MS_MAX,
    bytes_max = BODY_BYTES_MAX,
  }: { body?: unknown; ms_max?: number; bytes_max?: number } = {},
): Promise<Asked<string>> {
  const headers = keyHeaders(server)
  const url = addressOf(server, path)
  if (body !== undefined) headers['content-type'] = 'application/json'
  const post = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  try {
    const signal = AbortSignal.timeout(ms_max)
    const response = await fetch(url, { ...post, headers, signal, redirect: 'manual' })
    if (response.status >= 300 && response.status < 400) {
      await response.body?.cancel()
      return { ok: false, status: response.status, reason: redirectFault(url, response.headers.get('location')) }
    }
    const text = await boundedText(response, bytes_max)
    if (text === null) return { ok: false, status: response.status, reason: `more than ${bytes_max} bytes` }
    if (!response.ok) return { ok: false, status: response.status, reason: `HTTP ${response.status}` }
    return { ok: true, value: text }
  } catch (error) {
    // fetch rejects for what the network does: refused, reset, too late. The caller decides what that means.
    return { ok: false, status: null, reason: networkFault(error) }
  }
}

/** As `ask`. A body that is not JSON is null. */
export async function askJson(
  server: Asking,
  path: string,
  how: Parameters<typeof ask>[2] = {},
): Promise<Asked<unknown>> {
  const answer = await ask(server, path, how)
  return answer.ok ? { ok: true, value: jsonOf(answer.value) } : answer
}

function redirectFault(from: string, location: string | null): string {
  const to = location === null ? null : URL.parse(location, from)
  const where = to === null ? 'elsewhere' : `to ${to.origin}`
  return `it redirects ${where}, and its key is sent to no other address: give the address itself`
}

/** Certificates that are not trusted are common in front of servers at home; Node's message names no way out. */
export function networkFault(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = (cause as NodeJS.ErrnoException | null)?.code ?? ''
  if (!/CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS/.test(code)) return messageOf(error)
  return `its certificate is not trusted (${code}): start the agent with NODE_EXTRA_CA_CERTS=FILE, the certificate of who signed it`
}

/** Null: it is longer than that. Leaving the loop closes the connection. */
async function boundedText(response: Response, bytes_max: number): Promise<string | null> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of response.body ?? []) {
    bytes += part.length
    if (bytes > bytes_max) return null
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // The caller's schema refuses null with a sentence.
    return null
  }
}

/** `broken`: the server says that it cannot serve. `silent`: no answer in time. */
export type Health = 'ok' | 'broken' | 'silent'

/** Nothing is asked with a key. */
export async function askHealth(url: string, ms_max = HEALTH_MS_MAX): Promise<Health> {
  const answer = await ask({ url, api_key: null }, '/health', { ms_max })
  if (answer.ok) return 'ok'
  return answer.status === null ? 'silent' : 'broken'
}
