/**
 * The queue in front of a server that has no order of programs. It is the embedded engine's ProgramOrder, with seats that are
 * calls let through: arrivals, charges and ends move calls, and `decide` lets the first ones through while there is room. It
 * reads no clock and does no I/O.
 *
 * A server that runs a call cannot be told to stop for another one. So a call that has output keeps its place until it ends,
 * also when the order has given its seat away, and the seat's new holder is the next to go. A call without output may be taken
 * back for a better one: it returns to its place in the order.
 *
 * For the same reason offline calls leave places free for online ones (offline-seats.ts).
 *
 * Before a hosted API its limits are the seats (limits/): as many as calls are there, and those that the limits let through. The
 * first call of the order waits until all of it fits, and no smaller one passes it.
 *
 * KV pressure (program-room.ts): whole programs wait while the contexts of those let in fill the server. While the first of
 * them waits no other program passes it, but calls of programs that are in do.
 */
import { DEFAULT_SERVICE_RATES, type ServiceReading, type ServiceTokens } from '../../../src/core/call/service.ts'
import { TenantShares } from '../../../src/core/pool/tenant-shares.ts'
import type { QueuePosition } from '../../../src/protocol/queue-position.ts'
import type { CallState } from '../order/call-state.ts'
import type { Policy } from '../order/policy.ts'
import { ProgramOrder } from '../order/program-order.ts'
import { compareOrder } from '../order/tenant-queue.ts'
import { fullQueue, type SubmitVerdict } from '../refusal.ts'
import { SHARES_INTERVAL_US, WAITING_CALLS_MAX, WAITING_CALLS_PER_TENANT_MAX } from '../scheduler-config.ts'
import type { OrderedCall, Outlook } from '../types.ts'
import type { LimitVerdict, Reservation, UsedTokens } from './limits/rate-limits.ts'
import { OfflineSeats } from './offline-seats.ts'
import { type CallSize, ProgramRoom, type ServerLimits } from './program-room.ts'

/** Times that one call may be taken back: each may waste the prefill that had begun. */
export const TAKE_BACKS_MAX = 2
/** A call is not taken back earlier: its first output may be on its way. */
export const TAKE_BACK_AGE_US = 250_000
/** Times that one call may be stopped in its output: each computes its prompt and its output again. */
export const STOPS_MAX = 3
/** A call is not stopped earlier after it was let through, so that it gets on each time. */
export const STOP_AGE_US = 1_000_000
/** Of a call's expected prefill: one that has been there for longer has not begun. */
export const PREFILLS = 3

const NO_TOKENS: ServiceTokens = { uncached_prompt_tokens: 0, cached_prompt_tokens: 0, output_tokens: 0 }

/** What the queue does with a call. Neither may call the queue. */
export interface QueuedCall {
  /** Let it through to the server. */
  send(): void
  /** End its request without a word to its client. It waits again, and goes on from the output that it has. */
  takeBack(): void
  /** It has output, and can go on from it exactly. Left out: it cannot. */
  mayStop?(): boolean
  /** It cannot be sent while it may live. */
  refuse(why: NoRoom): void
}

export type NoRoom = Extract<LimitVerdict, { fits: false }>

/** A provider's limits, as the queue sees them. */
export interface QueueLimits {
  /** False: none is known, and seats decide alone. */
  readonly active: boolean
  requestsNow(now_us: number): number
  drainUs(calls: number, tokens: CallSize, now_us: number): number
  verdict(size: CallSize, now_us: number): LimitVerdict
  reserve(size: CallSize, now_us: number): Reservation
  shareUs(reservation: Reservation): number
  ended(reservation: Reservation, used: UsedTokens | null): void
}

export interface CallQueueConfig {
  policy: Policy
  ordering: ServiceReading
  seats: number
  /**
   * `takes_back`: the server stops working on a call whose connection closes. `stops`: calls with output may be stopped too; left
   * out: they may not.
   */
  server: () => ServerLimits & { takes_back: boolean; stops?: boolean }
  /** Left out: the server has none. */
  limits?: QueueLimits | null
  /** How long a call may wait here. */
  wait_us_max?: number
  waiting_calls_max?: number
  waiting_calls_per_tenant_max?: number
  /** Something has happened after which `decide` should be called. */
  changed?: () => void
}

