/**
 * A hosted API on the virtual clock: any number of calls at once, each with the same time to its first token and the same speed after
 * it, and limits as providers enforce them (ProviderAccount). A call that finds no room is refused with the time after which to try
 * again. Each answer says what is left of the limits. It has no prompt cache.
 */
import type { QueueEntry } from '../../gpu-agent/engine/queue/call-queue.ts'
import type { LimitSpec } from '../../gpu-agent/engine/queue/limits/limit-spec.ts'
import { amountOf, type CallCost, ProviderAccount } from '../../gpu-agent/engine/queue/limits/provider-account.ts'
import type { RateLimits } from '../../gpu-agent/engine/queue/limits/rate-limits.ts'
import type { EndedCall } from '../../gpu-agent/engine/scheduler.ts'
import type { EngineCall } from '../../gpu-agent/engine/types.ts'
import { modelledServiceUs } from '../../src/core/call/service.ts'
import type { LeaseCharge } from '../../src/protocol/index.ts'
import { NOTHING_MEASURED } from '../../src/protocol/measurement.ts'
import type { WorkloadCall } from '../workloads/program.ts'
import type { Behind } from './queued-engine.ts'
import type { Timeline } from './timeline.ts'

/** Plain data: it travels to worker threads. */
export interface ProviderConfig {
  limits: readonly LimitSpec[]
  shape: 'bucket' | 'window'
  counts: 'reserved' | 'used'
  ttft_us: number
  us_per_token: number
}

export interface SimProviderOptions extends ProviderConfig {
  timeline: Timeline
  /** The agent's own count of the limits. */
  rates: RateLimits
  sampled: (lease: string, now_us: number) => void
  ended: (ended: EndedCall, now_us: number) => void
  refused: (lease: string, now_us: number) => void
}

const S_PER_US = 1 / 1e6
/** Of a refusal whose limit the agent does not know. */
const GUESS_US = 1_000_000

export class SimProvider implements Behind {
  readonly reports = false
  readonly #options: SimProviderOptions
  readonly #account: ProviderAccount
  #open = 0

  constructor(options: SimProviderOptions) {
    this.#options = options
    this.#account = new ProviderAccount(
      options.limits.flatMap(({ quantity, amount, window_us }) =>
        quantity === 'concurrent' || window_us === null ? [] : [{ quantity, amount, per_s: window_us / 1e6 }],
      ),
      options.shape,
    )
  }

  submit(call: EngineCall, entry: QueueEntry, now_us: number): void {
    const { rates, counts, timeline, ttft_us, us_per_token, sampled, refused } = this.#options
    const { reservation } = entry
    if (reservation === null) throw new Error(`call ${call.lease} has reserved nothing`)
    const output = counts === 'reserved' ? call.max_output_tokens : 0
    const admitted = this.#account.admit({ requests: 1, input: call.prompt.length, output }, now_us * S_PER_US)
    if (!admitted.ok) {
      const { limit, retry_after_s } = admitted
      const why = {
        ...{ quantity: limit.quantity, window_us: Math.round(limit.per_s * 1e6) },
        after_us: Math.round(retry_after_s * 1e6),
      }
      rates.refused(reservation, why, GUESS_US, now_us)
      timeline.send(0, (heard_us) => refused(call.lease, heard_us))
      return
    }
    const told = this.#account.states(now_us * S_PER_US).map(({ quantity, amount, remaining, reset_s }) => ({
      ...{ quantity, amount, remaining, window_us: null, reset_us: Math.round(reset_s * 1e6) },
    }))
    this.#open += 1
    timeline.send(ttft_us, (first_us) => {
      rates.heard(reservation, told, counts, first_us)
      sampled(call.lease, first_us)
      const rest_us = Math.round((call.max_output_tokens - 1) * us_per_token)
      timeline.send(rest_us, (ended_us) => this.#end(call, now_us, first_us, ended_us))
    })
  }

  status(): ReturnType<Behind['status']> {
    return { waiting: 0, running: this.#open, queued_tokens: 0, kv_used_tokens: 0 }
  }

  openCharges(): LeaseCharge[] {
    return []
  }

  #end(call: EngineCall, sent_us: number, first_us: number, ended_us: number): void {
    const { counts, ended } = this.#options
    const [prompt_tokens, output_tokens] = [call.prompt.length, call.max_output_tokens]
    if (counts === 'used') {
      this.#account.take({ requests: 0, input: 0, output: output_tokens }, ended_us * S_PER_US)
    }
    this.#open -= 1
    const service_wall_us = ended_us - first_us
    const measurement = {
      ...NOTHING_MEASURED,
      ...{ prompt_tokens, output_tokens, service_wall_us },
      service_modelled_us: modelledServiceUs({
        uncached_prompt_tokens: prompt_tokens,
        cached_prompt_tokens: 0,
        output_tokens,
      }),
      wait_us: first_us - sent_us,
      first_token_us: first_us - sent_us,
      duration_us: ended_us - sent_us,
    }
    ended({ lease: call.lease, reason: 'length', measurement } as EndedCall, ended_us)
  }
}

/** How long a call takes up the scarcest limit. That is its cost to others, for clairvoyant orders. */
export function quotaUs({ limits }: ProviderConfig, { prompt_tokens, output_tokens }: WorkloadCall): number {
  const cost: CallCost = { requests: 1, input: prompt_tokens, output: output_tokens }
  const shares = limits.map(({ quantity, amount, window_us }) =>
    quantity === 'concurrent' || window_us === null ? 0 : (amountOf(cost, quantity) * window_us) / amount,
  )
  return Math.round(Math.max(0, ...shares))
}

/** The same limits, each multiplied. */
export function timesLimits(provider: ProviderConfig, times: number): ProviderConfig {
  return { ...provider, limits: provider.limits.map((limit) => ({ ...limit, amount: limit.amount * times })) }
}
