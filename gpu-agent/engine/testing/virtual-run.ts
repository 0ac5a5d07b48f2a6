/**
 * Runs a scheduler on a virtual clock over the exact model, checking after every step what must hold in every step. The
 * workload is a list of arrivals and cancellations in time; the result is everything that a client or an operator sees.
 */
import { stepDurationUs, withMoves } from '../backends/emulated/emulated-backend.ts'
import { type LatencyProfile, TINY } from '../backends/emulated/profiles/index.ts'
import { invariant } from '../invariant.ts'
import type { ProgramOrder } from '../order/program-order.ts'
import type { ScheduledCall } from '../scheduled-call.ts'
import { type EndedCall, Scheduler, type SubmitVerdict } from '../scheduler.ts'
import type { SchedulerConfig } from '../scheduler-config.ts'
import type { EngineCall, LedgerRow, StepPlan } from '../types.ts'
import { ExactModel } from './exact-model.ts'

export type VirtualEvent =
  | { at_us: number; do: 'submit'; call: EngineCall }
  | { at_us: number; do: 'cancel' | 'finish'; lease: string }

export interface VirtualRunOptions {
  profile?: LatencyProfile
  output_tokens?: (call: EngineCall) => number
  /** The order to schedule by; a recorder, say. */
  order?: ProgramOrder<ScheduledCall>
  /** What happens because a call ended: an agent's next call. */
  next_events?: (ended: EndedCall, at_us: number) => VirtualEvent[]
}

export interface VirtualRun {
  scheduler: Scheduler
  verdicts: Map<string, SubmitVerdict>
  ended: Map<string, EndedCall>
  output: Map<string, number[]>
  ledger: LedgerRow[]
  plans: StepPlan[]
  /** When the plan of the same index was made. */
  planned_us: number[]
  /** What happened, at the time at which the scheduler was told: an open workload that repeats the run. */
  events: VirtualEvent[]
  /** Calls that were open when the plan of the same index was made. */
  open_calls: number[]
  reused: ReadonlyMap<string, number>
  ended_us: number
}

/** More steps than this mean that calls do not end. */
const STEPS_MAX = 200_000

export function virtualRun(
  config: SchedulerConfig,
  events: readonly VirtualEvent[],
  options: VirtualRunOptions = {},
): VirtualRun {
  const { profile = TINY, next_events, order, ...emulated } = options
  const scheduler = new Scheduler(config, order)
  const model = new ExactModel(config.slots, config.slot_tokens_max, emulated)
  const admitted = new Set<string>()
  const calls = new Map<string, EngineCall>()
  const run: VirtualRun = {
    scheduler,
    verdicts: new Map(),
    ended: new Map(),
    output: new Map(),
    ledger: [],
    plans: [],
    planned_us: [],
    events: [],
    open_calls: [],
    reused: model.reused,
    ended_us: 0,
  }
  const queue = [...events].sort((a, b) => a.at_us - b.at_us)
  let now_us = 0
  let next = 0

  const end = (ended: EndedCall | null, at_us: number) => {
    if (ended === null) return
    invariant(!run.ended.has(ended.lease), 'a call ends once')
    run.ended.set(ended.lease, ended)
    if (admitted.has(ended.lease)) model.release(ended.lease)
    for (const event of next_events?.(ended, at_us) ?? []) {
      let index = next
      while ((queue[index]?.at_us ?? Number.POSITIVE_INFINITY) <= event.at_us) index++
      queue.splice(index, 0, event)
    }
  }
  const happen = (until_us: number) => {
    for (let event = queue[next]; event !== undefined && event.at_us <= until_us; event = queue[next]) {
      next += 1
      const at_us = Math.max(event.at_us, now_us)
      run.events.push({ ...event, at_us })
      if (event.do === 'submit') {
        const verdict = scheduler.submit(event.call, at_us)
        run.verdicts.set(event.call.lease, verdict)
        if (verdict.ok) calls.set(event.call.lease, event.call)
      } else end(scheduler[event.do](event.lease, at_us), at_us)
      now_us = at_us
    }
  }

  for (let steps = 0; ; steps++) {
    invariant(steps < STEPS_MAX, 'every call ends')
    happen(now_us)
    const plan = scheduler.plan(now_us)
    if (plan.work.length === 0) {
      const { waiting, running } = scheduler.status()
      const resumes_us = waiting + running > 0 ? scheduler.resumes_us : Number.POSITIVE_INFINITY
      const next_us = Math.min(queue[next]?.at_us ?? Number.POSITIVE_INFINITY, Math.max(now_us + 1, resumes_us))
      if (next_us === Number.POSITIVE_INFINITY) break
      now_us = next_us
      continue
    }
    checkPlan(plan, config)
    const { waiting, running } = scheduler.status()
    run.open_calls.push(waiting + running)
    for (const { lease } of plan.work) {
      if (admitted.has(lease)) continue
      admitted.add(lease)
      model.admit(calls.get(lease) as EngineCall)
    }
    const outcome = withMoves(model.step(plan), profile, plan)
    invariant(model.image_tokens <= (config.swap?.image_tokens_max ?? 0), 'images stay within their capacity')
    const started_us = now_us
    const ended_us = started_us + stepDurationUs(profile, plan)
    // What happens in the microsecond in which a step ends happens after it, whether or not it is because of it.
    happen(ended_us - 1)
    now_us = ended_us
    const result = scheduler.commit(plan, outcome, started_us, ended_us)
    run.plans.push(plan)
    run.planned_us.push(started_us)
    run.ledger.push(...result.ledger)
    for (const { lease, token } of result.tokens) {
      const output = run.output.get(lease)
      if (output === undefined) run.output.set(lease, [token])
      else output.push(token)
    }
    for (const ended of result.ended) end(ended, ended_us)
    const { kv_used_tokens } = scheduler.status()
    invariant(kv_used_tokens <= config.capacity_blocks * config.block_tokens, 'KV stays within capacity')
  }
  run.ended_us = now_us
  return run
}

function checkPlan(plan: StepPlan, config: SchedulerConfig): void {
  invariant(plan.work.length <= config.seats, 'a step has at most `seats` calls')
  let step_tokens = 0
  for (const { from, to, slot } of plan.work) {
    invariant(slot < config.slots, 'a step uses slots that exist')
    invariant(to - from <= config.prefill_chunk_tokens, 'no call exceeds its chunk')
    step_tokens += to - from
  }
  invariant(step_tokens <= config.max_step_tokens, 'a step stays within its tokens')
}
