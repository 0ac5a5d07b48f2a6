/**
 * OpenAI's wire vocabulary (chat completions and completions), declared once. It has the part that all readers share.
 * The relay extends it loosely. An agent's fronts narrow it to what their engine can honour. `null` means absent, as with
 * OpenAI.
 */
import { z } from 'zod'

export const STOPS_MAX = 4
export const METADATA_KEYS_MAX = 16
export const METADATA_KEY_CHARS_MAX = 64
export const METADATA_VALUE_CHARS_MAX = 512

export const ROLES = ['system', 'developer', 'user', 'assistant', 'tool'] as const
/** `max_tokens` and its successor `max_completion_tokens`. */
export const OutputTokens = z.number().int().min(1)
/** `n`. */
export const Choices = z.number().int().min(1)
export const Metadata = z
  .record(z.string().max(METADATA_KEY_CHARS_MAX), z.string().max(METADATA_VALUE_CHARS_MAX))
  .refine((metadata) => Object.keys(metadata).length <= METADATA_KEYS_MAX, `at most ${METADATA_KEYS_MAX} keys`)
export const ContentPart = z.looseObject({ type: z.string() })
export const TokenId = z.number().int()

/** Of one embeddings call, as OpenAI has it. */
export const EMBEDDING_INPUTS_MAX = 2048
export const EMBEDDING_DIMENSIONS_MAX = 65_536
/** Of all inputs together, on engines of this repository. */
export const EMBEDDING_TOKENS_MAX = 300_000
/** Of one answer, as JSON, on engines of this repository: less than relay and agent hold of one. */
export const EMBEDDING_ANSWER_BYTES_MAX = 15 * 1024 * 1024

/** Of both bodies. */
export const CALL_FIELDS = {
  stream: z.boolean().nullish(),
  max_tokens: OutputTokens.nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  seed: z.number().int().nullish(),
  metadata: Metadata.nullish(),
}

/** Of a chat's body. */
export const CHAT_FIELDS = { ...CALL_FIELDS, max_completion_tokens: OutputTokens.nullish() }

/** Of an embeddings body. */
export const EMBEDDING_FIELDS = {
  input: z
    .union([
      z.string().min(1),
      z.array(z.string().min(1)).min(1),
      z.array(TokenId.nonnegative()).min(1),
      z.array(z.array(TokenId.nonnegative()).min(1)).min(1),
    ])
    .refine(
      (input) => typeof input === 'string' || typeof input[0] === 'number' || input.length <= EMBEDDING_INPUTS_MAX,
      `at most ${EMBEDDING_INPUTS_MAX} inputs`,
    ),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: z.number().int().min(1).max(EMBEDDING_DIMENSIONS_MAX).nullish(),
  metadata: Metadata.nullish(),
}

const TokenCount = z.number().int().nonnegative()

/** What a final chunk, or an answer in one piece, says of its tokens. */
export const Usage = z.object({
  prompt_tokens: TokenCount,
  completion_tokens: TokenCount,
  total_tokens: TokenCount,
  prompt_tokens_details: z.object({ cached_tokens: TokenCount }),
})
export type Usage = z.infer<typeof Usage>

/** Around a chunk's delta, a message or a text. */
export const Choice = z.object({ index: z.number().int().min(0), finish_reason: z.string().nullable() })
