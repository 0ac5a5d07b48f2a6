/**
 * The control plane's side of the link and of /agents/v1/records, for the agent's unit tests: an HTTP and WebSocket
 * server whose answers a test can change. Signs tickets with the key that its welcome hands out.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { type HostDownMessage, HostUpMessage } from '../../../src/protocol/host.ts'
import {
  type CallRecord,
  deriveTicketKey,
  type Hello,
  importTicketKey,
  type OpenLeases,
  type Positions,
  PROTOCOL_VERSION,
  RecordBatch,
  type Replayed,
  type Status,
  signTicket,
  type TicketClaims,
  UpMessage,
  type Welcome,
} from '../../../src/protocol/index.ts'

export const TOKEN = 'sya-test'
const KID = '1'
const SECRET = 'test-ticket-secret'

export type Answer = { status: number; body: unknown }

export class ControlPlaneStandIn {
  readonly hellos: Hello[] = []
  readonly statuses: Status[] = []
  readonly opens: OpenLeases[] = []
  readonly replays: Replayed[] = []
  readonly positions: Positions[] = []
  readonly batches: CallRecord[][] = []
  readonly sockets: WebSocket[] = []
  readonly link_urls: string[] = []
  clock_offset_ms = 0
  /** Status of a refused upgrade; null takes it. */
  refuse_link: number | null = null
  /** Of a refused upgrade. */
  refusal_body = ''
  /** Null answers a hello with nothing. */
  welcome: ((hello: Hello) => Promise<unknown>) | null = async () => this.makeWelcome()
  answer: (batch: RecordBatch) => Answer | Promise<Answer> = (batch) => ({
    status: 200,
    body: { acknowledged: batch.records.map(({ lease }) => lease) },
  })
  /** What hosts said over their links. */
  readonly host_messages: HostUpMessage[] = []
  #host: WebSocket | null = null
  readonly #http = createServer((request, response) => void this.#records(request, response))
  readonly #ws = new WebSocketServer({ noServer: true })
  readonly #watchers = new Set<() => void>()

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`
  }

  get records(): CallRecord[] {
    return this.batches.flat()
  }

  async start(port = 0): Promise<this> {
    this.#http.on('upgrade', (request, socket, first) => {
      if (this.refuse_link !== null) {
        // An agent reads no more of it than an error is long.
        socket.on('error', () => undefined)
        const head = `HTTP/1.1 ${this.refuse_link} No\r\nconnection: close\r\n\r\n`
        socket.end(head + this.refusal_body, () => socket.destroy())
        return
      }
      this.link_urls.push(request.url ?? '')
      const isHost = request.url?.startsWith('/agents/v1/host') === true
      this.#ws.handleUpgrade(request, socket, first, (link) => (isHost ? this.#hostLinked(link) : this.#linked(link)))
    })
    await new Promise<void>((resolve) => this.#http.listen(port, '127.0.0.1', resolve))
    return this
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.terminate()
    this.#http.closeAllConnections()
    await new Promise((resolve) => this.#http.close(resolve))
  }

  /** Resolves when `holds`; looked at whenever something arrives. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      await new Promise<void>((resolve) => this.#watchers.add(resolve))
    }
  }

  down(message: unknown): void {
    this.sockets.at(-1)?.send(JSON.stringify(message))
  }

  /** To the host that linked last. */
  downHost(message: HostDownMessage): void {
    this.#host?.send(JSON.stringify(message))
  }

  async makeWelcome(): Promise<Welcome> {
    const key = Buffer.from(await deriveTicketKey(SECRET, KID, 'a')).toString('base64url')
    return {
      type: 'welcome',
      protocol: PROTOCOL_VERSION,
      ticket_keys: [{ kid: KID, key }],
      clock_offset_ms: this.clock_offset_ms,
    }
  }

  async ticket(
    changes: Partial<TicketClaims> = {},
    now_s: number = Date.now() / 1000,
    kid: string = KID,
  ): Promise<string> {
    return signTicket(claimsOf(changes), await importTicketKey(await deriveTicketKey(SECRET, KID, 'a')), kid, now_s)
  }

  #linked(link: WebSocket): void {
    this.sockets.push(link)
    link.on('message', async (data) => {
      const message = UpMessage.parse(JSON.parse(data.toString()))
      if (message.type === 'status') this.statuses.push(message)
      else if (message.type === 'open') this.opens.push(message)
      else if (message.type === 'replayed') this.replays.push(message)
      else if (message.type === 'positions') this.positions.push(message)
      else {
        this.hellos.push(message)
        if (this.welcome !== null) link.send(JSON.stringify(await this.welcome(message)))
      }
      this.#arrived()
    })
  }

  #hostLinked(link: WebSocket): void {
    this.#host = link
    this.sockets.push(link)
    link.on('message', (data) => {
      const message = HostUpMessage.parse(JSON.parse(data.toString()))
      this.host_messages.push(message)
      if (message.type === 'hello') link.send(JSON.stringify({ type: 'welcome', protocol: 1 }))
      this.#arrived()
    })
  }

  async #records(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part)
    if (request.headers.authorization !== `Bearer ${TOKEN}` || request.url !== '/agents/v1/records') {
      response.writeHead(401).end()
      return
    }
    const batch = RecordBatch.parse(JSON.parse(Buffer.concat(parts).toString()))
    this.batches.push([...batch.records])
    const { status, body } = await this.answer(batch)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    this.#arrived()
  }

  #arrived(): void {
    const watchers = [...this.#watchers]
    this.#watchers.clear()
    for (const watcher of watchers) watcher()
  }
}

let leases = 0

/** Claims for engine `a-e0` of agent `a`, with a lease of their own. */
export function claimsOf(changes: Partial<TicketClaims> = {}): Omit<TicketClaims, 'iat' | 'exp' | 'v'> {
  leases += 1
  return {
    tenant: 'tenant',
    program: 'program',
    run: 'run',
    thread: 'thread',
    call: `call-${leases}`,
    lease: `lease-${leases}`,
    agent: 'a',
    engine: 'a-e0',
    epoch: 'epoch-1',
    region: 'here',
    model: 'test-model',
    class: 'class',
    tenant_weight: 1,
    objective: 'token_latency',
    sequence: null,
    settled_service_us: 0,
    open_elsewhere_us: 0,
    critical_path_us: 0,
    program_wait_us: 0,
    program_output_tokens: 0,
    cache_salt: 'salt',
    ...changes,
  }
}
