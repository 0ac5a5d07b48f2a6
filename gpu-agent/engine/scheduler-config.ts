/** What a scheduler is started with, and the limits within which every step has a valid plan. */
import { DEFAULT_SERVICE_RATES } from '../../src/core/call/service.ts'
import type { SwapConfig } from './memory/image-store.ts'
import { type EngineMemory, REFERENCE_MEMORY } from './order/policy.ts'
import type { OrderConfig } from './order/program-order.ts'

/** Calls that hold no seat, over all tenants, before a submit is answered `engine_full`. */
export const WAITING_CALLS_MAX = 8192
/** The same for one tenant. */
export const WAITING_CALLS_PER_TENANT_MAX = 2048
/** Seats are shared between tenants again when their demand changes, and otherwise this often, since shares follow charges. */
export const SHARES_INTERVAL_US = 100_000
/**
 * A new decision on every step, as in Autellix without multi-step scheduling. Between decisions no call is preempted, and
 * freed seats go to the calls that are next in order, or (`standby`) to the next ones that hold their KV.
 */
export const STEPS_PER_DECISION = 1
/** Slots are scanned when a call claims one. */
export const SLOTS_MAX = 1024

export interface SchedulerConfig extends OrderConfig {
  epoch: string
  /** Sequences whose KV can be resident at once: running, preempted, and kept for their prefix. */
  slots: number
  /** Tokens that one slot can hold: prompt + max_output_tokens of a call. */
  slot_tokens_max: number
  block_tokens: number
  capacity_blocks: number
  /** Tokens computed in one step over all calls; at least `seats`, so that every decode fits. */
  max_step_tokens: number
  /** Tokens that one call computes in one step, at most. */
  prefill_chunk_tokens: number
  /**
   * Of the prompts of all offline calls together in one step, while online calls come: one that comes has to wait for the step under way. Left out:
   * as of other prompts.
   */
  offline_prefill_tokens?: number
  /** False: a prompt is computed in one step, alone. The two limits above do not apply to that step. */
  chunked_prefill: boolean
  waiting_calls_max: number
  waiting_calls_per_tenant_max: number
  /** Null, the default: an evicted call's KV is dropped and computed again. Otherwise the backend executes save and restore. */
  swap: SwapConfig | null
  /** The backend executes copy: a prefix in another slot is copied and not computed. */
  copies_prefixes: boolean
  /** Calls wait rather than take the KV of a better program whose tool runs (program-hold.ts). Of policies that queue programs, and
   * that do not handle contexts themselves. */
  hold_kv: boolean
  /** What memory costs, for policies that handle contexts while tools run (memory/handling/). */
  memory: EngineMemory
}

type Given =
  | 'epoch'
  | 'policy'
  | 'shares'
  | 'seats'
  | 'slots'
  | 'slot_tokens_max'
  | 'block_tokens'
  | 'capacity_blocks'
  | 'max_step_tokens'
  | 'prefill_chunk_tokens'

/** Fills in the defaults. Throws RangeError for a config that no step can satisfy. */
export function schedulerConfig(given: Pick<SchedulerConfig, Given> & Partial<SchedulerConfig>): SchedulerConfig {
  const config: SchedulerConfig = {
    chunked_prefill: true,
    waiting_calls_max: WAITING_CALLS_MAX,
    waiting_calls_per_tenant_max: WAITING_CALLS_PER_TENANT_MAX,
    shares_interval_us: SHARES_INTERVAL_US,
    steps_per_decision: STEPS_PER_DECISION,
    standby: 'in_order',
    preemptions_per_decision_max: given.seats,
    swap: null,
    copies_prefixes: false,
    hold_kv: true,
    memory: REFERENCE_MEMORY,
    ordering: 'modelled',
    rates: DEFAULT_SERVICE_RATES,
    ...given,
  }
  const counts = [
    'seats',
    'slots',
    'slot_tokens_max',
    'block_tokens',
    'capacity_blocks',
    'max_step_tokens',
    'prefill_chunk_tokens',
    'waiting_calls_max',
    'waiting_calls_per_tenant_max',
    'shares_interval_us',
    'steps_per_decision',
    'preemptions_per_decision_max',
  ] as const
  for (const name of counts) {
    if (!Number.isSafeInteger(config[name]) || config[name] < 1)
      throw new RangeError(`${name} must be a positive integer`)
  }
  const { offline_prefill_tokens: offline_tokens = 1 } = config
  if (!Number.isSafeInteger(offline_tokens) || offline_tokens < 1)
    throw new RangeError('offline_prefill_tokens must be a positive integer')
  if (config.swap !== null) checkSwap(config.swap)
  if (config.slots > SLOTS_MAX) throw new RangeError(`slots must be at most ${SLOTS_MAX}`)
  if (config.seats > config.slots) throw new RangeError('seats must be at most slots: a call in a step holds a slot')
  if (config.max_step_tokens < config.seats) throw new RangeError('max_step_tokens must be at least seats')
  return config
}

function checkSwap({ costs, recompute_us_per_token, image_tokens_max }: SwapConfig): void {
  for (const [name, value] of Object.entries({ ...costs, recompute_us_per_token, image_tokens_max })) {
    if (!(Number.isFinite(value) && value >= 0)) throw new RangeError(`swap: ${name} must not be negative`)
  }
}
