/**
 * Keeps an agent's frames from taking the pool's time. Core's budget says how much an agent may send. This adds what the
 * runtime does with a link that exceeds it:
 * - Its frames are still delivered after `close`, until the other side closes too. They are dropped before they are read.
 * - A sender that ignores the close goes on for ever, and no API ends one socket from this side. Only a restart of the
 *   object does. So after LATE_UNITS_MAX the object restarts. Honest agents link again within a second, and the sender is
 *   barred.
 * - Bars are stored, since that restart must not lift them.
 */
import { z } from 'zod'
import { type Bar, frameUnits, LinkBudgets } from '../core/pool/link-budget.ts'
import { log } from '../platform/log.ts'

/** Frames of a closed link that are dropped before the object restarts: more than a sender's buffers hold. */
export const LATE_UNITS_MAX = 20_000
/** Bytes that count as one late frame more. */
const LATE_UNIT_BYTES = 4096
const BARS_KEY = 'link-bars'
const StoredBars = z.array(z.tuple([z.string(), z.object({ until_ms: z.number(), bar_ms: z.number() })]))

interface Surroundings {
  storage: Pick<DurableObjectStorage, 'get' | 'put' | 'sync'>
  waitUntil(work: Promise<void>): void
  /** Ends the object and every link of it. */
  abort(reason: string): void
}

export class LinkGuard {
  readonly #around: Surroundings
  readonly #late = new WeakMap<WebSocket, number>()
  #budgets = new LinkBudgets()

  constructor(around: Surroundings) {
    this.#around = around
  }

  async restore(): Promise<void> {
    const stored = StoredBars.safeParse(await this.#around.storage.get(BARS_KEY))
    if (stored.success) this.#budgets = new LinkBudgets(stored.data)
  }

  /** False: the agent has exceeded its budget with this frame. */
  takes(agent: string, data: string | ArrayBuffer, now_ms: number): boolean {
    return this.#budgets.take(agent, frameUnits(sizeOf(data)), now_ms)
  }

  takesUnits(agent: string, units: number, now_ms: number): boolean {
    return this.#budgets.take(agent, units, now_ms)
  }

  /** The agent opens no link for the time returned, in seconds. */
  bar(agent: string, now_ms: number): number {
    const isBarred = this.#budgets.barredMs(agent, now_ms) > 0
    const bar_ms = this.#budgets.bar(agent, now_ms)
    if (!isBarred) {
      log('warn', 'link_flooded', { agent, barred_s: Math.ceil(bar_ms / 1000) })
      this.#around.waitUntil(this.#store(this.#budgets.stored()))
    }
    return Math.ceil(bar_ms / 1000)
  }

  /** 0: the agent may open a link. */
  barredS(agent: string, now_ms: number): number {
    return Math.ceil(this.#budgets.barredMs(agent, now_ms) / 1000)
  }

  /** A frame of a link that is closed on this side. `agent` is only asked for where it counts. */
  late(socket: WebSocket, data: string | ArrayBuffer, agent: () => string, now_ms: number): void {
    const before = this.#late.get(socket) ?? 0
    const units = before + 1 + Math.floor(sizeOf(data) / LATE_UNIT_BYTES)
    this.#late.set(socket, units)
    if (before > LATE_UNITS_MAX || units <= LATE_UNITS_MAX) return
    const name = agent()
    this.bar(name, now_ms)
    log('error', 'link_not_ended', { agent: name })
    this.#around.waitUntil(
      this.#around.storage.sync().then(() => this.#around.abort(`the agent ${name} sends on a closed link`)),
    )
  }

  async #store(bars: [string, Bar][]): Promise<void> {
    await this.#around.storage.put(BARS_KEY, bars)
  }
}

/** UTF-16 units of text: within a factor of three of its bytes. */
function sizeOf(data: string | ArrayBuffer): number {
  return typeof data === 'string' ? data.length : data.byteLength
}
