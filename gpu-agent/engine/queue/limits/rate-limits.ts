/**
 * All limits of one key at one provider: whether a call may go, and what its answer teaches. Pure: each method takes the time.
 *
 * A call takes from every limit when it goes: one request, its prompt by estimate, and of its answer what it may have at most, or
 * what answers have had of late where the provider counts what is used (`Expected`). Its usage corrects that at its end. A
 * provider that counts what a call may take (`reserved`: OpenAI, Azure) gives nothing back, so nothing is given back here.
 *
 * Limits are the operator's, and those that answers tell. Of the same quantity and window the smaller one counts.
 */
import { LIMITS_MAX, type LimitSpec, limitText, type Quantity } from './limit-spec.ts'
import { ProviderLimit, type WindowedLimit } from './provider-limit.ts'
import { type Counting, type ToldLimit, windowOf } from './told-limit.ts'

/** Answers of which the length is remembered. */
const OUTPUTS_MAX = 64
const OUTPUTS_MIN = 8
const OUTPUT_QUANTILE = 0.95
const OUTPUT_SPARE = 1.25
/** Where no limit is known, so many calls are on their way at most after a refusal, and one more whenever one is served. */
const CAREFUL_CALLS = 1
/** With so many, or after so long without another such refusal, any number goes again. */
const CAREFUL_CALLS_MAX = 64
const CAREFUL_US = 60_000_000
/** Until it is asked again whether a call may follow those on their way. */
const CAREFUL_WAIT_US = 50_000
/** Refusals for tokens that had room, after which the provider is taken to count what a call may take. */
const RESERVED_AFTER = 2

export interface CallTokens {
  prompt_tokens: number
  output_tokens_max: number
}

export interface UsedTokens {
  prompt_tokens: number
  output_tokens: number
  cached_tokens: number | null
}

/** What a call has taken. */
export interface Reservation {
  number: number
  at_us: number
  taken: Readonly<Record<Quantity, number>>
  /** Limits for which this call finds out whether there is room. */
  trials: readonly ProviderLimit[]
  /** The provider has answered: what it told counts this call. */
  heard: boolean
}

export type LimitVerdict =
  | { fits: true }
  /** `wait_us`: Infinity where it never fits. `limit`: null where the provider did not say which. */
  | { fits: false; wait_us: number; limit: WindowedLimit | null; needed: number }

export interface RefusedFor {
  /** Which limit the provider named; null: it did not. */
  quantity: Quantity | null
  window_us: number | null
  /** Null: it did not say. */
  after_us: number | null
}

export class RateLimits {
  readonly #limits: ProviderLimit[] = []
  /** Open calls, in the order in which they went. */
  readonly #open = new Map<number, Reservation>()
  readonly #outputs: number[] = []
  #counting: Counting = null
  #token_surprises = 0
  #numbers = 0
  #heard_number = -1
  #blocked_until_us = Number.NEGATIVE_INFINITY
  /** How many calls may be on their way, of those that went from `since_us` on. Null: any number. */
  #careful: { calls: number; since_us: number } | null = null

  constructor(specs: readonly LimitSpec[] = []) {
    for (const { quantity, amount, window_us } of specs) {
      if (quantity !== 'concurrent' && window_us !== null) this.#add({ quantity, amount, window_us }, 'operator')
    }
  }

  get known(): boolean {
    return this.#limits.length > 0
  }

  get limits(): readonly ProviderLimit[] {
    return this.#limits
  }

  get counting(): Counting {
    return this.#counting
  }

