/**
 * The engine's vocabulary. An engine is a scheduler (pure: decides what a step computes, and accounts for it), a backend
 * (computes it) and a driver (supplies time). The scheduler never reads a clock: every method that needs the time takes it.
 * All times are integer microseconds of one monotonic clock.
 *
 * There is no prefill phase and no decode phase (vLLM V1's idea). A call has tokens (prompt, then what it generated), and a
 * number of them whose KV is computed. A step advances that number. When it has caught up, the step samples one more token.
 */
import type { CallForecast } from '../../src/core/call/forecast.ts'
import type { Objective } from '../../src/protocol/objective.ts'

/** What the order needs to know of a call. Everything about programs and tenants comes from the ticket. */
export interface OrderedCall {
  lease: string
  tenant: string
  tenant_weight: number
  /** It belongs to a batch, and ranks below every call of any tenant that does not. */
  offline?: boolean
  /** What a learned order makes small for its program. Absent: as the policy is set. */
  objective?: Objective
  /** Unique over tenants. */
  program: string
  /** What its program weighs among those of its tenant: twice as much counts as half the rank. Absent: 1. */
  program_weight?: number
  thread: string
  /** Groups similar programs. Statistics of programs are kept by class. */
  class: string
  /**
   * The program's place among those of its tenant: when its run opened (ms) and a 32-bit tie, compared as a pair. Null: the
   * call has no program, or the control plane could not ask about it.
   */
  sequence: readonly [number, number] | null
  /** Service of the program's settled leases, in the ordering reading, when the ticket was made. */
  settled_service_us: number
  /** Charges that agents last reported for the program's open leases on other engines. */
  open_elsewhere_us: number
  critical_path_us: number
  /** Summed wait of the program before this call. */
  program_wait_us: number
  /** Output tokens of the program's settled leases. */
  program_output_tokens: number
  /** What is expected of the call and of the tool after it. Absent: nothing is known. */
  forecast?: CallForecast
}

/** A call as the scheduler sees it. */
export interface EngineCall extends OrderedCall {
  /** Prefix-cache isolation: KV is reused only between calls of equal salt. */
  cache_salt: string
  /** Token ids. Use a typed array if many calls are open at once. */
  prompt: ArrayLike<number>
  /**
   * How many tokens at the end of `prompt` are output of this same call, which another engine began: penalties, a grammar and
   * what a model says count them as output. Absent: 0.
   */
  resumed_tokens?: number
  /** Of what is still to be generated. */
  max_output_tokens: number
  sampling: Sampling
  /** Its answer is the embedding of the prompt: no token is sampled, and `max_output_tokens` is 1. */
  embeds?: true
  /** It takes the place of a call of the same lease that has just ended, so it is taken however long the queue is. */
  continues?: true
  /** The call ends as failed (`deadline_exceeded`) after being open for this long. Absent: never. */
  deadline_us?: number
}

/** temperature 0 is greedy. `seed` makes sampling reproducible: the backend uses seed + position, never an advancing RNG. */
export interface Sampling {
  temperature: number
  top_p: number
  seed: number
  /** Only the likeliest so many tokens. Absent or 0: all. */
  top_k?: number
  /** Only tokens with at least this share of the likeliest one's probability. Absent or 0: all. */
  min_p?: number
  /** Taken off a token's logit for each time that the call has generated it. */
  frequency_penalty?: number
  /** Taken off the logit of every token that the call has generated. */
  presence_penalty?: number
  /** Divides positive logits, and multiplies negative ones, of every token in the prompt or the output. Absent or 1: none. */
  repetition_penalty?: number
  /** Token → what is added to its logit. */
  logit_bias?: ReadonlyMap<number, number>
  /** Tokens that end generation, and `stop_tokens`, are not sampled before so many of the output. */
  min_tokens?: number
  /** Tokens that end generation are never sampled, unless they are `stop_tokens`. */
  ignore_eos?: boolean
  /** At one of these the call needs no more: its listener finishes it. */
  stop_tokens?: ReadonlySet<number>
  /** Token sequences of which none may stand in the output. */
  bad_words?: readonly (readonly number[])[]
  /** What the output must conform to, in the backend's own form. The scheduler does not read it. Taken by `Backend.admit`. */
  grammar?: unknown
  /** How many alternatives to return for each token, with log probabilities. Absent: none, and not the token's own either. */
  logprobs?: number
  /** The same of each token of the prompt after the first. The call's prompt is then computed whole: give it a salt of its own. */
  prompt_logprobs?: number
}

