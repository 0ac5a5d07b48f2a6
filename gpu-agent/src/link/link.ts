/**
 * The link to one pool (src/protocol/link.ts): an outbound WebSocket that is opened again whenever it is lost, with
 * backoff and jitter. `hello` first; after the `welcome` a status whenever an engine's state changes, a status four times a
 * second at most while only load changes, and one a second at least. When an engine's epoch changes, `hello` is repeated on
 * the same link; the pool replaces what it knew of this agent by it.
 */

import {
  type ClassData,
  DownMessage,
  FRAME_BYTES_MAX,
  type Handle,
  type Hello,
  POSITIONS_MAX,
  type QueuePosition,
  type Replay,
  type ReplayQuestion,
  STATUS_INTERVAL_MIN_MS,
  STATUS_INTERVAL_MS,
  STATUS_LOAD_INTERVAL_MS,
  type Status,
  type UpMessage,
  type Welcome,
} from '../../../src/protocol/index.ts'
import { ControlSocket, type SocketTimes } from './control-socket.ts'

export interface LinkTimes extends SocketTimes {
  status_ms: number
  /** Between statuses that tell changed loads. */
  load_ms: number
  /** Between any two. */
  status_min_ms: number
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
  /** A program goes on elsewhere or has ended. */
  onHandle: (handle: Handle) => void
  /** What a program's calls would have waited under first come, first served. */
  onReplay: (question: ReplayQuestion) => Replay
  /** Where these leases are in their engines' orders. */
  onPositions: (leases: readonly string[]) => Promise<readonly QueuePosition[]>
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
  readonly #socket: ControlSocket
  readonly #status_ms: number
  readonly #status_min_ms: Readonly<Record<'load' | 'state', number>>
  #linked = false
  /** The engines are others than the last hello said. */
  #stale = false
  #seq = 0
  #status: NodeJS.Timeout | null = null
  #status_sent_ms = 0
  #status_due_ms = 0

  constructor(options: LinkOptions) {
    const { control_url, model, region, token, random, times = {} } = options
    this.model = model
    this.#options = options
    this.#status_ms = times.status_ms ?? STATUS_INTERVAL_MS
    this.#status_min_ms = {
      load: times.load_ms ?? STATUS_LOAD_INTERVAL_MS,
      state: times.status_min_ms ?? STATUS_INTERVAL_MIN_MS,
    }
    this.#socket = new ControlSocket({
      ...{ control_url, path: 'agents/v1/link', query: { model, region }, token, frame_bytes_max: FRAME_BYTES_MAX },
      onOpen: () => {
        this.#seq = 0
        this.#describe()
      },
      onMessage: (message) => void this.#received(message),
      onClosed: () => this.#closed(),
      onLost: options.onLost,
      onRefused: options.onRefused,
      onDismissed: options.onDismissed,
      random,
      times,
    })
  }

  get linked(): boolean {
    return this.#linked
  }

  /** Whether the control plane refuses this agent, and not just for a moment. */
  get refused(): boolean {
    return this.#socket.refused
  }

  start(): void {
    this.#socket.start()
  }

  /** Something that a status tells has changed: whether an engine takes calls, or only how many it has. */
  changed(what: 'load' | 'state'): void {
    if (!this.#linked) return
    const since_ms = performance.now() - this.#status_sent_ms
    this.#scheduleStatus(Math.max(0, this.#status_min_ms[what] - since_ms))
  }

  /** The engines are others than the last `hello` said. */
  describeAgain(): void {
    this.#stale = true
    if (!this.#linked) return
    this.#describe()
    this.changed('state')
  }

  stop(): Promise<void> {
    if (this.#linked) this.#sendStatus()
    return this.#socket.stop()
  }

  async #received(message: unknown): Promise<void> {
    const parsed = DownMessage.safeParse(message)
    if (!parsed.success) {
      this.#options.onIgnored()
      return
    }
    switch (parsed.data.type) {
      case 'welcome':
        return this.#welcomed(parsed.data)
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
      case 'replay': {
        const { id } = parsed.data
        return this.#send({ type: 'replayed', id, replay: this.#options.onReplay(parsed.data) })
      }
      case 'positions': {
        const { id, leases } = parsed.data
        const positions = await this.#options.onPositions(leases)
        return this.#send({ type: 'positions', id, positions: positions.slice(0, POSITIONS_MAX) })
      }
      case 'ask': {
        const { id, leases } = parsed.data
        return this.#send({ type: 'open', id, leases: leases.filter((lease) => this.#options.isOpen(lease)) })
      }
    }
  }

  async #welcomed(welcome: Welcome): Promise<void> {
    const { connection } = this.#socket
    const taken = await this.#options.onWelcome(welcome)
    if (connection === null || connection !== this.#socket.connection) return
    if (!taken.ok) {
      this.#socket.reject(taken.message)
      return
    }
    this.#socket.welcomed()
    if (this.#linked) return
    this.#linked = true
    this.#options.onLinked(welcome.clock_offset_ms)
    if (this.#stale) this.#describe()
    this.#sendStatus()
  }

  #describe(): void {
    this.#stale = false
    this.#send(this.#options.hello())
  }

  #closed(): void {
    this.#linked = false
    if (this.#status !== null) clearTimeout(this.#status)
    this.#status = null
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
    const { unsent_bytes } = this.#socket
    // A socket that takes nothing is about to be found silent; the seen leases wait for the next link.
    if (unsent_bytes !== null && unsent_bytes < FRAME_BYTES_MAX) {
      const { statuses, wall_ms } = this.#options
      const engines = statuses()
      // The last one has ended, and the link is about to close.
      if (engines.length > 0) {
        this.#seq += 1
        this.#send({ type: 'status', seq: this.#seq, now_ms: wall_ms(), engines })
      }
    }
    this.#scheduleStatus(this.#status_ms)
  }

  #send(message: UpMessage): void {
    this.#socket.send(message)
  }
}
