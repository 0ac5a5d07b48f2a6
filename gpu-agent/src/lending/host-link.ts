/**
 * The host link (src/protocol/host.ts): the hello, then a status on every change and at least every HOST_STATUS_INTERVAL_MS. It answers what the
 * control plane asks a coordinator, and hands stages to the host.
 */
import {
  HOST_DOWN_BYTES_MAX,
  HOST_STATUS_INTERVAL_MS,
  HostDownMessage,
  type HostHello,
  type HostStatus,
  type HostUpMessage,
} from '../../../src/protocol/host.ts'
import { STATUS_INTERVAL_MIN_MS } from '../../../src/protocol/index.ts'
import type { Report } from '../events.ts'
import { ControlSocket, type SocketTimes } from '../link/control-socket.ts'
import type { Coordinator } from './coordinator.ts'
import type { LentHost } from './lent-host.ts'

export interface HostLinkOptions {
  control_url: string
  region: string
  token: string
  hello: () => HostHello
  host: Pick<LentHost, 'epoch' | 'engines' | 'stage'>
  coordinator: Coordinator
  report: Report
  /** A message was not understood. */
  ignored: () => void
  random: () => number
  times?: Partial<SocketTimes> & { status_ms?: number }
}

export class HostLink {
  readonly #options: HostLinkOptions
  readonly #socket: ControlSocket
  #linked = false
  #seq = 0
  #status: NodeJS.Timeout | null = null
  #status_due_ms = 0

  constructor(options: HostLinkOptions) {
    const { control_url, region, token, random, report, times = {} } = options
    this.#options = options
    const nothing = (): void => undefined
    this.#socket = new ControlSocket({
      ...{ control_url, path: 'agents/v1/host', query: { region }, token, frame_bytes_max: HOST_DOWN_BYTES_MAX },
      onOpen: () => {
        this.#seq = 0
        this.#send(options.hello())
      },
      onMessage: (message) => void this.#received(message),
      onClosed: () => this.#closed(),
      onLost: (reason, retry_in_ms) => report({ event: 'host_link_lost', reason, retry_in_ms }),
      // The links to pools say so too, and end the agent.
      ...{ onRefused: nothing, onDismissed: nothing, random, times },
    })
  }

  get linked(): boolean {
    return this.#linked
  }

  start(): void {
    this.#socket.start()
  }

  stop(): Promise<void> {
    return this.#socket.stop()
  }

  /** Something that a status tells has changed. */
  changed(): void {
    if (this.#linked) this.#scheduleStatus(STATUS_INTERVAL_MIN_MS)
  }

  async #received(message: unknown): Promise<void> {
    const parsed = HostDownMessage.safeParse(message)
    if (!parsed.success) return this.#options.ignored()
    const { host, coordinator, report } = this.#options
    const { data } = parsed
    switch (data.type) {
      case 'welcome':
        return this.#welcomed()
      case 'stage':
        if (!host.stage(data)) report({ event: 'stage_refused', epoch: data.epoch, current: host.epoch })
        this.changed()
        return
      case 'choose':
        return this.#send(coordinator.choose(data))
      case 'plan':
        return this.#send(await coordinator.plan(data))
    }
  }

  #welcomed(): void {
    this.#socket.welcomed()
    if (this.#linked) return
    this.#linked = true
    this.#options.report({ event: 'host_linked' })
    this.#sendStatus()
  }

  #closed(): void {
    this.#linked = false
    if (this.#status !== null) clearTimeout(this.#status)
    this.#status = null
  }

  #scheduleStatus(delay_ms: number): void {
    const due_ms = performance.now() + delay_ms
    if (this.#status !== null && this.#status_due_ms <= due_ms) return
    if (this.#status !== null) clearTimeout(this.#status)
    this.#status_due_ms = due_ms
    this.#status = setTimeout(() => this.#sendStatus(), delay_ms)
  }

  #sendStatus(): void {
    this.#status = null
    const { host, times } = this.#options
    this.#seq += 1
    const status: HostStatus = { type: 'status', seq: this.#seq, epoch: host.epoch, engines: host.engines }
    this.#send(status)
    this.#scheduleStatus(times?.status_ms ?? HOST_STATUS_INTERVAL_MS)
  }

  #send(message: HostUpMessage): void {
    this.#socket.send(message)
  }
}
