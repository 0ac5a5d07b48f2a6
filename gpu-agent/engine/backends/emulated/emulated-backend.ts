/**
 * An engine without a model: steps last as long as a latency profile says and tokens are drawn by hash (emulated-tokens.ts). It is there
 * for load tests and for the simulator, and never passes for a language model (every response of its front says so).
 *
 * EmulatedModel is pure: the simulator uses it with `stepDurationUs` on a virtual clock. EmulatedBackend adds sleeping.
 * A token is a function of the call's content and its position, so a call that was preempted, evicted, resumed or replayed
 * on another engine says the same.
 */

import { invariant } from '../../invariant.ts'
import type { Backend, EngineCall, SlotOperation, StepOutcome, StepPlan, SwapCosts } from '../../types.ts'
import { emulatedContentHash, emulatedToken } from './emulated-tokens.ts'
import type { LatencyProfile } from './profiles/profile.ts'

/** Duration of a step by the profile. A call that computes one token and samples is a decode; all other tokens are prefill. */
export function stepDurationUs(profile: LatencyProfile, plan: StepPlan): number {
  let kv_tokens = 0
  let prefill_tokens = 0
  let prefill_pairs = 0
  let decodes = 0
  for (const { from, to, samples } of plan.work) {
    kv_tokens += to
    if (samples && to - from === 1) {
      decodes += 1
    } else {
      prefill_tokens += to - from
      prefill_pairs += ((to - from) * (from + to)) / 2
    }
  }
  let swap_us = 0
  for (const operation of plan.operations) swap_us += swapUs(profile, operation)
  const size_us = stepSizeUs(profile, plan.work.length, kv_tokens, prefill_tokens, decodes, prefill_pairs)
  return profile.moves_overlap ? Math.max(size_us, Math.round(swap_us)) : size_us + Math.round(swap_us)
}

/**
 * Duration of a step without operations, a whole number: so many calls, KV tokens read, prompt tokens computed, calls that decode, and
 * pairs of a prompt token and a token before it. A step that only decodes needs the first two.
 */
export function stepSizeUs(
  profile: LatencyProfile,
  calls: number,
  kv_tokens: number,
  prefill_tokens: number,
  decodes: number = prefill_tokens === 0 ? calls : 0,
  prefill_pairs = 0,
): number {
  const { shadow_tokens, per_prefill_pair_ps = 0 } = profile
  const computed = shadow_tokens === undefined ? prefill_tokens : Math.max(0, prefill_tokens + decodes - shadow_tokens)
  return (
    profile.base_us +
    Math.round(calls * profile.per_sequence_us) +
    Math.round((kv_tokens * profile.per_kv_token_ns) / 1000) +
    Math.round(computed * profile.per_prefill_token_us) +
    Math.round((prefill_pairs * per_prefill_pair_ps) / 1e6)
  )
}

/** The step's outcome with what its operations took. */
export function withMoves(outcome: StepOutcome, profile: LatencyProfile, plan: StepPlan): StepOutcome {
  if (plan.operations.length === 0) return outcome
  const moved_us = new Map<number, number>()
  for (const operation of plan.operations) {
    if (operation.op !== 'save' && operation.op !== 'restore') continue
    moved_us.set(operation.image, (moved_us.get(operation.image) ?? 0) + swapUs(profile, operation))
  }
  return { ...outcome, moved_us }
}

/** What is copied within the device, or forgotten, takes no time beside a step. */
function swapUs({ swap_costs }: LatencyProfile, operation: SlotOperation): number {
  if (operation.op === 'save') return swap_costs.base_us + operation.tokens * swap_costs.save_us_per_token
  if (operation.op === 'restore') return swap_costs.base_us + operation.tokens * swap_costs.restore_us_per_token
  return 0
}

export interface EmulatedOptions {
  /** Output tokens after which a call ends by itself; without it a call runs to its max_output_tokens. */
  output_tokens?: (call: EngineCall) => number
  /** What a call says, token by token; without it tokens are drawn by hash. The call ends after the last. */
  answer?: (call: EngineCall) => readonly number[]
}

interface Admitted {
  content_hash: number
  /** Null: drawn by hash. */
  answer: readonly number[] | null
  prompt_tokens: number
  /** Position whose token ends generation. */
  end_position: number
}

export class EmulatedModel {
  readonly #options: EmulatedOptions
  /** Calls admitted and not released; bounded by the scheduler's open calls. */
  readonly #calls = new Map<string, Admitted>()
  #evaluated_tokens = 0

  constructor(options: EmulatedOptions = {}) {
    this.#options = options
  }

