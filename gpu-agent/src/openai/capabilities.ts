/**
 * What an engine can do beyond plain text, and which fields of a body ask for it. A field whose value changes nothing
 * (`n: 1`, `logprobs: false`, empty `tools`) passes; one that asks for what the engine lacks is named and refused, never
 * ignored.
 */
import type { StreamError } from '../../../src/protocol/index.ts'
import { badRequest } from './errors.ts'

export type Capability =
  | 'tools'
  | 'structured_output'
  | 'constraints'
  | 'logprobs'
  | 'choices'
  | 'penalties'
  | 'logit_bias'
  | 'media'
  | 'web_search'
  | 'echo'
  | 'suffix'
  | 'functions'
  | 'best_of'
  /** Beyond OpenAI's: `top_k`, `min_p`, `min_tokens`, `ignore_eos`. */
  | 'sampling'
  | 'stop_tokens'
  | 'bad_words'
  | 'special_tokens'
  /** What no engine here does. */
  | 'none'

export type Capabilities = ReadonlySet<Capability>

/** Text in, text out: what every engine can. */
export const TEXT_ONLY: Capabilities = new Set()
/** It generates no language: it can neither call a tool nor keep to a format, and its tokens are drawn in no way. */
export const EMULATED: Capabilities = new Set<Capability>(['choices', 'echo', 'sampling'])
const GENERATING = [
  'tools',
  'structured_output',
  'constraints',
  'choices',
  'penalties',
  'logit_bias',
  'sampling',
] as const
/** It says what its script says, be it a tool call or JSON, however its tokens are to be drawn. */
export const SCRIPTED: Capabilities = new Set<Capability>([...GENERATING, 'echo'])
export const EMBEDDED: Capabilities = new Set<Capability>([
  ...GENERATING,
  ...(['logprobs', 'echo', 'stop_tokens', 'bad_words'] as const),
])
/** No media: vLLM would fetch any URL that a client names, from inside the operator's network. */
export const VLLM: Capabilities = new Set<Capability>([
  ...GENERATING,
  ...(['logprobs', 'echo', 'stop_tokens', 'bad_words', 'special_tokens'] as const),
])

/** Hints that an engine applies (src/protocol/request-fields.ts). The others are dropped with a warning. */
export const VLLM_HINTS: ReadonlySet<string> = new Set([
  ...['reasoning_effort', 'thinking', 'thinking_token_budget', 'include_reasoning', 'chat_template_kwargs'],
  ...['messages[].name', 'messages[].reasoning', 'messages[].reasoning_content'],
])

interface Rule {
  needs: Capability
  /** Values that ask for nothing. `null` and absent never do. */
  neutral: (value: unknown) => boolean
}

const is =
  (...values: unknown[]) =>
  (value: unknown): boolean =>
    values.includes(value)
const empty = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0
const never = (): boolean => false
const ofType =
  (type: string) =>
  (value: unknown): boolean =>
    typeof value === 'object' && value !== null && 'type' in value && value.type === type

export const BODY_RULES: Readonly<Record<string, Rule>> = {
  tools: { needs: 'tools', neutral: empty },
  tool_choice: { needs: 'tools', neutral: is('none', 'auto') },
  functions: { needs: 'functions', neutral: empty },
  function_call: { needs: 'functions', neutral: is('none', 'auto') },
  response_format: { needs: 'structured_output', neutral: ofType('text') },
  structured_outputs: { needs: 'constraints', neutral: never },
  logprobs: { needs: 'logprobs', neutral: is(false) },
  top_logprobs: { needs: 'logprobs', neutral: is(0) },
  n: { needs: 'choices', neutral: is(1) },
  best_of: { needs: 'best_of', neutral: is(1) },
  frequency_penalty: { needs: 'penalties', neutral: is(0) },
  presence_penalty: { needs: 'penalties', neutral: is(0) },
  repetition_penalty: { needs: 'penalties', neutral: is(1) },
  logit_bias: { needs: 'logit_bias', neutral: empty },
  modalities: {
    needs: 'media',
    neutral: (value) => Array.isArray(value) && value.length > 0 && value.every((modality) => modality === 'text'),
  },
  audio: { needs: 'media', neutral: never },
  web_search_options: { needs: 'web_search', neutral: never },
  top_k: { needs: 'sampling', neutral: is(-1, 0) },
  min_p: { needs: 'sampling', neutral: is(0) },
  min_tokens: { needs: 'sampling', neutral: is(0) },
  ignore_eos: { needs: 'sampling', neutral: is(false) },
  stop_token_ids: { needs: 'stop_tokens', neutral: empty },
  include_stop_str_in_output: { needs: 'special_tokens', neutral: is(false) },
  skip_special_tokens: { needs: 'special_tokens', neutral: is(true) },
  bad_words: { needs: 'bad_words', neutral: empty },
  use_beam_search: { needs: 'none', neutral: is(false) },
  prompt_logprobs: { needs: 'none', neutral: never },
  truncate_prompt_tokens: { needs: 'none', neutral: never },
  return_token_ids: { needs: 'none', neutral: is(false) },
  add_generation_prompt: { needs: 'none', neutral: is(true) },
  continue_final_message: { needs: 'none', neutral: is(false) },
  echo: { needs: 'echo', neutral: is(false) },
  suffix: { needs: 'suffix', neutral: is('') },
}

export const MESSAGE_RULES: Readonly<Record<string, Rule>> = {
  tool_calls: { needs: 'tools', neutral: empty },
  function_call: { needs: 'functions', neutral: never },
  audio: { needs: 'media', neutral: never },
}

/** The first field of `value` that asks for what `capabilities` lack; `path` leads to `value` in the body. */
export function findUnsupported(
  value: Readonly<Record<string, unknown>>,
  rules: Readonly<Record<string, Rule>>,
  capabilities: Capabilities,
  path = '',
): StreamError | null {
  for (const [field, rule] of Object.entries(rules)) {
    const asked = value[field]
    if (asked === undefined || asked === null || rule.neutral(asked) || capabilities.has(rule.needs)) continue
    return unsupported(`${path}${field}`)
  }
  return null
}

export function unsupported(param: string): StreamError {
  return badRequest(
    'unsupported_parameter',
    `Unsupported parameter: '${param}' cannot be honoured by this engine.`,
    param,
  )
}
