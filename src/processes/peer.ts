/**
 * What one process of a control plane does for the others: it asks its own objects, and the first process its database and its
 * bucket too. Each question carries the secret of the deployment's processes, since other users of a machine reach its ports.
 */
import { WorkerEntrypoint } from 'cloudflare:workers'
import type { Env } from '../env.ts'

/** Bindings of objects: every one that wrangler.toml names. */
export const OBJECT_BINDINGS = [
  'PROGRAM',
  'POOL',
  'TENANT',
  'IDEMPOTENCY',
  'RESPONSES',
  'CONVERSATION',
  'ARCHIVE',
  'CLASS',
  'BATCH',
  'APPLICATION',
  'HOSTS',
] as const satisfies readonly (keyof Env)[]
export type ObjectBinding = (typeof OBJECT_BINDINGS)[number]

export interface ProcessEnv extends Env {
  /** How many processes there are, and which of them this is, from 0. */
  PROCESSES: string
  PROCESS: string
  PEER_SECRET: string
  /** The others. */
  [peer: `PEER_${number}`]: Peer
}

/** What another process's entrypoint is to its caller. */
export type Peer = Pick<Fetcher, 'fetch'> & Pick<PeerEntrypoint, 'ask' | 'sql' | 'listed' | 'stored' | 'dropped'>

export interface RemoteSql {
  sql: string
  params: unknown[]
}

/** `raw` is rows as arrays, `all` and `run` are D1's results. */
export type SqlKind = 'all' | 'run' | 'raw' | 'batch'

export const SECRET_HEADER = 'x-switchyard-peer'
/** Binding and name of the object that a request is for, as JSON. Left out: it reads the bucket. */
export const OBJECT_HEADER = 'x-switchyard-object'

type Asked = Record<string, (...args: unknown[]) => Promise<unknown>>

export class PeerEntrypoint extends WorkerEntrypoint<ProcessEnv> {
  /** Calls `method` of an object of this process. */
  async ask(secret: string, binding: ObjectBinding, name: string, method: string, args: unknown[]): Promise<unknown> {
    this.#check(secret)
    const stub = this.env[binding].getByName(name) as unknown as Asked
    return stub[method]?.(...args)
  }

  /** `statements`: one, but for a batch. */
  async sql(secret: string, kind: SqlKind, statements: RemoteSql[]): Promise<unknown> {
    this.#check(secret)
    const { DB } = this.env
    const prepared = statements.map(({ sql, params }) => DB.prepare(sql).bind(...params))
    if (kind === 'batch') return DB.batch(prepared)
    return prepared[0]?.[kind]()
  }

  async listed(secret: string, prefix: string): Promise<{ keys: string[]; truncated: boolean }> {
    this.#check(secret)
    const { objects, truncated } = await this.env.BUCKET.list({ prefix })
    return { keys: objects.map(({ key }) => key), truncated }
  }

  async stored(secret: string, key: string, body: Uint8Array): Promise<void> {
    this.#check(secret)
    await this.env.BUCKET.put(key, body)
  }

  async dropped(secret: string, keys: string[]): Promise<void> {
    this.#check(secret)
    await this.env.BUCKET.delete(keys)
  }

  /** A request to an object, such as one that opens a WebSocket. Or an object of the bucket as a stream: `?key=&offset=&length=`. */
  override async fetch(request: Request): Promise<Response> {
    if (!this.#isFromPeer(request.headers.get(SECRET_HEADER) ?? '')) return new Response(null, { status: 403 })
    const object = request.headers.get(OBJECT_HEADER)
    if (object === null) return this.#read(new URL(request.url).searchParams)
    const [binding, name] = JSON.parse(object) as [ObjectBinding, string]
    const headers = new Headers(request.headers)
    headers.delete(SECRET_HEADER)
    headers.delete(OBJECT_HEADER)
    return this.env[binding].getByName(name).fetch(new Request(request, { headers }))
  }

  async #read(query: URLSearchParams): Promise<Response> {
    const [offset, length] = [query.get('offset'), query.get('length')]
    const range = offset === null ? {} : { range: { offset: Number(offset), length: Number(length) } }
    const object = await this.env.BUCKET.get(query.get('key') ?? '', range)
    return object === null ? new Response(null, { status: 404 }) : new Response(object.body)
  }

  #check(secret: string): void {
    if (!this.#isFromPeer(secret)) throw new Error('this question is not from a process of this control plane')
  }

  #isFromPeer(secret: string): boolean {
    const [given, own] = [new TextEncoder().encode(secret), new TextEncoder().encode(this.env.PEER_SECRET)]
    return own.length > 0 && given.length === own.length && crypto.subtle.timingSafeEqual(given, own)
  }
}
