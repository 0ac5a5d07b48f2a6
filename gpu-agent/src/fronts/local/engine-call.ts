/** A ticket's claims and a client's translated body → the call that the engine's scheduler sees, or why there is none. */
import { createHash } from 'node:crypto'
import type { StreamError, TicketClaims } from '../../../../src/protocol/index.ts'
import { tokenSeed } from '../../../engine/backends/llama/sampling-seed.ts'
import type { EngineCall, OrderedCall } from '../../../engine/types.ts'
import { badRequest } from '../../openai/errors.ts'
import type { SamplingDefaults } from '../../openai/sampling-fields.ts'
import {
  CHAT_OUTPUT_TOKENS_DEFAULT,
  COMPLETION_OUTPUT_TOKENS_DEFAULT,
  type Prompt,
  type Translation,
} from '../../openai/translate.ts'
import type { ProgramKey, TextDialect } from '../engine-front.ts'
import type { Encoding, Recall, TextModel } from './text-model.ts'

/** A call that has been open on an engine for half an hour has outlived its client: it ends as `deadline_exceeded`. */
export const CALL_OPEN_US_MAX = 30 * 60 * 1_000_000

/** The engine's call of one choice: of its own prompt, or of the one that all choices answer. */
export function choiceOf(calls: readonly EngineCall[], index: number): EngineCall {
  const own = calls.length > 1 ? calls[index] : calls[0]
  if (own === undefined) throw new RangeError(`there is no call of choice ${index}`)
  if (calls.length > 1 || index === 0) return own
  // The first choice draws what a call with one choice draws.
  return { ...own, sampling: { ...own.sampling, seed: tokenSeed(own.sampling.seed, -index) } }
}

/** What the engine knows a run of a program by. */
export function engineProgram({ tenant, program, run }: ProgramKey): string {
  return JSON.stringify([tenant, program, run])
}

/** What a ticket says of its call to the engine's order. */
export function orderedCall(claims: TicketClaims): OrderedCall {
  return {
    lease: claims.lease,
    tenant: claims.tenant,
    tenant_weight: claims.tenant_weight,
    ...(claims.program_weight === undefined ? {} : { program_weight: claims.program_weight }),
    ...(claims.offline ? { offline: true } : {}),
    objective: claims.objective,
    program: engineProgram(claims),
    thread: claims.thread,
    class: claims.class,
    sequence: claims.sequence,
    settled_service_us: claims.settled_service_us,
    open_elsewhere_us: claims.open_elsewhere_us,
    critical_path_us: claims.critical_path_us,
    program_wait_us: claims.program_wait_us,
    program_output_tokens: claims.program_output_tokens,
  }
}

/** The call that embeds one input; `continues`: after another of its lease. */
export function embeddingCall(
  claims: TicketClaims,
  prompt: EngineCall['prompt'],
  deadline_us: number,
  continues: boolean,
): EngineCall {
  return {
    ...orderedCall(claims),
    cache_salt: claims.cache_salt,
    prompt,
    max_output_tokens: 1,
    sampling: { temperature: 0, top_p: 1, seed: 0 },
    embeds: true,
    ...(continues ? { continues } : {}),
    deadline_us,
  }
}

export type EngineCallResult = { ok: true; call: EngineCall } | { ok: false; error: StreamError }