/** Natural logarithms of the model's probabilities at one position, before temperature, top_p or a grammar. */
export interface TokenLogprobs {
  /** Of the token that was sampled. */
  logprob: number
  /** The likeliest tokens, best first: as many as were asked for. */
  top: readonly { token: number; logprob: number }[]
}

/** `end`: the token ends generation and is not part of the text. `logprobs`: set if the call asked for them. */
export interface SampledToken {
  token: number
  end: boolean
  logprobs?: TokenLogprobs | undefined
  /** With a call's first token, if it asked: one for each token of the prompt after the first. */
  prompt_logprobs?: readonly TokenLogprobs[] | undefined
  /** Of a call that embeds: its vector, as the model gives it. The token ends the call. */
  embedding?: Float32Array | undefined
}

/**
 * What one call does in one step: it computes KV of tokens [from, to) in `slot`, and samples if `to` reaches its last
 * token.
 */
export interface StepWork {
  lease: string
  slot: number
  from: number
  to: number
  samples: boolean
}

/**
 * A change of a slot's contents that must happen before the step's work. Operations happen in the order of the plan.
 *
 * An image is the KV of one call, saved outside the slots. The scheduler assigns its id and never uses an id twice.
 */
export type SlotOperation =
  /** Keep the first `tokens` tokens of the slot's KV and drop the rest; 0 clears it. */
  | { op: 'truncate'; slot: number; tokens: number }
  /** Save the slot's KV, which has `tokens` tokens, as `image`. The slot is empty afterwards. */
  | { op: 'save'; slot: number; image: number; tokens: number }
  /**
   * Put the `tokens` tokens of `image` into the empty `slot`, which may differ from the one they came from. The image
   * stays.
   */
  | { op: 'restore'; slot: number; image: number; tokens: number }
  /** The image is not needed again. */
  | { op: 'drop_image'; image: number }
  /** Copy the KV of the first `tokens` tokens of slot `from` into the empty `slot`. `from` stays as it is. */
  | { op: 'copy'; from: number; slot: number; tokens: number }

/** Cost of moving KV out of a slot and back: `base_us` for each operation, plus a cost for each token. */
export interface SwapCosts {
  save_us_per_token: number
  restore_us_per_token: number
  base_us: number
}

export interface StepPlan {
  step: number
  operations: readonly SlotOperation[]
  /** Ascending by slot (llama.cpp splits a batch at every break in ascending ids). Empty: nothing to do. */
  work: readonly StepWork[]
}

export interface StepOutcome {
  /** By lease: one for each call that samples. */
  sampled: ReadonlyMap<string, SampledToken>
  /** Calls that could not go on, and why (an OutputIncomplete, or what the backend threw). They end as failed, and the others go on. */
  failed?: ReadonlyMap<string, unknown>
  /** By image: for how long the step waited for its `save` or `restore`, microseconds. Left out: nothing was moved. */
  moved_us?: ReadonlyMap<number, number>
}

/**
 * Computes steps, one at a time. The failure of a single call is in the step's `failed`. A rejected step means that the
 * backend's state is lost and the engine needs a new epoch.
 */
export interface Backend {
  readonly slots: number
  /** Tokens that one slot can hold. */
  readonly slot_tokens_max: number
  /** Executes `copy`. Slots share nothing, so without it a prefix that two open calls need is computed twice. */
  readonly copies_prefixes: boolean
  /** Measured or known before the first step, and constant. Null: `save` and `restore` are not executed. */
  swapCosts(): SwapCosts | null
  /** Called once per call before its first step, with what `execute` needs beyond the plan. */
  admit(call: EngineCall): void
  execute(plan: StepPlan): Promise<StepOutcome>
  /** The call will not appear in a plan again (its slot may still be reused for its prefix). */
  release(lease: string): void
  /** Tokens whose KV the backend itself has computed since start. It verifies `cached_tokens`. */
  evaluatedTokens(): number
  dispose(): Promise<void>
}

/** One row of the engine's ledger: what a step charged a call. */
export interface LedgerRow {
  epoch: string
  step: number
  lease: string
  /** Duration of the step. */
  wall_us: number
  /** The call's own share of GPU work in it (src/core/call/service.ts). */
  modelled_us: number
  computed_tokens: number
  sampled_tokens: number
}

export type EndReason = 'stop' | 'length' | 'cancelled' | 'failed'

/**
 * Why a call ended as failed. `engine_lost`: its backend's state is gone, and another engine may serve it.
 * `output_incomplete`: the model cannot write what its grammar asks for.
 */
export type FailureCode = 'deadline_exceeded' | 'engine_lost' | 'output_incomplete'

/** What the scheduler measured for one call, given once when it leaves. */
export type { Measurement, Outlook } from '../../src/protocol/measurement.ts'