  /** Calls that the limits on requests let through now. */
  requestsNow(now_us: number): number {
    if (now_us < this.#blocked_until_us) return 0
    let requests = this.#carefulRoom(now_us)
    for (const limit of this.#limits) {
      if (limit.spec.quantity === 'requests') requests = Math.min(requests, Math.floor(limit.room(now_us)))
    }
    return requests
  }

  verdict(call: CallTokens, now_us: number): LimitVerdict {
    const needs = this.#needs(call)
    const blocked_us = this.blockedUs(now_us)
    let worst: Extract<LimitVerdict, { fits: false }> | null = null
    for (const limit of this.#limits) {
      const { spec } = limit
      const needed = needs[spec.quantity]
      const may_go = this.#counting !== 'reserved' && isSmaller(call, spec)
      const wait_us = Math.max(blocked_us, limit.waitUs(may_go ? Math.min(needed, spec.amount) : needed, now_us))
      if (wait_us > (worst?.wait_us ?? 0)) worst = { fits: false, wait_us, limit: spec, needed }
    }
    if (worst !== null) return worst
    const wait_us = blocked_us > 0 || this.#carefulRoom(now_us) > 0 ? blocked_us : CAREFUL_WAIT_US
    return wait_us > 0 ? { fits: false, wait_us, limit: null, needed: 1 } : { fits: true }
  }

  /** Until `calls` with so many tokens in all have gone. */
  drainUs(calls: number, { prompt_tokens, output_tokens_max }: CallTokens, now_us: number): number {
    const output =
      this.#counting === 'used' ? Math.min(output_tokens_max, calls * this.#expectedOutput) : output_tokens_max
    const total = { requests: calls, input: prompt_tokens, output, tokens: prompt_tokens + output }
    const waits = this.#limits.map((limit) => limit.drainUs(total[limit.spec.quantity], now_us))
    return Math.max(this.blockedUs(now_us), 0, ...waits)
  }

  /** Until nothing more is sent: the provider refused a call without saying for which limit. */
  blockedUs(now_us: number): number {
    return Math.max(0, this.#blocked_until_us - now_us)
  }

  reserve(call: CallTokens, now_us: number): Reservation {
    const taken = this.#needs(call)
    const trials = this.#limits.filter((limit) => limit.take(taken[limit.spec.quantity], now_us))
    const reservation = { number: this.#numbers++, at_us: now_us, taken, trials, heard: false }
    this.#open.set(reservation.number, reservation)
    return reservation
  }

  /** The provider has begun to answer. Returns limits that were not known before. */
  heard(reservation: Reservation, told: readonly ToldLimit[], counting: Counting, now_us: number): WindowedLimit[] {
    this.#counting ??= counting
    reservation.heard = true
    for (const limit of reservation.trials) limit.trialWentThrough(now_us)
    if (this.#careful !== null && reservation.at_us >= this.#careful.since_us) this.#careful.calls += 1
    // What was written for an earlier call than one that has been read counts less.
    if (reservation.number < this.#heard_number) return []
    this.#heard_number = reservation.number
    const late_us = now_us - reservation.at_us
    const learned: WindowedLimit[] = []
    for (const news of told) {
      const { limit, isNew } = this.#limitOf(news)
      if (limit === null) continue
      if (isNew) learned.push(limit.spec)
      limit.heard(news, { open: this.#uncounted(limit.spec.quantity, reservation), late_us }, now_us)
    }
    return learned
  }

  /** It is over. Null: how much it used is not known. */
  ended(reservation: Reservation, used: UsedTokens | null): void {
    if (!this.#open.delete(reservation.number) || used === null) return
    const { prompt_tokens, output_tokens, cached_tokens } = used
    this.#outputs.push(output_tokens)
    if (this.#outputs.length > OUTPUTS_MAX) this.#outputs.shift()
    const input = Math.max(0, prompt_tokens - (this.#counting === 'used' ? (cached_tokens ?? 0) : 0))
    const output = this.#counting === 'reserved' ? reservation.taken.output : output_tokens
    this.#correct(reservation, { requests: 1, input, output, tokens: input + output })
  }

  /** How long the limits are taken by it alone: its part of the scarcest one. */
  shareUs({ taken }: Reservation): number {
    const shares = this.#limits.map(({ spec }) => (taken[spec.quantity] * spec.window_us) / spec.amount)
    return Math.round(Math.max(0, ...shares))
  }

  /** The provider did not take it in. */
  released(reservation: Reservation): void {
    if (!this.#open.delete(reservation.number)) return
    this.#correct(reservation, { requests: 0, input: 0, output: 0, tokens: 0 })
  }

  /** A refusal named a limit. */
  told({ quantity, amount, window_us }: WindowedLimit): void {
    const same = this.#limits.some(
      ({ spec }) => spec.quantity === quantity && (spec.window_us === window_us || spec.amount === amount),
    )
    if (!same) this.#add({ quantity, amount, window_us }, 'provider')
  }

  /** As `released`: for want of room. Returns when calls may go again. */
  refused(reservation: Reservation, why: RefusedFor, guess_us: number, now_us: number): number {
    this.released(reservation)
    const named = this.#limits.filter(
      ({ spec }) => spec.quantity === why.quantity && (why.window_us === null || spec.window_us === why.window_us),
    )
    const limits = named.length > 0 ? named : reservation.trials
    const until_us = now_us + (why.after_us ?? guess_us)
    if (limits.length === 0) {
      this.#blocked_until_us = Math.max(this.#blocked_until_us, until_us)
      if (!this.known) this.#careful = { calls: CAREFUL_CALLS, since_us: this.#blocked_until_us }
    }
    for (const limit of limits)
      limit.refused(reservation.taken[limit.spec.quantity], reservation.trials.includes(limit), until_us, now_us)
    if (why.quantity !== null && why.quantity !== 'requests') this.#token_surprises += 1
    if (this.#counting === null && this.#token_surprises >= RESERVED_AFTER) this.#counting = 'reserved'
    return until_us
  }

  /** How many more calls may be on their way. */
  #carefulRoom(now_us: number): number {
    if (this.#careful === null) return Number.POSITIVE_INFINITY
    const { calls, since_us } = this.#careful
    if (calls > CAREFUL_CALLS_MAX || now_us >= since_us + CAREFUL_US) {
      this.#careful = null
      return Number.POSITIVE_INFINITY
    }
    const on_their_way = this.#open.values().filter(({ at_us, heard }) => !heard && at_us >= since_us)
    return Math.max(0, calls - [...on_their_way].length)
  }

  #needs({ prompt_tokens, output_tokens_max }: CallTokens): Readonly<Record<Quantity, number>> {
    const output = Math.min(
      output_tokens_max,
      this.#counting === 'used' ? this.#expectedOutput : Number.POSITIVE_INFINITY,
    )
    return { requests: 1, input: prompt_tokens, output, tokens: prompt_tokens + output }
  }

  get #expectedOutput(): number {
    if (this.#outputs.length < OUTPUTS_MIN) return Number.POSITIVE_INFINITY
    const sorted = this.#outputs.toSorted((a, b) => a - b)
    return Math.ceil((sorted[Math.floor(sorted.length * OUTPUT_QUANTILE)] ?? 0) * OUTPUT_SPARE)
  }

  #correct({ taken, at_us }: Reservation, used: Readonly<Record<Quantity, number>>): void {
    for (const limit of this.#limits) {
      const { quantity } = limit.spec
      limit.correct(used[quantity] - taken[quantity], at_us)
    }
  }

  /** What of a quantity the answer to `reservation` could not know of. */
  #uncounted(quantity: Quantity, reservation: Reservation): number {
    let amount = 0
    for (const open of this.#open.values()) {
      if (open.number > reservation.number && !open.heard) amount += open.taken[quantity]
      // Output that is counted as it is written has yet to be.
      else if (this.#counting === 'used' && quantity !== 'requests')
        amount += quantity === 'input' ? 0 : open.taken.output
    }
    return amount
  }

  #limitOf(news: ToldLimit): { limit: ProviderLimit | null; isNew: boolean } {
    const { quantity, amount } = news
    const same = this.#limits.filter(({ spec }) => spec.quantity === quantity)
    const only = same.length === 1 ? same[0] : undefined
    if (amount === null) return { limit: only ?? null, isNew: false }
    const window_us = news.window_us ?? windowOf(news.reset_us)
    // An equal one may have been found out to be longer than it was taken for.
    const known =
      same.find(({ spec }) => spec.amount === amount) ?? same.find(({ spec }) => spec.window_us === window_us)
    if (known !== undefined) return { limit: known, isNew: false }
    const by = news.window_us === null ? 'guess' : 'provider'
    return { limit: this.#add({ quantity, amount, window_us }, by), isNew: true }
  }

  /** Null: there are LIMITS_MAX, and no provider has more. */
  #add(spec: WindowedLimit, by: 'operator' | 'provider' | 'guess'): ProviderLimit | null {
    if (this.#limits.length >= LIMITS_MAX) return null
    const limit = new ProviderLimit(spec, by)
    this.#limits.push(limit)
    return limit
  }
}

/** Its prompt fits the limit: a provider that counts what is used may take it, however much it may write. */
function isSmaller({ prompt_tokens }: CallTokens, { quantity, amount }: WindowedLimit): boolean {
  return quantity === 'requests' || quantity === 'output' || prompt_tokens <= amount
}

/** For the operator: what is known of the limits. */
export function limitsText(limits: readonly ProviderLimit[]): string[] {
  return limits.map(({ spec }) => limitText(spec))
}
