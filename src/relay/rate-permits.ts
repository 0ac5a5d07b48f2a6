/**
 * A tenant's calls per minute. The TenantActor holds the bucket (core/call/call-rate.ts). An isolate takes a second's worth
 * of calls at a time, so only tenants with a limit cost an RPC, and at high rates only one in many calls does. Permits that
 * an isolate does not use within PERMIT_LIFE_MS are lost to the tenant. Calls that come at the same time share one question,
 * so concurrent misses neither take more than they use nor see each other's refusal. While the TenantActor does not answer,
 * the isolate counts with a bucket of its own: serving beats counting exactly, and a tenant cannot escape its limit by
 * keeping its actor busy.
 */

import type { TenantRpc } from '../actors/contracts.ts'
import { type CallBucket, callsAtOnce, takeCalls } from '../core/call/call-rate.ts'
import { SharedWork } from '../platform/shared-work.ts'
import { askActor } from './rpc.ts'

/** Tenants with a limit that an isolate remembers. Past it the one asked for longest ago is forgotten. */
export const PERMITS_KEPT_MAX = 2000
const PERMIT_LIFE_MS = 2000
/** A refusal is reused for at most this long, so that a raised limit takes effect. */
const REFUSAL_LIFE_MS = 1000
/** A question to the actor ends within its timeout. After so many timeouts the request that asked is gone. */
const QUESTION_LIFE_FACTOR = 2
/** Each round asks for all calls that wait, so a call needs a second one only if it came while the first was open. */
const ROUNDS_MAX = 16

interface Held {
  left: number
  until_ms: number
  /** No call before this time. The actor is still asked again after REFUSAL_LIFE_MS. */
  retry_at_ms: number
  refused_until_ms: number
  /** The isolate's own, for when the actor does not answer; null: never used. */
  own: CallBucket | null
}

/** The call's tenant. `calls_per_minute_max` null: no limit. */
interface LimitedCall {
  tenant: string
  calls_per_minute_max: number | null
}

/** The part of the relay's dependencies that a permit needs. */
interface RatePermitDeps {
  tenant(tenant: string): Pick<TenantRpc, 'takeCalls'>
  /** Wall clock, milliseconds. */
  now(): number
  report(event: string, error: unknown): void
  times: { median_timeout_ms: number }
}

export type RatePermit = { status: 'granted' } | { status: 'refused'; retry_after_s: number }

export class RatePermits {
  readonly #held = new Map<string, Held>()
  /** By tenant: one question at a time, for all calls that need it. */
  readonly #asking = new SharedWork<void>()

  async take(call: LimitedCall, deps: RatePermitDeps): Promise<RatePermit> {
    const { tenant, calls_per_minute_max } = call
    if (calls_per_minute_max === null) return { status: 'granted' }
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const now_ms = deps.now()
      const held = this.#held.get(tenant)
      if (held !== undefined && held.left > 0 && now_ms < held.until_ms) {
        held.left -= 1
        return { status: 'granted' }
      }
      if (held !== undefined && now_ms < held.refused_until_ms) return refused(held.retry_at_ms - now_ms)
      const limit_ms = QUESTION_LIFE_FACTOR * deps.times.median_timeout_ms
      await this.#asking.run(tenant, () => this.#ask(tenant, calls_per_minute_max, deps), limit_ms)
    }
    return refused(0)
  }

  /** Gets permits for the calls that wait, at least a second's worth. */
  async #ask(tenant: string, calls_per_minute_max: number, deps: RatePermitDeps): Promise<void> {
    // In a later turn, so that calls that come at the same time are counted.
    await Promise.resolve()
    const now_ms = deps.now()
    const needed = this.#asking.waiting(tenant) + 1
    const wanted = Math.max(callsAtOnce(calls_per_minute_max), needed)
    const asked = await askActor(
      () => deps.tenant(tenant).takeCalls({ calls_per_minute_max, wanted }),
      deps.times.median_timeout_ms,
    )
    if (asked.status === 'failed') deps.report('permit_failed', asked.error)
    let own = this.#held.get(tenant)?.own ?? null
    let answer: { granted: number; retry_after_s: number }
    if (asked.status === 'answered') answer = asked.value
    else ({ bucket: own, ...answer } = takeCalls(own, calls_per_minute_max, needed, now_ms))
    const { granted, retry_after_s } = answer
    const retry_at_ms = now_ms + retry_after_s * 1000
    const refused_until_ms = granted > 0 ? 0 : Math.min(retry_at_ms, now_ms + REFUSAL_LIFE_MS)
    this.#keep(tenant, { left: granted, until_ms: now_ms + PERMIT_LIFE_MS, retry_at_ms, refused_until_ms, own })
  }

  #keep(tenant: string, held: Held): void {
    this.#held.delete(tenant)
    if (this.#held.size >= PERMITS_KEPT_MAX) {
      const oldest = this.#held.keys().next()
      if (!oldest.done) this.#held.delete(oldest.value)
    }
    this.#held.set(tenant, held)
  }
}

function refused(wait_ms: number): RatePermit {
  return { status: 'refused', retry_after_s: Math.max(1, Math.ceil(wait_ms / 1000)) }
}
