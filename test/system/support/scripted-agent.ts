/**
 * An agent whose engines do what a test says: it joins a pool over the real link with the real protocol, checks tickets
 * with the keys that it was given, and hands every call's raw response to the test. It sends no records.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import {
  importTicketKey,
  PROTOCOL_VERSION,
  PROTOCOL_VERSION_MIN,
  STATUS_INTERVAL_MS,
  type TicketClaims,
  verifyTicket,
  Welcome,
} from '../../../src/protocol/index.ts'

export interface ScriptedCall {
  claims: TicketClaims
  path: string
  body: Record<string, unknown>
  response: ServerResponse
  /** Resolves when the connection of this response has closed. */
  closed: Promise<void>
  /** Sends the headers and `: accepted`. */
  accept(): void
}

export type ScriptedHandler = (call: ScriptedCall) => void | Promise<void>

export interface ScriptedAgentOptions {
  controlUrl: string
  id: string
  region: string
  model: string
  token: string
  engines: number
}

export class ScriptedAgent {
  /** What engines do with the next calls. */
  handler: ScriptedHandler = ({ response }) => void response.destroy()
  readonly calls: ScriptedCall[] = []
  readonly #options: ScriptedAgentOptions
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(parts).toString('utf8')) as Record<string, unknown>
      void this.#serve(request.headers.authorization ?? '', request.url ?? '', body, response)
    })
  })
  #keys = new Map<string, CryptoKey>()
  #link: WebSocket | null = null
  #status: NodeJS.Timeout | undefined
  #seen: string[] = []

  constructor(options: ScriptedAgentOptions) {
    this.#options = options
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
  }

  get engines(): string[] {
    return Array.from({ length: this.#options.engines }, (_, index) => `${this.#options.id}-e${index}`)
  }

  /** Resolves when the pool has welcomed it and heard a first status. */
  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    const { controlUrl, model, region, token } = this.#options
    const url = `${controlUrl.replace('http', 'ws')}/agents/v1/link?model=${model}&region=${region}`
    // Node's WebSocket takes headers, which the type of the standard does not know.
    const link = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } } as never)
    this.#link = link
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    link.addEventListener('open', () => link.send(JSON.stringify(this.#hello())))
    link.addEventListener('message', ({ data }) => {
      const welcome = Welcome.safeParse(JSON.parse(String(data)))
      if (welcome.success) this.#welcomed(welcome.data).then(resolve, reject)
    })
    link.addEventListener('close', ({ code, reason }) => reject(new Error(`link closed: ${code} ${reason}`)))
    link.addEventListener('error', () => reject(new Error('link failed')))
    await promise
  }

  async stop(): Promise<void> {
    clearInterval(this.#status)
    this.#link?.close()
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #welcomed(welcome: Welcome): Promise<void> {
    for (const { kid, key } of welcome.ticket_keys) {
      this.#keys.set(kid, await importTicketKey(Buffer.from(key, 'base64url')))
    }
    let seq = 0
    const report = (): void => {
      seq += 1
      this.#link?.send(JSON.stringify({ type: 'status', seq, engines: this.#statuses() }))
    }
    report()
    this.#status = setInterval(report, STATUS_INTERVAL_MS / 2)
  }

  async #serve(
    authorization: string,
    path: string,
    body: Record<string, unknown>,
    response: ServerResponse,
  ): Promise<void> {
    const verdict = await verifyTicket(authorization.replace('Bearer ', ''), this.#keys, Date.now() / 1000)
    if (!verdict.ok) {
      response.writeHead(401).end()
      return
    }
    const closed = new Promise<void>((resolve) => response.on('close', resolve))
    const accept = (): void => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(': accepted\n\n')
    }
    const call = { claims: verdict.claims, path, body, response, closed, accept }
    this.#seen.push(verdict.claims.lease)
    this.calls.push(call)
    await this.handler(call)
  }

  #hello(): object {
    const { id: agent, region, model } = this.#options
    const size = { seats: 4, kv_capacity_tokens: 8192, context_tokens_max: 4096, prefill_tokens_per_s: null }
    const engines = this.engines.map((id) => ({
      id,
      epoch: 'epoch-1',
      kind: 'emulated',
      model,
      ...size,
      speed_factor: 1,
    }))
    const { port } = this.#server.address() as AddressInfo
    const protocol = { min: PROTOCOL_VERSION_MIN, max: PROTOCOL_VERSION }
    const url = `http://127.0.0.1:${port}`
    return { type: 'hello', protocol, agent, region, model, url, engines, now_ms: Date.now() }
  }

  #statuses(): object[] {
    const leases_seen = this.#seen.splice(0)
    const idle = { state: 'ready', waiting: 0, running: 0, queued_tokens: 0, kv_used_tokens: 0, bytes_per_token: null }
    return this.engines.map((id) => ({ id, epoch: 'epoch-1', ...idle, leases_seen }))
  }
}
