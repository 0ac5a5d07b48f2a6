/**
 * The link to one pool (src/protocol/link.ts): an outbound WebSocket that is opened again whenever it is lost, with
 * backoff and jitter. `hello` first; after the `welcome` a status on every change, never more often than every 50 ms, and
 * at least once a second. When an engine's epoch changes, `hello` is repeated on the same link; the pool replaces what
 * it knew of this agent by it.
 */

import { type RawData, WebSocket } from 'ws'
import { type BackoffBounds, backoffMs } from '../../../src/core/backoff.ts'
import {
  CLOSE,
  type ClassData,
  DownMessage,
  FRAME_BYTES_MAX,
  type Handle,
  type Hello,
  STATUS_INTERVAL_MIN_MS,
  STATUS_INTERVAL_MS,
  type Status,
  type UpMessage,
  type Welcome,
} from '../../../src/protocol/index.ts'
import { messageOf } from '../events.ts'
import { refusalOf } from './refusal.ts'

const CONNECT_TIMEOUT_MS = 10_000
const WELCOME_TIMEOUT_MS = 10_000
/** A link on which neither a message nor a pong came for this long is dead. Pings go out every third of it. */
const LINK_SILENT_MS = 15_000
const LINK_BACKOFF: BackoffBounds = { min_ms: 100, max_ms: 5000 }
/** Pace of what a person must fix: unknown token, no common protocol version, a second agent under this id. */
const LINK_REFUSED_BACKOFF: BackoffBounds = { min_ms: 5000, max_ms: 60_000 }

/** So many in a row, with the pace above, are not a moment between two steps of an operator: the agent may give up. */
export const LINK_REFUSALS_MAX = 3

const REFUSALS: readonly number[] = [
  CLOSE.protocol_version,
  CLOSE.replaced,
  CLOSE.unauthorised,
  CLOSE.dismissed,
  CLOSE.flooded,
]

export interface LinkTimes {
  status_ms: number
  status_min_ms: number
  welcome_ms: number
  silent_ms: number
  backoff: BackoffBounds
  refused_backoff: BackoffBounds
}

const LINK_TIMES: LinkTimes = {
  status_ms: STATUS_INTERVAL_MS,
  status_min_ms: STATUS_INTERVAL_MIN_MS,
  welcome_ms: WELCOME_TIMEOUT_MS,
  silent_ms: LINK_SILENT_MS,
  backoff: LINK_BACKOFF,
  refused_backoff: LINK_REFUSED_BACKOFF,
}

export interface LinkOptions {
  control_url: string
  region: string
  model: string
  token: string
  hello: () => Hello
  statuses: () => Status['engines']
  /** Resolves with a message if the welcome cannot be used; the link is then closed. */
  onWelcome: (welcome: Welcome) => Promise<{ ok: true } | { ok: false; message: string }>
  /** A clock was set since the welcome. */
  onClock: (clock_offset_ms: number) => void
  wall_ms: () => number
  onDrain: (engines: readonly string[]) => void
  onUndrain: (engines: readonly string[]) => void
  /** The operator removed this agent or replaced its token. */
  onDismissed: () => void
  onCancel: (leases: readonly string[]) => void
  /** What the pool knows about classes of programs. */
  onClasses: (classes: readonly ClassData[]) => void
  /** A program goes on elsewhere. */
  onHandle: (handle: Handle) => void
  /** Whether the lease is open here. */
  isOpen: (lease: string) => boolean
  onIgnored: () => void
  onLinked: (clock_offset_ms: number) => void
  onLost: (reason: string, retry_in_ms: number) => void
  /** The control plane has refused this agent LINK_REFUSALS_MAX times in a row. The link goes on trying. */
  onRefused: (reason: string) => void
  random: () => number
  times?: Partial<LinkTimes>
}

