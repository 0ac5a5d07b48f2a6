/**
 * The limits of one key, between the queue and the provider: which calls may go, what answers and refusals say, and what the
 * operator is told of it. A refusal for a limit sends the call back to the queue for as long as the provider says. Where that is
 * later than the call may live, or the account is spent, the call fails at once, and its error says when a retry makes sense.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { StreamError } from '../../../../../src/protocol/index.ts'
import { type LimitSpec, limitText } from '../../../../engine/queue/limits/limit-spec.ts'
import type { ProviderLimit } from '../../../../engine/queue/limits/provider-limit.ts'
import {
  type CallTokens,
  type LimitVerdict,
  limitsText,
  RateLimits,
  type Reservation,
  type UsedTokens,
} from '../../../../engine/queue/limits/rate-limits.ts'
import type { Report } from '../../../events.ts'
import { accountSpent, limitExhausted, tooLargeForLimit } from '../../../openai/errors.ts'
import { newsOf } from './limit-news.ts'
import { Overload } from './overload.ts'
import { type RefusalReason, refusalReason } from './refusal-reason.ts'

const PAUSE_US_MIN = 250_000
/** Doublings of the pause while refusals say nothing. */
const PAUSES_MAX = 5
/** A provider that is busy says so again by then. */
const BUSY_US_MAX = 60_000_000
/** Of a limit of an hour or a day whose refusal does not say when it ends. */
const LONG_RETRY_US = 3600 * 1_000_000
/** A per-minute limit has room after its window, whatever a refusal says. */
const WINDOWS_MAX = 1.1

/** What the provider answered in place of serving the call. */
export interface Refused {
  status: number
  headers: IncomingHttpHeaders
  body: string
}

export type RefusedOutcome =
  /** The call waits again. `pause_us`: nothing is sent before. */
  | { kind: 'again'; pause_us: number }
  | { kind: 'failed'; error: StreamError }
  /** Nothing is known of limits here: as with any server without room. */
  | { kind: 'unknown' }

export interface KeyLimitsOptions {
  specs: readonly LimitSpec[]
  /** Of the provider, and of the key at it. */
  server: string
  key_id: string | null
  /** The only model that they are of. Left out: of all. */
  model?: string
  report: Report
  wall_ms?: () => number
}

export class KeyLimits {
  readonly rates: RateLimits
  readonly #options: KeyLimitsOptions
  readonly #overload: Overload
  readonly #concurrent: number | null
  readonly #wall_ms: () => number
  readonly #told = new Set<string>()
  /** Refusals since a call was last served. */
  #refusals = 0

  constructor(options: KeyLimitsOptions) {
    this.#options = options
    this.#wall_ms = options.wall_ms ?? Date.now
    this.rates = new RateLimits(options.specs)
    this.#concurrent = options.specs.find(({ quantity }) => quantity === 'concurrent')?.amount ?? null
    this.#overload = new Overload(this.#concurrent)
  }

  /** There are limits, so they decide how many calls go. */
  get active(): boolean {
    return this.rates.known || this.#concurrent !== null
  }

  concurrent(now_us: number): number {
    return this.#overload.limit(now_us)
  }

  requestsNow(now_us: number): number {
    return this.rates.requestsNow(now_us)
  }

  drainUs(calls: number, tokens: CallTokens, now_us: number): number {
    return this.rates.drainUs(calls, tokens, now_us)
  }

  verdict(call: CallTokens, now_us: number): LimitVerdict {
    return this.rates.verdict(call, now_us)
  }

  reserve(call: CallTokens, now_us: number): Reservation {
    return this.rates.reserve(call, now_us)
  }

  shareUs(reservation: Reservation): number {
    return this.rates.shareUs(reservation)
  }

  ended(reservation: Reservation, used: UsedTokens | null): void {
    this.rates.ended(reservation, used)
  }

