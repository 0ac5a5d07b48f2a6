/**
 * How a call's tokens are to be drawn: OpenAI's fields, and those of vLLM's that other self-hosted servers know too. Every
 * field is bounded here; what a client leaves out is the engine's to choose.
 */
import { z } from 'zod'
import type { Sampling } from '../../engine/types.ts'

export const TOP_K_MAX = 1_000_000
export const REPETITION_PENALTY_MAX = 10
export const MIN_TOKENS_MAX = 16_777_216
export const STOP_TOKENS_MAX = 64
export const TOKEN_ID_MAX = 2 ** 31 - 1
/** As OpenAI has it. */
export const LOGIT_BIASES_MAX = 300

export const SAMPLING_FIELDS = {
  /** -1 and 0: all tokens. */
  top_k: z.number().int().min(-1).max(TOP_K_MAX).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  repetition_penalty: z.number().min(0.01).max(REPETITION_PENALTY_MAX).nullish(),
  min_tokens: z.number().int().min(0).max(MIN_TOKENS_MAX).nullish(),
  ignore_eos: z.boolean().nullish(),
  stop_token_ids: z.array(z.number().int().min(0).max(TOKEN_ID_MAX)).max(STOP_TOKENS_MAX).nullish(),
  logit_bias: z
    .record(z.string().regex(/^\d{1,10}$/, 'a token id'), z.number().min(-100).max(100))
    .refine((biases) => Object.keys(biases).length <= LOGIT_BIASES_MAX, `at most ${LOGIT_BIASES_MAX} tokens`)
    .nullish(),
}

type Asked = {
  [field in 'temperature' | 'top_p' | 'seed' | 'frequency_penalty' | 'presence_penalty']?: number | null | undefined
} & { [field in keyof typeof SAMPLING_FIELDS]?: z.infer<(typeof SAMPLING_FIELDS)[field]> }

/** What a client asked for. */
export type AskedSampling = Partial<Omit<Sampling, 'grammar' | 'logprobs' | 'bad_words'>>

/** What an engine does where a client asks for nothing. */
export type SamplingDefaults = Pick<Sampling, 'temperature' | 'top_p' | 'top_k' | 'min_p'>

/** OpenAI's own. */
export const PLAIN_SAMPLING: SamplingDefaults = { temperature: 1, top_p: 1 }

export function askedSampling(body: Asked): AskedSampling {
  const asked: AskedSampling = {}
  for (const field of ['temperature', 'top_p', 'seed', 'min_p', 'frequency_penalty', 'presence_penalty'] as const) {
    const value = body[field]
    if (value != null) asked[field] = value
  }
  const { top_k, repetition_penalty, logit_bias, ignore_eos, min_tokens, stop_token_ids } = body
  if (top_k != null) asked.top_k = Math.max(0, top_k)
  if (repetition_penalty != null && repetition_penalty !== 1) asked.repetition_penalty = repetition_penalty
  if (logit_bias != null && Object.keys(logit_bias).length > 0) {
    asked.logit_bias = new Map(Object.entries(logit_bias).map(([token, bias]) => [Number(token), bias]))
  }
  if (ignore_eos === true) asked.ignore_eos = true
  if (min_tokens != null && min_tokens > 0) asked.min_tokens = min_tokens
  if (stop_token_ids != null && stop_token_ids.length > 0) asked.stop_tokens = new Set(stop_token_ids)
  return asked
}
