/**
 * Every field that clients send in OpenAI's request bodies, by class. The relay and the agents' fronts read this table, and
 * so do the OpenAPI document and the test of docs/api.md.
 *
 * - `binding`: honoured, or refused with a 400 that names the field. The front of the engine decides which.
 * - `hint`: applied where the engine can, otherwise dropped with a warning.
 * - `ignored`: dropped with a warning. Fields that are not in the table are ignored as well.
 *
 * A strict key or call refuses hints and ignored fields.
 */

import type { NativeApi } from './link.ts'

export type FieldClass = 'binding' | 'hint' | 'ignored'

export interface FieldRule {
  class: FieldClass
  /** Values that ask for nothing, so they are dropped without a warning. `null` is one for every field. */
  neutral?: readonly unknown[]
  /** Fields of the object, or of each object of the list, that is the field's value. */
  inner?: FieldTable
}

export type FieldTable = Readonly<Record<string, FieldRule>>

const BINDING: FieldRule = { class: 'binding' }
const HINT: FieldRule = { class: 'hint' }
const IGNORED: FieldRule = { class: 'ignored' }

function each(rule: FieldRule, ...names: string[]): FieldTable {
  return Object.fromEntries(names.map((name) => [name, rule]))
}

/** Read by the control plane to name the program. No engine gets them. */
export const CONTROL_FIELDS: readonly string[] = ['session_id', 'litellm_session_id', 'litellm_trace_id']

/** Fields with which some servers let a client choose its place in the queue or share a cache. The control plane sets them. */
export const SCHEDULING_FIELDS: readonly string[] = [
  'priority',
  'vllm_xargs',
  'cache_salt',
  'kv_transfer_params',
  'ec_transfer_params',
  'kv_hints',
  'request_id',
  'data_parallel_rank',
]

const COMMON: FieldTable = {
  ...each(BINDING, ...CONTROL_FIELDS, 'model', 'metadata', 'user', 'safety_identifier', 'prompt_cache_key'),
  ...each(BINDING, 'stream', 'max_tokens', 'temperature', 'top_p', 'seed', 'stop', 'n'),
  ...each(BINDING, 'frequency_penalty', 'presence_penalty', 'logit_bias', 'logprobs'),
  // Of vLLM and other self-hosted servers.
  ...each(BINDING, 'top_k', 'min_p', 'repetition_penalty', 'min_tokens', 'ignore_eos', 'stop_token_ids', 'bad_words'),
  ...each(BINDING, 'include_stop_str_in_output', 'skip_special_tokens', 'allowed_token_ids'),
  ...each(BINDING, 'logits_processors', 'logprob_token_ids'),
  ...each(BINDING, 'structured_outputs', 'guided_json', 'guided_regex', 'guided_choice', 'guided_grammar'),
  ...each(BINDING, 'response_format', 'use_beam_search', 'length_penalty', 'prompt_logprobs', 'truncate_prompt_tokens'),
  ...each(BINDING, 'return_token_ids', 'add_special_tokens'),
  stream_options: {
    class: 'binding',
    inner: { include_usage: BINDING, continuous_usage_stats: { class: 'ignored', neutral: [false] } },
  },
  ...each(IGNORED, ...SCHEDULING_FIELDS),
}

const FUNCTION_CALL: FieldTable = each(BINDING, 'name', 'arguments')

const CONTENT_PART: FieldTable = {
  ...each(BINDING, 'type', 'text', 'refusal', 'image_url', 'input_audio', 'audio_url', 'video_url', 'file'),
  cache_control: IGNORED,
}

export const MESSAGE_FIELDS: FieldTable = {
  ...each(BINDING, 'role', 'tool_call_id', 'function_call', 'audio'),
  content: { class: 'binding', inner: CONTENT_PART },
  tool_calls: {
    class: 'binding',
    inner: {
      ...each(BINDING, 'id', 'type', 'custom'),
      function: { class: 'binding', inner: FUNCTION_CALL },
      index: { class: 'ignored' },
    },
  },
  name: HINT,
  reasoning: HINT,
  reasoning_content: HINT,
  ...each(IGNORED, 'provider_specific_fields', 'cache_control'),
  refusal: IGNORED,
  annotations: { class: 'ignored', neutral: [[]] },
}

const TOOL: FieldTable = {
  ...each(BINDING, 'type', 'custom'),
  function: { class: 'binding', inner: each(BINDING, 'name', 'description', 'parameters', 'strict') },
}