/** One open call as the queue sees it. */
export class QueueEntry {
  readonly call: QueuedCall
  readonly size: CallSize
  /** Of the server: one for each answer. */
  readonly seats: number
  state!: CallState<QueueEntry>
  outlook: Outlook = {}
  /** When it was let through; null: it waits here. */
  sent_us: number | null = null
  /** What it has of the provider's limits, once it was let through. */
  reservation: Reservation | null = null
  readonly arrived_us: number
  /** Its output has begun. */
  answered = false
  take_backs = 0
  /** Of them, those in its output. */
  stops = 0
  /** For how long it has waited here, up to when it was last let through. */
  waited_us = 0
  #since_us: number

  constructor(call: QueuedCall, size: CallSize, now_us: number) {
    this.call = call
    this.size = size
    this.seats = size.choices ?? 1
    this.arrived_us = now_us
    this.#since_us = now_us
  }

  get program(): string {
    return this.state.call.program
  }

  sent(now_us: number): void {
    this.sent_us = now_us
    this.waited_us += now_us - this.#since_us
  }

  returned(now_us: number): void {
    this.sent_us = null
    this.#since_us = now_us
  }

  /** Time here until now. */
  waitedUs(now_us: number): number {
    return this.sent_us === null ? this.waited_us + now_us - this.#since_us : this.waited_us
  }
}

export type QueueVerdict = { ok: true; entry: QueueEntry } | Extract<SubmitVerdict, { code: 'engine_full' }>

export class CallQueue {
  readonly #config: Required<CallQueueConfig>
  readonly #order: ProgramOrder<QueueEntry>
  readonly #room: ProgramRoom
  readonly #sent = new Set<QueueEntry>()
  readonly #waiting = new Set<QueueEntry>()
  readonly #offline = new OfflineSeats()
  #online_open = 0
  #offline_sent = 0
  #unanswered = 0
  #seats: number
  /** Of calls let through. */
  #seats_taken = 0
  /** Nothing is let through before: the server has refused a call for want of room. */
  #paused_until_us = Number.NEGATIVE_INFINITY
  /** Of the server's own queue, as last reported; null: it does not tell. */
  #server_waiting: number | null = null