/** `index`: of which prompt. */
export function engineCall(
  claims: TicketClaims,
  dialect: TextDialect,
  translation: Translation,
  index: number,
  text: TextModel,
  recall: Recall,
  defaults: SamplingDefaults,
): EngineCallResult {
  const { prompts, bad_words } = translation
  const param = paramOf(dialect, prompts.length, index)
  const { grammar } = translation.output
  if (grammar !== null && !text.readsGrammar(grammar)) {
    const asked = translation.output.format.kind === 'json' ? 'response_format' : 'tools'
    return invalid(asked, 'its schema refers to itself without an end, or nests lists that are too long')
  }
  const encoding = encode(prompts[index] ?? prompts[0], text, recall)
  if (!encoding.ok) return { ok: false, error: encodingError(encoding, param, dialect, translation, text) }
  const prompt = encoding.tokens
  if (prompt.length === 0) return invalid(param, 'it has no tokens')
  const foreign = prompt.findIndex((token) => token >= text.vocabulary_tokens)
  if (foreign !== -1) return invalid(`${param}[${foreign}]`, `there is no token ${prompt[foreign]}`)
  const fault = samplingFault(translation, text)
  if (fault !== null) return fault
  const left = text.context_tokens_max - prompt.length
  const asked = translation.max_output_tokens ?? Math.min(left, outputDefault(dialect))
  // Where only the prompt is asked for, a token is generated with it and not shown.
  const max_output_tokens = asked === 0 && translation.echo ? 1 : asked
  if (max_output_tokens < 1 || max_output_tokens > left) {
    const output = Math.max(1, max_output_tokens)
    return { ok: false, error: overflow(param, text.context_tokens_max, `${prompt.length}`, prompt.length, output) }
  }
  const probed = translation.echo ? translation.logprobs : null
  return {
    ok: true,
    call: {
      ...orderedCall(claims),
      // What is in KV already has no logits, so a prompt whose probabilities are asked for shares none.
      cache_salt: probed === null ? claims.cache_salt : `${claims.cache_salt}:${claims.lease}`,
      prompt,
      max_output_tokens,
      deadline_us: CALL_OPEN_US_MAX,
      sampling: {
        ...defaults,
        seed: seedOf(claims.call),
        ...translation.sampling,
        ...(bad_words.length === 0 ? {} : { bad_words: bad_words.flatMap((word) => text.wordTokens(word)) }),
        ...(grammar === null ? {} : { grammar }),
        ...(translation.logprobs === null ? {} : { logprobs: translation.logprobs }),
        ...(probed === null ? {} : { prompt_logprobs: probed }),
      },
    },
  }
}

function samplingFault({ sampling, output }: Translation, text: TextModel): EngineCallResult | null {
  const { logit_bias = new Map<number, number>(), stop_tokens = [], min_tokens = 0, ignore_eos = false } = sampling
  for (const token of logit_bias.keys()) {
    if (token >= text.vocabulary_tokens) return invalid(`logit_bias.${token}`, `there is no token ${token}`)
  }
  const foreign = [...stop_tokens].find((token) => token >= text.vocabulary_tokens)
  if (foreign !== undefined) return invalid('stop_token_ids', `there is no token ${foreign}`)
  if ((min_tokens > 0 || ignore_eos) && output.grammar !== null) {
    return invalid(
      ignore_eos ? 'ignore_eos' : 'min_tokens',
      'an answer that is held to a format ends where the format does',
    )
  }
  return null
}

function paramOf(dialect: TextDialect, prompts: number, index: number): string {
  if (dialect === 'chat') return 'messages'
  return prompts === 1 ? 'prompt' : `prompt[${index}]`
}

function encode(prompt: Prompt, text: TextModel, recall: Recall): Encoding {
  switch (prompt.kind) {
    case 'chat':
      return text.encodeChat(prompt.messages, recall, prompt.options)
    case 'text':
      return text.encodeText(prompt.text)
    case 'tokens':
      return { ok: true, tokens: [...prompt.tokens] }
  }
}

function outputDefault(dialect: TextDialect): number {
  return dialect === 'chat' ? CHAT_OUTPUT_TOKENS_DEFAULT : COMPLETION_OUTPUT_TOKENS_DEFAULT
}

/** A call that is served again on another engine draws the same tokens. */
function seedOf(call: string): number {
  return createHash('sha256').update(call).digest().readUInt32LE(0)
}

function encodingError(
  encoding: Extract<Encoding, { ok: false }>,
  param: string,
  dialect: TextDialect,
  translation: Translation,
  text: TextModel,
): StreamError {
  if (encoding.reason === 'unrenderable') {
    return badRequest('invalid_value', `The model's chat template refuses these messages: ${encoding.message}`, param)
  }
  const output = translation.max_output_tokens ?? outputDefault(dialect)
  const { tokens_min } = encoding
  return overflow(param, text.context_tokens_max, `at least ${tokens_min}`, tokens_min, output)
}

function overflow(param: string, context: number, prompt: string, prompt_min: number, output: number): StreamError {
  const message =
    `This model's maximum context length is ${context} tokens. However, you requested ${prompt_min + output} tokens ` +
    `(${prompt} in the ${param}, ${output} in the completion). Please reduce the length of the ${param} or completion.`
  return badRequest('context_length_exceeded', message, param)
}

function invalid(param: string, reason: string): EngineCallResult {
  return { ok: false, error: badRequest('invalid_value', `Invalid value for '${param}': ${reason}.`, param) }
}