export const CHAT_BODY_FIELDS: FieldTable = {
  ...COMMON,
  messages: { class: 'binding', inner: MESSAGE_FIELDS },
  tools: { class: 'binding', inner: TOOL },
  ...each(BINDING, 'max_completion_tokens', 'top_logprobs', 'tool_choice', 'parallel_tool_calls'),
  ...each(BINDING, 'functions', 'function_call', 'modalities', 'audio', 'web_search_options'),
  ...each(BINDING, 'chat_template', 'documents', 'add_generation_prompt', 'continue_final_message', 'echo'),
  output_config: { class: 'binding', inner: { format: BINDING, effort: HINT } },
  ...each(HINT, 'reasoning_effort', 'chat_template_kwargs', 'include_reasoning', 'context_management', 'prediction'),
  ...each(HINT, 'thinking', 'thinking_token_budget'),
  verbosity: { class: 'hint', neutral: ['medium'] },
  store: { class: 'ignored', neutral: [false] },
  service_tier: { class: 'ignored', neutral: ['auto', 'default'] },
  prompt_cache_retention: { class: 'ignored', neutral: ['in-memory', 'in_memory'] },
}

export const COMPLETION_BODY_FIELDS: FieldTable = {
  ...COMMON,
  ...each(BINDING, 'prompt', 'echo', 'suffix', 'best_of', 'prompt_embeds'),
  store: { class: 'ignored', neutral: [false] },
  service_tier: { class: 'ignored', neutral: ['auto', 'default'] },
}

export const EMBEDDING_BODY_FIELDS: FieldTable = {
  ...each(BINDING, ...CONTROL_FIELDS, 'model', 'metadata', 'user', 'safety_identifier', 'prompt_cache_key'),
  ...each(BINDING, 'input', 'encoding_format', 'dimensions'),
  ...each(BINDING, 'truncate_prompt_tokens', 'add_special_tokens', 'messages', 'instructions'),
  ...each(IGNORED, ...SCHEDULING_FIELDS),
}

/**
 * What of a body of another API goes to a server that speaks that API itself. Values are not looked into, so what such a server
 * reads of messages and tools reaches it. Fields that choose a price or a place at the provider, or state that it would keep, do
 * not: `service_tier`, `container`, `background`.
 */
export const NATIVE_BODY_FIELDS: Readonly<Record<NativeApi, FieldTable>> = {
  messages: {
    ...each(BINDING, ...CONTROL_FIELDS, 'model', 'metadata', 'stream'),
    ...each(BINDING, 'messages', 'system', 'tools', 'tool_choice', 'max_tokens', 'stop_sequences'),
    ...each(BINDING, 'temperature', 'top_p', 'top_k', 'thinking', 'output_config', 'output_format', 'cache_control'),
    mcp_servers: { class: 'ignored', neutral: [[]] },
    service_tier: { class: 'ignored', neutral: ['auto', 'standard_only'] },
    speed: { class: 'ignored', neutral: ['standard'] },
  },
  responses: {
    ...each(BINDING, ...CONTROL_FIELDS, 'model', 'metadata', 'user', 'safety_identifier', 'client_metadata', 'stream'),
    ...each(BINDING, 'input', 'instructions', 'tools', 'tool_choice', 'parallel_tool_calls', 'max_output_tokens'),
    ...each(BINDING, 'max_tool_calls', 'temperature', 'top_p', 'top_logprobs', 'text', 'reasoning', 'include'),
    ...each(BINDING, 'prompt_cache_key', 'store', 'stream_options', 'truncation'),
    background: { class: 'ignored', neutral: [false] },
    service_tier: { class: 'ignored', neutral: ['auto', 'default'] },
    prompt_cache_retention: { class: 'ignored', neutral: ['in-memory', 'in_memory'] },
  },
}

/** Fields of one class, as docs and warnings write them: `messages[].name`. */
export function fieldsOf(table: FieldTable, of_class: FieldClass, path = ''): string[] {
  const names: string[] = []
  for (const [name, rule] of Object.entries(table)) {
    const field = path + name
    if (rule.class === of_class) names.push(field)
    if (rule.inner !== undefined)
      names.push(...fieldsOf(rule.inner, of_class, `${field}${LISTS.has(name) ? '[].' : '.'}`))
  }
  return names
}

const LISTS: ReadonlySet<string> = new Set(['messages', 'tools', 'tool_calls', 'content'])
