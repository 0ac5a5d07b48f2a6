/**
 * Which calls an engine takes: those that fit its context, while the queues of the engine and of the tenant have room. An
 * offline call finds half of the engine's room, so that offline work never keeps an online call out.
 */
import type { DrainRate } from './order/drain-rate.ts'
import type { TenantQueue } from './order/tenant-queue.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import type { EngineCall, OrderedCall } from './types.ts'

export type SubmitVerdict =
  | { ok: true }
  | { ok: false; code: 'context_length_exceeded'; message: string }
  /** `retry_after_s`: when there is likely to be room, by the rate at which calls have ended. */
  | { ok: false; code: 'engine_full'; message: string; retry_after_s: number }

/** What the call would wait behind: `waiting` calls of all tenants, and its tenant's own `queue` (null: none). */
export interface Queues {
  waiting: number
  drain: DrainRate
  queue: (Pick<TenantQueue, 'drain'> & { unseated: { size: number } }) | null
}

type QueueBounds = Pick<SchedulerConfig, 'waiting_calls_max' | 'waiting_calls_per_tenant_max'>

/** Null: the call is taken. */
export function refusalOf(
  call: EngineCall,
  config: SchedulerConfig,
  queues: Queues,
  now_us: number,
): SubmitVerdict | null {
  const { slot_tokens_max, capacity_blocks, block_tokens } = config
  const tokens = call.prompt.length + call.max_output_tokens
  const tokens_max = Math.min(slot_tokens_max, capacity_blocks * block_tokens)
  if (tokens > tokens_max) {
    const message = `${call.prompt.length} prompt tokens and ${call.max_output_tokens} of output exceed the context of ${tokens_max} tokens`
    return { ok: false, code: 'context_length_exceeded', message }
  }
  return call.continues ? null : fullQueue(call, config, queues, now_us)
}

/** Null: the queue has room for another call. */
export function fullQueue(
  { offline = false }: Pick<OrderedCall, 'offline'>,
  bounds: QueueBounds,
  { waiting, drain, queue }: Queues,
  now_us: number,
): Extract<SubmitVerdict, { code: 'engine_full' }> | null {
  const { waiting_calls_per_tenant_max } = bounds
  const waiting_calls_max = offline ? Math.ceil(bounds.waiting_calls_max / 2) : bounds.waiting_calls_max
  if (waiting >= waiting_calls_max) {
    const message = `${waiting_calls_max} calls wait on this engine`
    return { ok: false, code: 'engine_full', message, retry_after_s: drain.retryAfterS(waiting, now_us) }
  }
  if (queue !== null && queue.unseated.size >= waiting_calls_per_tenant_max) {
    const message = `${waiting_calls_per_tenant_max} calls of this tenant wait on this engine`
    const retry_after_s = queue.drain.retryAfterS(queue.unseated.size, now_us)
    return { ok: false, code: 'engine_full', message, retry_after_s }
  }
  return null
}