export class Link {
  readonly model: string
  readonly #options: LinkOptions
  readonly #times: LinkTimes
  #socket: WebSocket | null = null
  #linked = false
  #stopped = false
  #seq = 0
  #failures = 0
  /** The last attempt was refused, so the next one waits longer than after a lost link. */
  #refused = false
  /** Refusals by the control plane itself, in a row. */
  #refusals = 0
  #reason = ''
  #retry: NodeJS.Timeout | null = null
  /** Welcome deadline of the connection under way. */
  #deadline: NodeJS.Timeout | null = null
  #status: NodeJS.Timeout | null = null
  #ping: NodeJS.Timeout | null = null
  #status_sent_ms = 0
  #status_due_ms = 0
  /** Whether anything came since the last ping, and how many pings in a row brought nothing. */
  #heard = false
  #missed = 0

  constructor(options: LinkOptions) {
    this.model = options.model
    this.#options = options
    this.#times = { ...LINK_TIMES, ...options.times }
  }

  get linked(): boolean {
    return this.#linked
  }

  /** Whether the control plane refuses this agent, and not just for a moment. */
  get refused(): boolean {
    return this.#refusals >= LINK_REFUSALS_MAX
  }

  start(): void {
    this.#connect()
  }

  /** Something that a status tells has changed. */
  changed(): void {
    if (!this.#linked) return
    const since_ms = performance.now() - this.#status_sent_ms
    this.#scheduleStatus(Math.max(0, this.#times.status_min_ms - since_ms))
  }

  /** The engines are others than the last `hello` said. */
  describeAgain(): void {
    if (!this.#linked) return
    this.#send(this.#options.hello())
    this.changed()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    if (this.#retry !== null) clearTimeout(this.#retry)
    const socket = this.#socket
    if (socket === null) return
    if (this.#linked) this.#sendStatus()
    const { promise, resolve } = Promise.withResolvers<void>()
    socket.once('close', () => resolve())
    socket.close(1000)
    const timer = setTimeout(() => socket.terminate(), 1000)
    await promise
    clearTimeout(timer)
  }

  #connect(): void {
    const { control_url, model, region, token } = this.#options
    const url = new URL('agents/v1/link', control_url.endsWith('/') ? control_url : `${control_url}/`)
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    url.search = new URLSearchParams({ model, region }).toString()
    const socket = new WebSocket(url, {
      headers: { authorization: `Bearer ${token}` },
      maxPayload: FRAME_BYTES_MAX,
      handshakeTimeout: CONNECT_TIMEOUT_MS,
      perMessageDeflate: false,
      followRedirects: false,
    })
    this.#socket = socket
    this.#refused = false
    this.#reason = ''
    this.#seq = 0
    socket.on('open', () => this.#opened(socket))
    socket.on('message', (data, binary) => {
      this.#heard = true
      void this.#received(socket, data, binary)
    })
    socket.on('pong', () => {
      this.#heard = true
    })
    socket.on('unexpected-response', (_request, response) => {
      void refusalOf(response).then(({ reason, refused, by_control_plane }) => {
        this.#reason = reason
        this.#refused = refused
        if (refused && by_control_plane) this.#refusals += 1
        socket.terminate()
      })
    })
    socket.on('error', (error) => {
      if (this.#reason === '') this.#reason = messageOf(error)
    })
    socket.on('close', (code, reason) => this.#closed(code, reason.toString('utf8')))
  }

  #opened(socket: WebSocket): void {
    this.#send(this.#options.hello())
    this.#deadline = setTimeout(() => this.#drop(socket, 'no welcome'), this.#times.welcome_ms)
    this.#heard = true
    this.#ping = setInterval(() => this.#probe(socket), this.#times.silent_ms / 3)
    this.#missed = 0
  }

  #probe(socket: WebSocket): void {
    this.#missed = this.#heard ? 0 : this.#missed + 1
    this.#heard = false
    if (this.#missed >= 3) this.#drop(socket, 'silent')
    else socket.ping()
  }

  async #received(socket: WebSocket, data: RawData, binary: boolean): Promise<void> {
    const message = binary ? null : parseJson(data.toString())
    if (message === null) {
      this.#reason = 'the pool sent a frame that is not JSON'
      socket.close(CLOSE.malformed)
      return
    }
    const parsed = DownMessage.safeParse(message)
    if (!parsed.success) {
      this.#options.onIgnored()
      return
    }
    switch (parsed.data.type) {
      case 'welcome':
        return this.#welcomed(socket, parsed.data)
      case 'clock':
        return this.#options.onClock(parsed.data.clock_offset_ms)
      case 'drain':
        return this.#options.onDrain(parsed.data.engines)
      case 'undrain':
        return this.#options.onUndrain(parsed.data.engines)
      case 'cancel':
        return this.#options.onCancel(parsed.data.leases)
      case 'classes':
        return this.#options.onClasses(parsed.data.classes)
      case 'handle':
        return this.#options.onHandle(parsed.data)
      case 'ask': {
        const { id, leases } = parsed.data
        return this.#send({ type: 'open', id, leases: leases.filter((lease) => this.#options.isOpen(lease)) })
      }
    }
  }

  async #welcomed(socket: WebSocket, welcome: Welcome): Promise<void> {
    const taken = await this.#options.onWelcome(welcome)
    if (socket !== this.#socket || socket.readyState !== WebSocket.OPEN) return
    if (!taken.ok) {
      this.#reason = taken.message
      this.#refused = true
      socket.close(CLOSE.malformed)
      return
    }
    if (this.#deadline !== null) clearTimeout(this.#deadline)
    this.#deadline = null
    this.#failures = 0
    this.#refusals = 0
    if (this.#linked) return
    this.#linked = true
    this.#options.onLinked(welcome.clock_offset_ms)
    this.#sendStatus()
  }

  #closed(code: number, reason: string): void {
    this.#socket = null
    this.#linked = false
    for (const timer of [this.#deadline, this.#status]) if (timer !== null) clearTimeout(timer)
    if (this.#ping !== null) clearInterval(this.#ping)
    this.#deadline = null
    this.#status = null
    this.#ping = null
    if (this.#stopped) return
    if (code === CLOSE.dismissed) this.#options.onDismissed()
    const refused = this.#refused || REFUSALS.includes(code)
    this.#failures += 1
    const bounds = refused ? this.#times.refused_backoff : this.#times.backoff
    const retry_in_ms = backoffMs(this.#failures, bounds, this.#options.random())
    const why = this.#reason || `closed with ${code} ${reason}`.trimEnd()
    if (code === CLOSE.protocol_version) this.#refusals += 1
    this.#options.onLost(why, retry_in_ms)
    this.#retry = setTimeout(() => this.#connect(), retry_in_ms)
    if (this.refused) this.#options.onRefused(why)
  }

  #drop(socket: WebSocket, reason: string): void {
    this.#reason = reason
    socket.terminate()
  }

  #scheduleStatus(delay_ms: number): void {
    if (this.#status_due_ms <= performance.now() + delay_ms && this.#status !== null) return
    if (this.#status !== null) clearTimeout(this.#status)
    this.#status_due_ms = performance.now() + delay_ms
    this.#status = setTimeout(() => this.#sendStatus(), delay_ms)
  }

  #sendStatus(): void {
    if (this.#status !== null) clearTimeout(this.#status)
    this.#status = null
    this.#status_sent_ms = performance.now()
    const socket = this.#socket
    // A socket that takes nothing is about to be found silent; the seen leases wait for the next link.
    if (socket !== null && socket.bufferedAmount < FRAME_BYTES_MAX) {
      this.#seq += 1
      const { statuses, wall_ms } = this.#options
      this.#send({ type: 'status', seq: this.#seq, now_ms: wall_ms(), engines: statuses() })
    }
    this.#scheduleStatus(this.#times.status_ms)
  }

  #send(message: UpMessage): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
