/**
 * OpenAI's request bodies as an engine's front takes them, with the sampling fields of self-hosted servers. They hold
 * binding fields (src/protocol/request-fields.ts): hints and unknown fields are taken out before (accepted-fields.ts).
 * Whether an engine can honour a field is capabilities.ts. `null` means absent, as with OpenAI.
 */
import { z } from 'zod'
import {
  CALL_FIELDS,
  CHAT_FIELDS,
  Choices,
  ContentPart,
  ROLES,
  STOPS_MAX,
  TokenId,
} from '../../../src/protocol/openai.ts'

import { SAMPLING_FIELDS } from './sampling-fields.ts'

export const MESSAGES_MAX = 4096
export const CONTENT_PARTS_MAX = 1024
export const STOP_CHARS_MAX = 256
/** `n`: choices of one call. Each is a call to the engine. */
export const CHOICES_MAX = 8
export const BAD_WORDS_MAX = 64
export const BAD_WORD_CHARS_MAX = 128

const Stop = z
  .string()
  .min(1, 'a stop string must not be empty')
  .max(STOP_CHARS_MAX)
  .refine((stop) => stop.isWellFormed(), 'a stop string must be well-formed Unicode')

/** Shared by both bodies. `z.unknown()`: of interest to capabilities.ts alone. */
const common = {
  model: z.string().nullish(),
  stop: z.union([Stop, z.array(Stop).max(STOPS_MAX)]).nullish(),
  stream_options: z.strictObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: Choices.max(CHOICES_MAX).nullish(),
  user: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
  safety_identifier: z.string().nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  ...SAMPLING_FIELDS,
  include_stop_str_in_output: z.boolean().nullish(),
  skip_special_tokens: z.boolean().nullish(),
  bad_words: z.array(z.string().min(1).max(BAD_WORD_CHARS_MAX)).max(BAD_WORDS_MAX).nullish(),
  structured_outputs: z.unknown().optional(),
  use_beam_search: z.unknown().optional(),
  prompt_logprobs: z.unknown().optional(),
  truncate_prompt_tokens: z.unknown().optional(),
  return_token_ids: z.unknown().optional(),
}

export const TOOL_CALLS_MAX = 128

/** Of an assistant's message. */
export const ToolCalls = z
  .array(
    z.strictObject({
      id: z.string(),
      type: z.literal('function').default('function'),
      function: z.strictObject({ name: z.string(), arguments: z.string() }),
    }),
  )
  .max(TOOL_CALLS_MAX)

const Message = z.strictObject({
  role: z.enum(ROLES),
  content: z.union([z.string(), z.array(ContentPart).min(1).max(CONTENT_PARTS_MAX)]).nullish(),
  name: z.unknown().optional(),
  reasoning: z.unknown().optional(),
  reasoning_content: z.unknown().optional(),
  audio: z.unknown().optional(),
  tool_calls: z.unknown().optional(),
  function_call: z.unknown().optional(),
  tool_call_id: z.string().nullish(),
})
export type Message = z.infer<typeof Message>

export const ChatBody = z.strictObject({
  ...CHAT_FIELDS,
  ...common,
  messages: z.array(Message).min(1).max(MESSAGES_MAX),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.number().int().min(0).max(20).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  tools: z.unknown().optional(),
  tool_choice: z.unknown().optional(),
  functions: z.unknown().optional(),
  function_call: z.unknown().optional(),
  response_format: z.unknown().optional(),
  modalities: z.unknown().optional(),
  audio: z.unknown().optional(),
  web_search_options: z.unknown().optional(),
  add_generation_prompt: z.unknown().optional(),
  continue_final_message: z.unknown().optional(),
  echo: z.unknown().optional(),
})
export type ChatBody = z.infer<typeof ChatBody>

const TokenIds = z.array(TokenId.nonnegative())

export const CompletionBody = z.strictObject({
  ...CALL_FIELDS,
  ...common,
  /** 0: only what was asked for with `echo`. */
  max_tokens: z.number().int().min(0).nullish(),
  prompt: z.union([z.string(), TokenIds.min(1), z.array(z.string()).min(1), z.array(TokenIds.min(1)).min(1)]),
  best_of: z.number().int().min(1).max(20).nullish(),
  echo: z.boolean().nullish(),
  logprobs: z.number().int().min(0).max(5).nullish(),
  suffix: z.string().nullish(),
})
export type CompletionBody = z.infer<typeof CompletionBody>