  admit(admitted: EngineCall): void {
    invariant(!this.#calls.has(admitted.lease), 'a call is admitted once')
    const call = asBegun(admitted)
    const seed = call.sampling.temperature === 0 ? 0 : call.sampling.seed
    const answer = this.#options.answer?.(call) ?? null
    const output_tokens = answer?.length ?? this.#options.output_tokens?.(call) ?? Number.POSITIVE_INFINITY
    this.#calls.set(call.lease, {
      content_hash: answer === null ? emulatedContentHash(call.prompt, seed) : 0,
      answer,
      prompt_tokens: call.prompt.length,
      end_position: call.prompt.length + output_tokens,
    })
  }

  release(lease: string): void {
    this.#calls.delete(lease)
  }

  step(plan: StepPlan): StepOutcome {
    const sampled = new Map<string, { token: number; end: boolean }>()
    for (const { lease, from, to, samples } of plan.work) {
      this.#evaluated_tokens += to - from
      if (!samples) continue
      const call = this.#calls.get(lease)
      invariant(call !== undefined, 'a call is admitted before its first step')
      sampled.set(lease, { token: tokenAt(call, to), end: to >= call.end_position })
    }
    return { sampled }
  }

  /** What the call says at `position`; stretches ask for it instead of a step. */
  token(lease: string, position: number): number {
    const call = this.#calls.get(lease)
    invariant(call !== undefined, 'a call is admitted before its first step')
    return tokenAt(call, position)
  }

  evaluatedTokens(): number {
    return this.#evaluated_tokens
  }
}

/** The call as the engine saw it that began it: what it says depends on nothing else. */
function asBegun(call: EngineCall): EngineCall {
  const { prompt, max_output_tokens, resumed_tokens = 0 } = call
  if (resumed_tokens === 0) return call
  const begun = Array.from(prompt).slice(0, -resumed_tokens)
  return { ...call, prompt: begun, max_output_tokens: max_output_tokens + resumed_tokens, resumed_tokens: 0 }
}

/** The token that ends an answer has no text, so any will do. */
function tokenAt({ answer, content_hash, prompt_tokens }: Admitted, position: number): number {
  return answer === null ? emulatedToken(content_hash, position) : (answer[position - prompt_tokens] ?? 0)
}

/** How far behind its profile the backend may fall (timers overshoot by a millisecond) and still catch up. It is ahead by less than a sleep's error. */
export const SLEEP_DEBT_US_MAX = 50_000

export interface EmulatedBackendOptions extends EmulatedOptions {
  profile: LatencyProfile
  /** Microseconds of the driver's monotonic clock. */
  clock: () => number
  /** Resolves after about `duration_ms`. */
  sleep?: (duration_ms: number) => Promise<void>
}

/** The latency model in real time. */
export class EmulatedBackend implements Backend {
  readonly profile: LatencyProfile
  readonly slots: number
  readonly slot_tokens_max: number
  readonly copies_prefixes = true
  readonly #model: EmulatedModel
  readonly #clock: () => number
  readonly #sleep: (duration_ms: number) => Promise<void>
  #debt_us = 0

  constructor({ profile, clock, sleep = sleepMs, ...options }: EmulatedBackendOptions) {
    this.profile = profile
    this.slots = profile.slots
    this.slot_tokens_max = profile.slot_tokens_max
    this.#model = new EmulatedModel(options)
    this.#clock = clock
    this.#sleep = sleep
  }

  swapCosts(): SwapCosts {
    return this.profile.swap_costs
  }

  admit(call: EngineCall): void {
    this.#model.admit(call)
  }

  /**
   * Sleeps for the step's duration, less what earlier sleeps overshot, and more by what they lacked (timers count whole milliseconds and
   * drop the rest): the mean is the profile's, single steps jitter.
   */
  async execute(plan: StepPlan): Promise<StepOutcome> {
    const started_us = this.#clock()
    const outcome = withMoves(this.#model.step(plan), this.profile, plan)
    const due_us = started_us + stepDurationUs(this.profile, plan) - this.#debt_us
    const remaining_us = due_us - this.#clock()
    if (remaining_us > 0) await this.#sleep(remaining_us / 1000)
    this.#debt_us = Math.min(SLEEP_DEBT_US_MAX, this.#clock() - due_us)
    return outcome
  }

  release(lease: string): void {
    this.#model.release(lease)
  }

  evaluatedTokens(): number {
    return this.#model.evaluatedTokens()
  }

  dispose(): Promise<void> {
    return Promise.resolve()
  }
}

function sleepMs(duration_ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, duration_ms)
  })
}