  heard(reservation: Reservation, headers: IncomingHttpHeaders, now_us: number): void {
    this.#refusals = 0
    const { limits, counting } = newsOf(headers, this.#wall_ms())
    this.rates.heard(reservation, limits, counting, now_us)
    this.#tell()
  }

  /** `open`: calls at the provider. `lives_us`: how long the call may still take. */
  refused(
    reservation: Reservation,
    refused: Refused,
    { open, lives_us, now_us }: { open: number; lives_us: number; now_us: number },
  ): RefusedOutcome {
    const reason = this.#reasonOf(refused)
    this.#refusals += 1
    const guess_us = PAUSE_US_MIN * 2 ** Math.min(PAUSES_MAX, this.#refusals - 1)
    if (reason.kind === 'spent' || reason.kind === 'too_large') {
      this.rates.released(reservation)
      return { kind: 'failed', error: reason.kind === 'spent' ? accountSpent() : tooLargeForLimit(null) }
    }
    if (reason.kind === 'busy') {
      this.rates.released(reservation)
      if (!this.active) return { kind: 'unknown' }
      this.#overload.refused(open, now_us)
      return { kind: 'again', pause_us: Math.min(BUSY_US_MAX, reason.after_us ?? guess_us) }
    }
    return this.#refusedForLimit(reservation, reason, guess_us, { lives_us, now_us })
  }

  #refusedForLimit(
    reservation: Reservation,
    reason: Extract<RefusalReason, { kind: 'limit' }>,
    guess_us: number,
    { lives_us, now_us }: { lives_us: number; now_us: number },
  ): RefusedOutcome {
    const { quantity, window_us, amount } = reason
    const isLong = window_us !== null && window_us >= LONG_RETRY_US
    if (!this.active && quantity === null && reason.after_us === null) {
      this.rates.released(reservation)
      return { kind: 'unknown' }
    }
    if (quantity !== null && window_us !== null && amount !== null) this.rates.told({ quantity, amount, window_us })
    const told_us = reason.after_us ?? (isLong ? LONG_RETRY_US : null)
    const after_us =
      told_us === null || window_us === null || isLong ? told_us : Math.min(told_us, window_us * WINDOWS_MAX)
    const until_us = this.rates.refused(reservation, { quantity, window_us, after_us }, guess_us, now_us)
    this.#tell()
    if (until_us - now_us <= lives_us) return { kind: 'again', pause_us: 0 }
    const spec = this.rates.limits.find(({ spec }) => spec.quantity === quantity && spec.window_us === window_us)?.spec
    const named = spec === undefined ? 'limit' : `limit of ${limitText(spec)}`
    return { kind: 'failed', error: limitExhausted(named, (until_us - now_us) / 1e6) }
  }

  /** Where the body names no limit, a header that says 0 does. */
  #reasonOf(refused: Refused): RefusalReason {
    const wall_ms = this.#wall_ms()
    const reason = refusalReason(refused, wall_ms)
    if (reason.kind !== 'limit' || reason.quantity !== null) return reason
    const empty = newsOf(refused.headers, wall_ms).limits.filter(({ remaining }) => remaining === 0)
    const [only] = empty
    if (only === undefined || empty.length > 1) return reason
    return { ...reason, quantity: only.quantity, window_us: only.window_us, after_us: reason.after_us ?? only.reset_us }
  }

  /** The error of a call whose turn cannot come while it lives. */
  errorOf({ wait_us, limit, needed }: Extract<LimitVerdict, { fits: false }>): StreamError {
    if (limit === null) return limitExhausted('limit', wait_us / 1e6)
    if (wait_us === Number.POSITIVE_INFINITY) return tooLargeForLimit({ limit: limitText(limit), needed })
    return limitExhausted(`limit of ${limitText(limit)}`, wait_us / 1e6)
  }

  /** Each thing once. */
  #tell(): void {
    const { server, key_id: key, model } = this.#options
    const { limits, counting } = this.rates
    this.#once(`limits ${limitsText(limits).join()}`, () => ({
      event: 'limits_known',
      ...{ server, key, ...(model === undefined ? {} : { model }) },
      ...{ limits: limitsText(limits), counting: counting ?? 'used' },
    }))
    for (const limit of limits) this.#tellOf(limit)
  }

  #tellOf(limit: ProviderLimit): void {
    const { server, key_id: key } = this.#options
    const text = limitText(limit.spec)
    if (limit.others) {
      const message = 'others use this key too: this agent takes a share of its limits, and less as they use more'
      this.#once(`others ${text}`, () => ({ event: 'key_shared', server, key, limit: text, message }))
    }
    if (!limit.distrusted) return
    const message = 'its header said that nothing was left, and calls went through: it is not read any more'
    this.#once(`wrong ${text}`, () => ({ event: 'limit_header_wrong', server, key, limit: text, message }))
  }

  #once(what: string, event: () => Parameters<Report>[0]): void {
    if (this.#told.has(what) || this.#told.size >= TOLD_MAX) return
    this.#told.add(what)
    if (this.rates.known) this.#options.report(event())
  }
}

const TOLD_MAX = 256
