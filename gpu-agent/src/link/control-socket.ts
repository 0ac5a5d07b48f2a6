/**
 * An outbound WebSocket to the control plane that is opened again whenever it is lost, with backoff and jitter. The pool links (link.ts) and the host
 * link (lending/host-link.ts) speak over it. JSON text frames. The user says hello in `onOpen`, and calls `welcomed` when it was answered.
 */
import { type RawData, WebSocket } from 'ws'
import { type BackoffBounds, backoffMs } from '../../../src/core/backoff.ts'
import { CLOSE } from '../../../src/protocol/index.ts'
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

export interface SocketTimes {
  welcome_ms: number
  silent_ms: number
  backoff: BackoffBounds
  refused_backoff: BackoffBounds
}

const SOCKET_TIMES: SocketTimes = {
  welcome_ms: WELCOME_TIMEOUT_MS,
  silent_ms: LINK_SILENT_MS,
  backoff: LINK_BACKOFF,
  refused_backoff: LINK_REFUSED_BACKOFF,
}

export interface ControlSocketOptions {
  control_url: string
  /** Below the control plane's base URL. */
  path: string
  query: Record<string, string>
  token: string
  frame_bytes_max: number
  onOpen: () => void
  /** What a frame says, as parsed JSON. */
  onMessage: (message: unknown) => void
  /** It is no longer open, and will be opened again unless it was stopped. */
  onClosed: () => void
  onLost: (reason: string, retry_in_ms: number) => void
  /** The control plane has refused this agent LINK_REFUSALS_MAX times in a row. It is tried further. */
  onRefused: (reason: string) => void
  /** The operator removed this agent or replaced its token. */
  onDismissed: () => void
  random: () => number
  times?: Partial<SocketTimes>
}

export class ControlSocket {
  readonly #options: ControlSocketOptions
  readonly #times: SocketTimes
  #socket: WebSocket | null = null
  #stopped = false
  #failures = 0
  /** The last attempt was refused, so the next one waits longer than after a lost link. */
  #refused = false
  /** Refusals by the control plane itself, in a row. */
  #refusals = 0
  #reason = ''
  #retry: NodeJS.Timeout | null = null
  /** Welcome deadline of the connection under way. */
  #deadline: NodeJS.Timeout | null = null
  #ping: NodeJS.Timeout | null = null
  /** Whether anything came since the last ping, and how many pings in a row brought nothing. */
  #heard = false
  #missed = 0

  constructor(options: ControlSocketOptions) {
    this.#options = options
    this.#times = { ...SOCKET_TIMES, ...options.times }
  }

  /** Whether the control plane refuses this agent, and not just for a moment. */
  get refused(): boolean {
    return this.#refusals >= LINK_REFUSALS_MAX
  }

  /** Bytes that are still to be sent; null: it is not open. */
  get unsent_bytes(): number | null {
    return this.#socket?.readyState === WebSocket.OPEN ? this.#socket.bufferedAmount : null
  }

  start(): void {
    this.#connect()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    if (this.#retry !== null) clearTimeout(this.#retry)
    const socket = this.#socket
    if (socket === null) return
    const { promise, resolve } = Promise.withResolvers<void>()
    socket.once('close', () => resolve())
    socket.close(1000)
    const timer = setTimeout(() => socket.terminate(), 1000)
    await promise
    clearTimeout(timer)
  }

  send(message: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }

  /** The connection under way; another one is opened after it is lost. For a user that waits before it goes on. */
  get connection(): object | null {
    return this.#socket?.readyState === WebSocket.OPEN ? this.#socket : null
  }

  /** The hello was answered. */
  welcomed(): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline)
    this.#deadline = null
    this.#failures = 0
    this.#refusals = 0
  }

  /** What the control plane said cannot be used: closes, and comes back at the pace of a refusal. */
  reject(reason: string): void {
    this.#reason = reason
    this.#refused = true
    this.#socket?.close(CLOSE.malformed)
  }

  #connect(): void {
    const { control_url, path, query, token, frame_bytes_max } = this.#options
    const url = new URL(path, control_url.endsWith('/') ? control_url : `${control_url}/`)
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    url.search = new URLSearchParams(query).toString()
    const socket = new WebSocket(url, {
      headers: { authorization: `Bearer ${token}` },
      maxPayload: frame_bytes_max,
      handshakeTimeout: CONNECT_TIMEOUT_MS,
      perMessageDeflate: false,
      followRedirects: false,
    })
    this.#socket = socket
    this.#refused = false
    this.#reason = ''
    socket.on('open', () => this.#opened(socket))
    socket.on('message', (data, binary) => {
      this.#heard = true
      this.#received(socket, data, binary)
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
    this.#options.onOpen()
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

  #received(socket: WebSocket, data: RawData, binary: boolean): void {
    const message = binary ? null : parseJson(data.toString())
    if (message === null) {
      this.#reason = 'the pool sent a frame that is not JSON'
      socket.close(CLOSE.malformed)
      return
    }
    this.#options.onMessage(message)
  }

  #closed(code: number, reason: string): void {
    this.#socket = null
    if (this.#deadline !== null) clearTimeout(this.#deadline)
    if (this.#ping !== null) clearInterval(this.#ping)
    this.#deadline = null
    this.#ping = null
    this.#options.onClosed()
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
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
