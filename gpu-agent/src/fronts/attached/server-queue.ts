/**
 * The queue in front of one server, in real time: decides on each event and at least every DECIDE_MS while calls wait, looks at
 * the load every LOOK_MS while calls are open, and sets the seats by what the controller says. Calls of all models that the
 * server has go through one of these, since they share what it computes with.
 */
import { modelledServiceUs, type ServiceReading, type ServiceTokens } from '../../../../src/core/call/service.ts'
import type { StreamError } from '../../../../src/protocol/index.ts'
import type { Policy } from '../../../engine/order/policy.ts'
import type { OrderedCall, Outlook } from '../../../engine/types.ts'
import { engineFull } from '../../openai/errors.ts'
import { CallQueue, type QueuedCall, type QueueEntry } from './call-queue.ts'
import { Concurrency } from './concurrency.ts'
import { OutsidePrefill } from './outside-prefill.ts'
import type { CallSize } from './program-room.ts'

const DECIDE_MS = 50
const LOOK_MS = 250
/** A server that had no room for a call is left alone for so long, twice as long each time that this call is refused. */
const REFUSED_PAUSE_US = 250_000
export const REFUSALS_MAX = 6

/** What is known of the server when it is up. */
export interface QueuedServer {
  /** The operator's; null: learned. */
  seats: number | null
  /** What the server says of itself; null: it does not. */
  server_seats: number | null
  kv_tokens: number | null
  takes_back: boolean
  /** It tells its own queue. */
  reports: boolean
}

export interface ServerQueueOptions {
  policy: Policy
  ordering: ServiceReading
  clock: () => number
}

export class ServerQueue {
  readonly prefill = new OutsidePrefill()
  readonly #clock: () => number
  readonly #queue: CallQueue
  #server: QueuedServer = { seats: null, server_seats: null, kv_tokens: null, takes_back: true, reports: false }
  #concurrency: Concurrency
  #deciding: NodeJS.Immediate | null = null
  #timer: NodeJS.Timeout | null = null
  #looked_us = Number.NEGATIVE_INFINITY
  // Since the last look.
  #work_us = 0
  #ttft_us: number[] = []
  #waiting_there: number | null = null

  constructor({ policy, ordering, clock }: ServerQueueOptions) {
    this.#clock = clock
    this.#concurrency = new Concurrency(this.#server)
    this.#queue = new CallQueue({
      policy,
      ordering,
      seats: this.#concurrency.limit,
      server: () => ({
        ...{ kv_tokens: this.#server.kv_tokens, takes_back: this.#server.takes_back },
        slots: this.#queue.seats,
        prefill_us_per_token: this.prefill.us_per_token,
      }),
      changed: () => this.#soon(),
    })
  }

  /** Calls that may be at the server at once. */
  get seats(): number {
    return this.#queue.seats
  }

  /** The server is up, as it was or another one. */
  serves(server: QueuedServer): void {
    const before = this.#server
    this.#server = server
    if (server.seats === before.seats && server.server_seats === before.server_seats) return
    this.#concurrency = new Concurrency(server)
    this.#queue.resize(this.#concurrency.limit)
  }

  enter(
    call: OrderedCall,
    size: CallSize,
    queued: QueuedCall,
  ): { ok: true; gate: CallGate } | { ok: false; error: StreamError } {
    const verdict = this.#queue.arrive(call, size, queued, this.#clock())
    if (!verdict.ok) return { ok: false, error: engineFull(verdict.message, verdict.retry_after_s) }
    this.#timer ??= setInterval(() => this.#tick(), DECIDE_MS).unref()
    return { ok: true, gate: new CallGate(this, verdict.entry) }
  }

  /** The server's own report of its queue. */
  reported(waiting_there: number): void {
    this.#waiting_there = waiting_there
    this.#queue.serverWaiting(waiting_there)
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    if (this.#deciding !== null) clearImmediate(this.#deciding)
    this.#timer = null
    this.#deciding = null
  }

  answered(entry: QueueEntry): void {
    if (entry.answered || entry.sent_us === null) return
    const now_us = this.#clock()
    this.#ttft_us.push(now_us - entry.sent_us)
    this.#queue.answered(entry)
  }

  charge(entry: QueueEntry, tokens: ServiceTokens, wall_us: number): void {
    this.#work_us += modelledServiceUs(tokens)
    this.#queue.charge(entry, tokens, wall_us, this.#clock())
  }

  refused(entry: QueueEntry, times: number): void {
    this.#queue.refused(entry, REFUSED_PAUSE_US * 2 ** times, this.#clock())
  }

  ended(entry: QueueEntry, context_tokens: number | null, cached_tokens: number | null): void {
    this.#queue.ended(entry, context_tokens, cached_tokens, this.#clock())
    if (this.#queue.waiting + this.#queue.sent > 0) return
    this.close()
  }

  waitedUs(entry: QueueEntry): number {
    return entry.waitedUs(this.#clock())
  }

  /** Calls that come in the same turn are decided on together. */
  #soon(): void {
    this.#deciding ??= setImmediate(() => {
      this.#deciding = null
      this.#queue.decide(this.#clock())
    })
  }

  #tick(): void {
    const now_us = this.#clock()
    if (now_us - this.#looked_us >= LOOK_MS * 1000) this.#look(now_us)
    if (this.#queue.waiting > 0) this.#queue.decide(now_us)
  }

  #look(now_us: number): void {
    this.#looked_us = now_us
    const { sent, waiting, unanswered } = this.#queue
    const limit = this.#concurrency.look({
      ...{ now_us, sent, waiting, unanswered },
      ...{ waiting_there: this.#waiting_there, work_us: this.#work_us, ttft_us: this.#ttft_us },
    })
    this.#work_us = 0
    this.#ttft_us = []
    this.#waiting_there = null
    this.#queue.resize(limit)
  }
}

/** One call's way through the queue. */
export class CallGate {
  readonly #queue: ServerQueue
  readonly #entry: QueueEntry
  #refusals = 0

  constructor(queue: ServerQueue, entry: QueueEntry) {
    this.#queue = queue
    this.#entry = entry
  }

  get outlook(): Outlook {
    return this.#entry.outlook
  }

  /** Times that it was taken back for a better call. */
  get take_backs(): number {
    return this.#entry.take_backs
  }

  get waited_us(): number {
    return this.#queue.waitedUs(this.#entry)
  }

  answered(): void {
    this.#queue.answered(this.#entry)
  }

  charge(tokens: ServiceTokens, wall_us: number): void {
    this.#queue.charge(this.#entry, tokens, wall_us)
  }

  /** The server has no room for the call. True: it waits for its turn again. False: it has been refused too often. */
  refusedThere(): boolean {
    if (this.#refusals >= REFUSALS_MAX || this.#entry.answered) return false
    this.#queue.refused(this.#entry, this.#refusals)
    this.#refusals += 1
    return true
  }

  ended(context_tokens: number | null, cached_tokens: number | null): void {
    this.#queue.ended(this.#entry, context_tokens, cached_tokens)
  }
}
