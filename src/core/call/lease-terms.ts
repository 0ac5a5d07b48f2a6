/**
 * What a lease was granted for: when, at which speed factor, how many tokens its call can have at most, and for which API
 * key. The lease's proof carries the terms through the agent and back (relay/lease-proof.ts), so the agent cannot change them.
 *
 * Only the agent measures. But no call can use more tokens than its body and the model's context allow, and none can take
 * more time than has passed since its lease. A record that says otherwise is lowered to what is possible, and the operator
 * is told (`flags`). A record without terms was granted by an earlier version. It is lowered to what any call can have.
 */
import type { Measurement } from '../../protocol/index.ts'
import type { ExpectedReason } from '../program/program-state.ts'
import { modelledServiceUs } from './service.ts'

export interface LeaseTerms {
  /** Wall clock of the control plane. */
  granted_at_ms: number
  /** Of the engine, as the pool knew it. */
  speed_factor: number
  /** Over all sequences of the call. */
  prompt_tokens_max: number
  output_tokens_max: number
  /** Prompts × choices: they run side by side, and each is measured. */
  sequences_max: number
  /** Id of the API key that the call came with: `key-` and 16 hexadecimal digits. Null: not known. */
  key: string | null
  /** Why the engine was chosen. Null: for another reason, or by an earlier version. */
  reason: ExpectedReason | null
}

export type TokenBounds = Pick<LeaseTerms, 'prompt_tokens_max' | 'output_tokens_max' | 'sequences_max'>

/** The longest that any call can take. */
export const DURATION_US_MAX = 24 * 60 * 60 * 1_000_000
/** The most tokens, and the most preemptions, that any call can have. */
export const COUNT_MAX = 2 ** 31 - 1
export const SEQUENCES_MAX = 2 ** 16 - 1
/** Clocks of two machines of the control plane may differ by this much. */
export const CLOCK_SLACK_MS = 5_000
/** Output of each choice of a conversation whose body sets no limit. No engine writes more then. */
export const OUTPUT_TOKENS_DEFAULT = 1024
/** Some engines count the end of the answer as a token. */
const END_TOKENS = 1

/** `body` in OpenAI's form. A token has at least one byte of text, so a long text may exceed a context that is out of date. */
export function tokenBounds(
  body: Readonly<Record<string, unknown>>,
  body_chars: number,
  context_tokens_max: number,
): TokenBounds {
  const sequences_max = sequencesOf(body)
  const limit = outputTokensAsked(body) ?? 0
  const output_tokens = (limit === 0 ? context_tokens_max : limit) + END_TOKENS
  return {
    prompt_tokens_max: Math.min(COUNT_MAX, sequences_max * Math.max(context_tokens_max, 3 * body_chars)),
    output_tokens_max: Math.min(COUNT_MAX, sequences_max * output_tokens),
    sequences_max,
  }
}

/** Prompts × choices. */
export function sequencesOf(body: Readonly<Record<string, unknown>>): number {
  const choices = Math.max(1, countOf(body.n), countOf(body.best_of))
  return Math.min(SEQUENCES_MAX, promptsOf(body.prompt ?? body.input) * choices)
}

/** Of each choice. Null: the body sets no limit. */
export function outputTokensAsked(body: Readonly<Record<string, unknown>>): number | null {
  const limit = Math.max(countOf(body.max_tokens), countOf(body.max_completion_tokens))
  return limit === 0 ? null : limit
}

/** A text, or one prompt of token ids, is one prompt. */
function promptsOf(prompt: unknown): number {
  if (!Array.isArray(prompt) || prompt.length === 0 || typeof prompt[0] === 'number') return 1
  return prompt.length
}

function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.ceil(value) : 0
}

/** The record as far as it is possible, and the names of the fields that were lowered. */
export function boundRecord<Record extends Measurement>(
  record: Record,
  terms: LeaseTerms | null,
  now_ms: number,
): { record: Record; flags: string[] } {
  const elapsed_us = elapsedUs(terms, now_ms)
  const sequences_us = Math.min(DURATION_US_MAX, elapsed_us * (terms?.sequences_max ?? 1))
  const prompt_tokens_max = terms?.prompt_tokens_max ?? COUNT_MAX
  const output_tokens_max = terms?.output_tokens_max ?? COUNT_MAX
  const work = { uncached_prompt_tokens: prompt_tokens_max, cached_prompt_tokens: 0, output_tokens: output_tokens_max }
  const prompt_tokens = Math.min(record.prompt_tokens, prompt_tokens_max)
  const output_tokens = Math.min(record.output_tokens, output_tokens_max)
  const preemptions = Math.min(record.preemptions, COUNT_MAX)
  // The embedded engine may take a call's KV and give it back between two tokens, which is no preemption.
  const losses_max = preemptions + output_tokens
  const moved_tokens_max = Math.min(COUNT_MAX, losses_max * (prompt_tokens_max + output_tokens_max))
  const wait_us = Math.min(record.wait_us, sequences_us)
  const { queue_wait_us } = record
  const lowered: Measurement = {
    prompt_tokens,
    cached_tokens: Math.min(record.cached_tokens, prompt_tokens),
    output_tokens,
    service_wall_us: Math.min(record.service_wall_us, sequences_us),
    service_modelled_us: Math.min(record.service_modelled_us, DURATION_US_MAX, modelledServiceUs(work)),
    wait_us,
    ...(queue_wait_us === undefined ? {} : { queue_wait_us: Math.min(queue_wait_us, wait_us) }),
    preemptions,
    resumed_tokens: Math.min(record.resumed_tokens, output_tokens_max),
    swapped_out_tokens: Math.min(record.swapped_out_tokens, moved_tokens_max),
    swapped_in_tokens: Math.min(record.swapped_in_tokens, moved_tokens_max),
    recomputed_tokens: Math.min(record.recomputed_tokens, moved_tokens_max),
    swap_us: Math.min(record.swap_us, sequences_us),
    first_token_us: record.first_token_us === null ? null : Math.min(record.first_token_us, elapsed_us),
    duration_us: Math.min(record.duration_us, elapsed_us),
  }
  const flags = (Object.keys(lowered) as (keyof Measurement)[]).filter((field) => lowered[field] !== record[field])
  return flags.length === 0 ? { record, flags } : { record: { ...record, ...lowered }, flags }
}

/** After a clock was set back, nothing is known of the time that has passed. */
function elapsedUs(terms: LeaseTerms | null, now_ms: number): number {
  const elapsed_ms = terms === null ? -1 : now_ms - terms.granted_at_ms
  if (elapsed_ms < 0) return DURATION_US_MAX
  return Math.min(DURATION_US_MAX, (elapsed_ms + CLOCK_SLACK_MS) * 1000)
}
