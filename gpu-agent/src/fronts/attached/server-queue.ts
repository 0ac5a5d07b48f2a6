/**
 * The queue in front of one server, in real time: decides on each event and at least every DECIDE_MS while calls wait, looks at
 * the load every LOOK_MS while calls are open, and sets the seats by what the controller says. Calls of all models that the
 * server has go through one of these, since they share what it computes with.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { modelledServiceUs, type ServiceReading, type ServiceTokens } from '../../../../src/core/call/service.ts'
import type { QueuePosition, StreamError } from '../../../../src/protocol/index.ts'
import type { Policy } from '../../../engine/order/policy.ts'
import { CallQueue, type NoRoom, type QueuedCall, type QueueEntry } from '../../../engine/queue/call-queue.ts'
import { Concurrency } from '../../../engine/queue/concurrency.ts'
import type { UsedTokens } from '../../../engine/queue/limits/rate-limits.ts'
import { type CallSize, PROVIDER_CACHE_US } from '../../../engine/queue/program-room.ts'
import type { OrderedCall, Outlook } from '../../../engine/types.ts'
import { engineFull } from '../../openai/errors.ts'
import { CALL_OPEN_US_MAX } from '../local/engine-call.ts'
import type { KeyLimits, Refused } from './limits/key-limits.ts'
import { OutsidePrefill } from './outside-prefill.ts'

const DECIDE_MS = 50
const LOOK_MS = 250
/** A server that had no room for a call is left alone for so long, twice as long each time that this call is refused. */
const REFUSED_PAUSE_US = 250_000
export const REFUSALS_MAX = 6
/** Refusals of a call for a provider's limits. Its own time ends before, unless the provider refuses without a pause. */
export const LIMIT_REFUSALS_MAX = 512

/** What is known of the server when it is up. */
export interface QueuedServer {
  /** The operator's; null: learned. */
  seats: number | null
  /** What the server says of itself; null: it does not. */
  server_seats: number | null
  kv_tokens: number | null
  takes_back: boolean
  /** Calls with output may be stopped, and go on later. Left out: they may not. */
  stops?: boolean
  /** It tells its own queue. */
  reports: boolean
}

export interface ServerQueueOptions {
  policy: Policy
  ordering: ServiceReading
  clock: () => number
  /** Of the server's key. Left out: it has none, and none are learned. */
  limits?: KeyLimits | null
}

export class ServerQueue {
  readonly prefill = new OutsidePrefill()
  readonly #clock: () => number
  readonly #limits: KeyLimits | null
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

  constructor({ policy, ordering, clock, limits = null }: ServerQueueOptions) {
    this.#clock = clock
    this.#limits = limits
    this.#concurrency = new Concurrency(this.#server)
    this.#queue = new CallQueue({
      policy,
      ordering,
      seats: this.#concurrency.limit,
      server: () => ({
        ...{
          kv_tokens: this.#server.kv_tokens,
          takes_back: this.#server.takes_back,
          stops: this.#server.stops === true,
        },
        slots: this.#queue.seats,
        cache_life_us: limits?.active === true ? PROVIDER_CACHE_US : undefined,
        prefill_us_per_token: this.prefill.us_per_token,
      }),
      limits,
      wait_us_max: CALL_OPEN_US_MAX,
      changed: () => this.#soon(),
    })
  }

  /** Calls that may be at the server at once. */
  get seats(): number {
    return this.#queue.seats
  }

  /** For the pool. Null: no limits are known. */
  get limit_wait_us(): number | null {
    return this.#queue.limitWaitUs(this.#clock())
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

  /** The server has begun to answer. */
  heard({ reservation }: QueueEntry, headers: IncomingHttpHeaders): void {
    if (reservation !== null) this.#limits?.heard(reservation, headers, this.#clock())
  }

  /** The server has no room for the call. `times`: how often it was refused before. */
  refused(entry: QueueEntry, times: number, refused: Refused): RefusedHere {
    const now_us = this.#clock()
    const { reservation, arrived_us } = entry
    const lives_us = arrived_us + CALL_OPEN_US_MAX - now_us
    const at = { open: this.#queue.sent, lives_us, now_us }
    const outcome =
      reservation === null || this.#limits === null
        ? ({ kind: 'unknown' } as const)
        : this.#limits.refused(reservation, refused, at)
    if (outcome.kind === 'failed') return { waits: false, error: outcome.error }
    if (times >= (outcome.kind === 'unknown' ? REFUSALS_MAX : LIMIT_REFUSALS_MAX)) return { waits: false, error: null }
    const pause_us = outcome.kind === 'again' ? outcome.pause_us : REFUSED_PAUSE_US * 2 ** times
    this.#queue.refused(entry, pause_us, now_us)
    return { waits: true }
  }

  errorOf(why: NoRoom): StreamError {
    return this.#limits?.errorOf(why) ?? engineFull('the engine takes no further calls', why.wait_us / 1e6)
  }

  ended(entry: QueueEntry, used: UsedTokens | null): void {
    this.#queue.ended(entry, used, this.#clock())
    if (this.#queue.waiting + this.#queue.sent > 0) return
    this.close()
  }

  waitedUs(entry: QueueEntry): number {
    return entry.waitedUs(this.#clock())
  }

  position(entry: QueueEntry): Omit<QueuePosition, 'lease'> {
    return this.#queue.position(entry, this.#clock())
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
    const learned = this.#concurrency.look({
      ...{ now_us, sent, waiting, unanswered },
      ...{ waiting_there: this.#waiting_there, work_us: this.#work_us, ttft_us: this.#ttft_us },
    })
    this.#work_us = 0
    this.#ttft_us = []
    this.#waiting_there = null
    const limited = this.#server.seats === null && this.#limits?.active === true
    this.#queue.resize(limited ? this.#limits.concurrent(now_us) : learned)
  }
}

/** Error: null: the server's own. */
export type RefusedHere = { waits: true } | { waits: false; error: StreamError | null }

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

  get position(): Omit<QueuePosition, 'lease'> {
    return this.#queue.position(this.#entry)
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

  heard(headers: IncomingHttpHeaders): void {
    this.#queue.heard(this.#entry, headers)
  }

  /** The server has no room for the call. It waits for its turn again, unless it has been refused too often or for too long. */
  refusedThere(refused: Refused): RefusedHere {
    if (this.#entry.answered) return { waits: false, error: null }
    const outcome = this.#queue.refused(this.#entry, this.#refusals, refused)
    this.#refusals += 1
    return outcome
  }

  errorOf(why: NoRoom): StreamError {
    return this.#queue.errorOf(why)
  }

  ended(used: UsedTokens | null): void {
    this.#queue.ended(this.#entry, used)
  }
}