  constructor(config: CallQueueConfig) {
    this.#config = {
      waiting_calls_max: WAITING_CALLS_MAX,
      waiting_calls_per_tenant_max: WAITING_CALLS_PER_TENANT_MAX,
      limits: null,
      wait_us_max: Number.POSITIVE_INFINITY,
      changed: () => undefined,
      ...config,
    }
    const { policy, ordering, seats } = config
    this.#seats = seats
    this.#room = new ProgramRoom(config.server)
    this.#order = new ProgramOrder({
      policy,
      ordering,
      seats,
      rates: DEFAULT_SERVICE_RATES,
      shares: new TenantShares(),
      shares_interval_us: SHARES_INTERVAL_US,
      steps_per_decision: 1,
      standby: 'in_order',
      preemptions_per_decision_max: this.#config.waiting_calls_max,
    })
  }

  get seats(): number {
    return this.#seats
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /** Calls let through that have not ended, by the seats that they take. */
  get sent(): number {
    return this.#seats_taken
  }

  /** Of them, those without output so far, by their seats too. */
  get unanswered(): number {
    return this.#unanswered
  }

  get room(): Pick<ProgramRoom, 'used_tokens' | 'programs'> {
    return this.#room
  }

  arrive(call: OrderedCall, size: CallSize, queued: QueuedCall, now_us: number): QueueVerdict {
    const queues = { waiting: this.#waiting.size, drain: this.#order.drain, queue: this.#order.queueOf(call) }
    const full = fullQueue(call, this.#config, queues, now_us)
    if (full !== null) return full
    const entry = new QueueEntry(queued, size, now_us)
    const { prompt_tokens } = size
    const resident_tokens = Math.min(prompt_tokens, this.#room.residentTokens(call.program, now_us))
    entry.state = this.#order.arrive(call, { prompt_tokens, resident_tokens }, entry, now_us)
    entry.outlook = this.#order.outlook(entry.state)
    this.#waiting.add(entry)
    if (!call.offline) this.#online_open += 1
    this.#offline.noted(this.#online_open, now_us)
    this.#config.changed()
    return { ok: true, entry }
  }

  position(entry: QueueEntry, now_us: number): Omit<QueuePosition, 'lease'> {
    const { state, sent_us } = entry
    return { waits: sent_us === null, waited_us: entry.waitedUs(now_us), ...this.#order.position(state) }
  }

  /** How long a call like those that wait would wait for the limits. Null: there are none. */
  limitWaitUs(now_us: number): number | null {
    const limits = this.#limits
    if (limits === null) return null
    const tokens = { prompt_tokens: 0, output_tokens_max: 0 }
    for (const { size } of this.#waiting) {
      tokens.prompt_tokens += size.prompt_tokens
      tokens.output_tokens_max += size.output_tokens_max
    }
    return Math.round(limits.drainUs(this.#waiting.size + 1, tokens, now_us))
  }

  /** Its first output has come: it keeps its place until it ends. */
  answered(entry: QueueEntry): void {
    if (!entry.answered) this.#unanswered -= entry.seats
    entry.answered = true
  }

  /** It has cost this since it was last charged. */
  charge(entry: QueueEntry, tokens: ServiceTokens, wall_us: number, now_us: number): void {
    this.#order.charge(entry.state, tokens, wall_us, now_us)
    this.#order.settle([entry.state], now_us)
    if (this.#waiting.size > 0) this.#config.changed()
  }

  /** The server had no room for it: it waits here again, and nothing is let through for `pause_us`. */
  refused(entry: QueueEntry, pause_us: number, now_us: number): void {
    entry.reservation = null
    this.#return(entry, now_us)
    this.#paused_until_us = Math.max(this.#paused_until_us, now_us + pause_us)
    this.#config.changed()
  }

  /** `used`: as counted. Null: it had no output. */
  ended(entry: QueueEntry, used: UsedTokens | null, now_us: number): void {
    const { offline = false } = entry.state.call
    if (!offline) this.#online_open -= 1
    if (entry.sent_us !== null) {
      if (offline) this.#offline_sent -= 1
      if (!entry.answered) this.#unanswered -= entry.seats
      this.#seats_taken -= entry.seats
      this.#room.ended(entry.state.call, entry.size.prompt_tokens, used, now_us)
    }
    if (entry.reservation !== null) this.#chargeQuota(entry, entry.reservation, used, now_us)
    entry.reservation = null
    this.#sent.delete(entry)
    this.#waiting.delete(entry)
    this.#order.ended(entry.state, now_us)
    this.#config.changed()
  }

  /** How many calls may be let through at once, from the next decision on. */
  resize(seats: number): void {
    if (seats === this.#seats) return
    this.#seats = seats
    if (this.#limits === null) this.#order.resize(seats)
    this.#config.changed()
  }

  /** Null: no limits are known. */
  get #limits(): QueueLimits | null {
    const { limits } = this.#config
    return limits?.active === true ? limits : null
  }

  /** Under limits a call costs what it takes of them: the order, the shares of tenants and ageing go by that too. */
  #chargeQuota({ state }: QueueEntry, reservation: Reservation, used: UsedTokens | null, now_us: number): void {
    const { limits } = this.#config
    if (limits === null) return
    const quota_us = limits.active ? limits.shareUs(reservation) : 0
    limits.ended(reservation, used)
    if (quota_us === 0) return
    this.#order.charge(state, NO_TOKENS, 0, now_us, quota_us)
    this.#order.settle([state], now_us)
  }

  /** By the limits, one call at least is looked at, since its wait may be longer than it lives. */
  #seatsByLimits(limits: QueueLimits, now_us: number): number {
    const more = Math.max(1, Math.min(this.#waiting.size, limits.requestsNow(now_us)))
    return Math.max(1, Math.min(this.#seats, this.#sent.size + more))
  }

  /** What the server says of its own queue. */
  serverWaiting(calls: number | null): void {
    this.#server_waiting = calls
  }

  /** Lets calls through, and takes back. */
  decide(now_us: number): void {
    this.#room.expire(now_us)
    const limits = this.#limits
    if (limits !== null) this.#order.resize(this.#seatsByLimits(limits, now_us))
    const seated = this.#order.decide(now_us)
    if (this.#waiting.size === 0 || now_us < this.#paused_until_us) return
    const sending: QueueEntry[] = []
    const refused: [QueueEntry, NoRoom][] = []
    let full = false
    for (const { owner } of seated) {
      if (owner.sent_us !== null || !this.#hasOfflineSeat(owner, now_us)) continue
      if (!this.#hasRoom(owner, full)) {
        full = true
        continue
      }
      const verdict = limits?.verdict(owner.size, now_us)
      if (verdict?.fits === false) {
        if (now_us + verdict.wait_us <= owner.arrived_us + this.#config.wait_us_max) break
        refused.push([owner, verdict])
        continue
      }
      while (!this.#hasSeats(owner) && (this.#takeBack(now_us) || this.#stop(now_us)));
      if (!this.#hasSeats(owner)) break
      this.#let(owner, sending, now_us)
    }
    if (full && limits === null) this.#letGuests(sending, now_us)
    for (const entry of sending) entry.call.send()
    for (const [entry, why] of refused) entry.call.refuse(why)
  }

  /** `full`: a program before it waits for room. A call that finds the server empty goes, however long it is. */
  #hasRoom({ state, size }: QueueEntry, full: boolean): boolean {
    const { program } = state.call
    if (this.#room.isIn(program) || this.#sent.size === 0) return true
    return !full && this.#room.fits(state.call, size)
  }

  /** A call of more answers than there are seats has all of them to itself. */
  #hasSeats({ seats }: QueueEntry): boolean {
    return this.#seats_taken === 0 || this.#seats_taken + seats <= this.#seats
  }

  #hasOfflineSeat({ state }: QueueEntry, now_us: number): boolean {
    return !state.call.offline || this.#offline_sent < this.#offline.max(this.#seats, now_us)
  }

  /** Seats that wait for room stay empty, so further calls of programs that are in take their places meanwhile. */
  #letGuests(sending: QueueEntry[], now_us: number): void {
    const guests = [...this.#waiting].filter(({ program, state }) => this.#room.isIn(program) && !state.call.offline)
    guests.sort((a, b) => compareOrder(a.state, b.state))
    for (const guest of guests) if (this.#hasSeats(guest)) this.#let(guest, sending, now_us)
  }

  #let(entry: QueueEntry, sending: QueueEntry[], now_us: number): void {
    this.#waiting.delete(entry)
    this.#sent.add(entry)
    this.#seats_taken += entry.seats
    this.#unanswered += entry.seats
    if (entry.state.call.offline) this.#offline_sent += 1
    entry.sent(now_us)
    entry.reservation = this.#config.limits?.reserve(entry.size, now_us) ?? null
    this.#room.sent(entry.state.call, entry.size)
    sending.push(entry)
  }

  /** Makes room by taking back the last call that was let through, has no output, and has lost its seat. */
  #takeBack(now_us: number): boolean {
    const { takes_back, prefill_us_per_token } = this.#config.server()
    // A provider has counted a call that it has.
    if (!takes_back || this.#limits !== null || this.#server_waiting === 0) return false
    // A server that does not tell may be computing the prompt: only one that takes far too long for that waits.
    const us_per_token = this.#server_waiting === null ? (prefill_us_per_token ?? Number.POSITIVE_INFINITY) : 0
    let last: QueueEntry | null = null
    for (const entry of this.#sent) {
      const { sent_us, take_backs, answered, state, size } = entry
      const age_us = Math.max(TAKE_BACK_AGE_US, PREFILLS * size.prompt_tokens * us_per_token)
      if (answered || state.seated || take_backs - entry.stops >= TAKE_BACKS_MAX || sent_us === null) continue
      if (now_us - sent_us >= age_us && sent_us >= (last?.sent_us ?? 0)) last = entry
    }
    if (last === null) return false
    this.#preempt(last, now_us)
    return true
  }

  /** Makes room by stopping the last call that was let through, has output and has lost its seat. */
  #stop(now_us: number): boolean {
    const { takes_back, stops = false } = this.#config.server()
    if (!takes_back || !stops || this.#limits !== null) return false
    let last: QueueEntry | null = null
    for (const entry of this.#sent) {
      const { sent_us, answered, state, call } = entry
      if (!answered || state.seated || entry.stops >= STOPS_MAX || sent_us === null) continue
      if (now_us - sent_us < STOP_AGE_US || sent_us < (last?.sent_us ?? 0)) continue
      if (call.mayStop?.() === true) last = entry
    }
    if (last === null) return false
    last.stops += 1
    this.#preempt(last, now_us)
    return true
  }

  #preempt(entry: QueueEntry, now_us: number): void {
    entry.take_backs += 1
    entry.state.preemptions += 1
    this.#return(entry, now_us)
    entry.call.takeBack()
  }

  #return(entry: QueueEntry, now_us: number): void {
    this.#room.takenBack(entry.state.call)
    if (!entry.answered) this.#unanswered -= entry.seats
    entry.answered = false
    this.#seats_taken -= entry.seats
    if (entry.state.call.offline) this.#offline_sent -= 1
    this.#sent.delete(entry)
    this.#waiting.add(entry)
    entry.returned(now_us)
  }
}
