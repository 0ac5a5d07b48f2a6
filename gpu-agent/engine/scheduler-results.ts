/** What a scheduler returns to its driver. */
import type { EndReason, FailureCode, LedgerRow, Measurement, TokenLogprobs } from './types.ts'

export interface EndedCall {
  lease: string
  reason: EndReason
  /** Why it failed. Set if and only if `reason` is failed. */
  failure: FailureCode | null
  measurement: Measurement
}

export interface CommitResult {
  ended: EndedCall[]
  /** Of prompts, for calls that asked. Their tokens come after. */
  prompts: { lease: string; logprobs: readonly TokenLogprobs[] }[]
  /** Of calls that embed. They end with the step. */
  embeddings: { lease: string; embedding: Float32Array }[]
  tokens: { lease: string; token: number; logprobs: TokenLogprobs | undefined }[]
  ledger: LedgerRow[]
}

export interface SchedulerStatus {
  /** Open calls that do not advance: not begun, or preempted. */
  waiting: number
  running: number
  /** Prompt tokens still to be computed for open calls. */
  queued_tokens: number
  /** KV reserved by open calls, in whole blocks; prefixes that are only kept do not count. */
  kv_used_tokens: number
  /** KV of open calls that is swapped out. */
  image_tokens: number
}
