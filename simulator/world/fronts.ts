/**
 * An agent's fronts in a simulation (docs/any-engine.md): its queue in front of engines that serve first come, first served and
 * never preempt, or in front of a hosted API with limits. A simulation without a front does not load this file.
 */
import { CONCURRENT_MAX } from '../../gpu-agent/engine/queue/limits/limit-spec.ts'
import { RateLimits } from '../../gpu-agent/engine/queue/limits/rate-limits.ts'
import { QueuedEngine } from './queued-engine.ts'
import { type ProviderConfig, quotaUs, SimProvider } from './sim-provider.ts'
import type { Front } from './world-engine.ts'

/** For a provider: prompts cost nothing to move, and its balancer looks at its limits. */
const PROVIDER_PREFILL_TOKENS_PER_S = 1e6

export function queueFront(): Front {
  return {
    workUs: null,
    open: (place, _profile, firstCome) => {
      const engine = firstCome({
        onSampled: (lease, now_us) => queued.sampled(lease, now_us),
        onEnded: (ended, now_us) => queued.ended(ended, now_us),
      })
      const { sizes } = engine
      const queued = new QueuedEngine({
        ...{ ...place, sizes, kv_tokens: sizes.kv_capacity_tokens, limits: null, seats: null },
        behind: {
          reports: true,
          submit: (call, _entry, now_us) => engine.submit(call, now_us),
          status: (now_us) => engine.status(now_us),
          openCharges: () => engine.openCharges(),
        },
      })
      return queued
    },
  }
}

export function providerFront(config: ProviderConfig): Front {
  return {
    workUs: (call) => quotaUs(config, call),
    open: (place, { slot_tokens_max, capacity_blocks, block_tokens }) => {
      const rates = new RateLimits(config.limits)
      const provider = new SimProvider({
        ...{ ...config, timeline: place.timeline, rates },
        sampled: (lease, now_us) => queued.sampled(lease, now_us),
        ended: (ended, now_us) => queued.ended(ended, now_us),
        refused: (lease, now_us) => queued.refused(lease, now_us),
      })
      const seats = config.limits.find(({ quantity }) => quantity === 'concurrent')?.amount ?? CONCURRENT_MAX
      const queued = new QueuedEngine({
        ...{ ...place, kv_tokens: null, seats, behind: provider },
        sizes: {
          ...{ seats, kv_capacity_tokens: capacity_blocks * block_tokens, context_tokens_max: slot_tokens_max },
          prefill_tokens_per_s: PROVIDER_PREFILL_TOKENS_PER_S,
        },
        limits: {
          active: rates.known,
          requestsNow: (now_us) => rates.requestsNow(now_us),
          drainUs: (calls, tokens, now_us) => rates.drainUs(calls, tokens, now_us),
          verdict: (size, now_us) => rates.verdict(size, now_us),
          reserve: (size, now_us) => rates.reserve(size, now_us),
          shareUs: (reservation) => rates.shareUs(reservation),
          ended: (reservation, used) => rates.ended(reservation, used),
        },
      })
      return queued
    },
  }
}
