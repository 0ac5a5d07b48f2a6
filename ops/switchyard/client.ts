/** The API from outside: one request, one answer or one sentence that says why not. Never shows a key. */
import { z } from 'zod'
import { LiveEvent, type LivePosition } from '../../src/protocol/live.ts'
import { nextStep } from './next-step.ts'

const TIMEOUT_MS = 30_000
/** Of a request with a file, or for one. */
const CONTENT_TIMEOUT_MS = 15 * 60_000
const CONTENT_PATH = /\/(content|output)$/
/** As the API bounds a page. */
const PAGE_MAX = 100
/** Rows that one command shows. */
export const ROWS_MAX = 10_000

/** `refused`: the API said no. `unreachable`: no answer came, or the service failed. */
export class CommandFailure extends Error {
  readonly kind: 'usage' | 'refused' | 'unreachable'
  /** What to do next, as a sentence. Null: the message has it. */
  readonly next: string | null

  constructor(kind: 'usage' | 'refused' | 'unreachable', message: string, next: string | null = null) {
    super(message)
    this.kind = kind
    this.next = next
  }
}

export type Row = Record<string, unknown>

const RowJson = z.record(z.string(), z.unknown())
const Page = z.object({ data: z.array(RowJson), next_cursor: z.string().nullable() })
const PoolPage = z.object({ pools: z.array(RowJson), next_cursor: z.string().nullable() })
const OpenAiPage = z.object({ data: z.array(RowJson), has_more: z.boolean(), last_id: z.string().nullable() })
const Failure = z.object({
  error: z.object({ message: z.string(), code: z.string().nullable(), param: z.string().nullish() }),
})

/** The path before every path, by whose key opens it. */
const BASES = { operator: '/admin/v1', tenant: '/v1' } as const
const WHERE_NEXT = '`switchyard status` shows what runs here; --url or SWITCHYARD_URL names another control plane'

class ApiClient {
  readonly url: string
  readonly key: string
  readonly #role: keyof typeof BASES

  constructor(url: string, key: string, role: keyof typeof BASES) {
    this.url = url.replace(/\/+$/, '')
    this.key = key
    this.#role = role
  }

  async one(method: string, path: string, body?: Row | FormData): Promise<Row> {
    return RowJson.parse(await this.ask(method, path, body))
  }

  async ask(method: string, path: string, body?: Row | FormData): Promise<unknown> {
    const { response, url } = await this.send(method, path, body)
    const text = await this.#read(() => response.text())
    const json = parsed(text)
    if (response.ok && json !== undefined) return json
    throw this.failureOf(response.status, json, `${method} ${url}`)
  }

  /** Where open calls of the tenant's running programs are, by program; of the latest callers, as many as one look tells. */
  async positions(): Promise<ReadonlyMap<string, LivePosition>> {
    const { response, url } = await this.send('GET', '/page/live', undefined, '')
    const json = parsed(await this.#read(() => response.text()))
    if (!response.ok) throw this.failureOf(response.status, json, `GET ${url}`)
    const rows = LiveEvent.parse(json).tenants.flatMap(({ changed }) => changed)
    return new Map(rows.flatMap(({ id, detail }) => (detail?.position ? [[id, detail.position] as const] : [])))
  }

  /** An answer of any status, unread. */
  async send(
    method: string,
    path: string,
    body?: Row | FormData,
    base: string = BASES[this.#role],
  ): Promise<{ response: Response; url: string }> {
    const headers = new Headers({ authorization: `Bearer ${this.key}` })
    const is_form = body instanceof FormData
    if (body !== undefined && !is_form) headers.set('content-type', 'application/json')
    const timeout_ms = is_form || CONTENT_PATH.test(path) ? CONTENT_TIMEOUT_MS : TIMEOUT_MS
    const init = { method, headers, redirect: 'error' as const, signal: AbortSignal.timeout(timeout_ms) }
    const url = `${this.url}${base}${path}`
    const sent = body === undefined ? init : { ...init, body: is_form ? body : JSON.stringify(body) }
    return { response: await this.#read(() => fetch(url, sent)), url }
  }

  /** Follows pages with a cursor until there are `limit` rows or no more. */
  async rows(path: string, query: Readonly<Record<string, string | undefined>>, limit: number): Promise<Row[]> {
    const rows: Row[] = []
    let cursor: string | null = null
    do {
      const page = String(Math.min(PAGE_MAX, limit - rows.length))
      const answer: unknown = await this.ask(
        'GET',
        path + queryOf({ ...query, limit: page, cursor: cursor ?? undefined }),
      )
      const pools = PoolPage.safeParse(answer)
      const { data, next_cursor } = pools.success
        ? { data: pools.data.pools, next_cursor: pools.data.next_cursor }
        : Page.parse(answer)
      rows.push(...data)
      cursor = next_cursor
    } while (cursor !== null && rows.length < limit)
    return rows
  }

  async #read<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read()
    } catch (error) {
      const { message, cause } = error as Error
      const why = cause instanceof Error && cause.message !== '' ? cause.message : message
      throw new CommandFailure('unreachable', `${this.url} does not answer: ${why}`, WHERE_NEXT)
    }
  }

  protected failureOf(status: number, json: unknown, asked: string): CommandFailure {
    const failure = Failure.safeParse(json)
    const { message = '', code = null, param } = failure.data?.error ?? {}
    // Messages about a field's value seldom name it.
    const place = param === null || param === undefined || message.includes(param) ? '' : `, ${param}`
    const kind = status >= 400 && status < 500 ? 'refused' : 'unreachable'
    if (!failure.success) {
      return new CommandFailure(kind, `${asked} answered status ${status}, and not as Switchyard does`, WHERE_NEXT)
    }
    return new CommandFailure(
      kind,
      `${message.replace(/\.$/, '')} (${code ?? status}${place})`,
      nextStep(code, this.#role),
    )
  }
}

/** What a tenant's key opens: OpenAI's API. */
export class TenantClient extends ApiClient {
  constructor(url: string, key: string) {
    super(url, key, 'tenant')
  }

  async list(path: string, limit: number): Promise<Row[]> {
    const rows: Row[] = []
    let after: string | undefined
    do {
      const asked = queryOf({ limit: String(Math.min(PAGE_MAX, limit - rows.length)), after })
      const { data, has_more, last_id } = OpenAiPage.parse(await this.ask('GET', path + asked))
      rows.push(...data)
      after = has_more ? (last_id ?? undefined) : undefined
    } while (after !== undefined && rows.length < limit)
    return rows
  }

  /** A file's contents as they come. */
  async content(path: string): Promise<ReadableStream<Uint8Array>> {
    const { response, url } = await this.send('GET', path)
    if (response.ok && response.body !== null) return response.body
    throw this.failureOf(response.status, parsed(await response.text()), `GET ${url}`)
  }
}

export class AdminClient extends ApiClient {
  constructor(url: string, key: string) {
    super(url, key, 'operator')
  }

  list(path: string, query: Readonly<Record<string, string | undefined>>, limit: number): Promise<Row[]> {
    return this.rows(path, query, limit)
  }
}

function queryOf(query: Readonly<Record<string, string | undefined>>): string {
  const named = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return named.length === 0 ? '' : `?${new URLSearchParams(named)}`
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

export const at = (id: string): string => encodeURIComponent(id)
