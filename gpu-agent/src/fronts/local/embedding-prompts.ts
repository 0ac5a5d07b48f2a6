/** A body of an embeddings call → token ids of each input, or why the engine cannot embed them. Before it costs anything. */

import type { StreamError } from '../../../../src/protocol/index.ts'
import { EMBEDDING_ANSWER_BYTES_MAX, EMBEDDING_TOKENS_MAX } from '../../../../src/protocol/openai.ts'
import { type EmbeddingInput, embeddingInput, noEmbeddings, vectorBytesMax } from '../../openai/embeddings.ts'
import { badRequest } from '../../openai/errors.ts'
import type { PlainPrompt } from '../../openai/translate.ts'
import type { Encoding, TextEmbedding, TextModel } from './text-model.ts'

export interface EmbeddingPrompts {
  asked: EmbeddingInput
  prompts: readonly (readonly number[])[]
}

export type EmbeddingPromptsResult = { ok: true; asked: EmbeddingPrompts } | { ok: false; error: StreamError }

/** Besides its prompt, the engine's call has a token of output. */
const OUTPUT_TOKENS = 1

export function embeddingPrompts(body: unknown, text: TextModel): EmbeddingPromptsResult {
  const { embedding } = text
  if (embedding === undefined) return { ok: false, error: noEmbeddings() }
  const parsed = embeddingInput(body)
  if (!parsed.ok) return parsed
  const { asked } = parsed
  const { inputs, dimensions } = asked
  if (dimensions !== null && dimensions !== embedding.dimensions) {
    return invalid('dimensions', `this model's embeddings have ${embedding.dimensions}, and cannot be shortened`)
  }
  const inputs_max = Math.floor(EMBEDDING_ANSWER_BYTES_MAX / vectorBytesMax(embedding.dimensions, asked.encoding))
  if (inputs.length > inputs_max) {
    return invalid('input', `the answer has room for ${inputs_max} embeddings of this model as ${asked.encoding}`)
  }
  const prompts: number[][] = []
  let tokens = 0
  for (const [index, input] of inputs.entries()) {
    const param = inputs.length === 1 ? 'input' : `input[${index}]`
    const encoded = encode(input, text, embedding, param)
    if (!encoded.ok) return encoded
    tokens += encoded.tokens.length
    if (tokens > EMBEDDING_TOKENS_MAX) return invalid('input', `at most ${EMBEDDING_TOKENS_MAX} tokens in one call`)
    prompts.push(encoded.tokens)
  }
  return { ok: true, asked: { asked, prompts } }
}

type Encoded = { ok: true; tokens: number[] } | { ok: false; error: StreamError }

function encode(input: PlainPrompt, text: TextModel, embedding: TextEmbedding, param: string): Encoded {
  const encoding: Encoding =
    input.kind === 'text' ? embedding.encode(input.text) : { ok: true, tokens: [...input.tokens] }
  const tokens_max = text.context_tokens_max - OUTPUT_TOKENS
  if (!encoding.ok) {
    // An input has no template that could refuse it.
    const tokens_min = encoding.reason === 'too_long' ? encoding.tokens_min : tokens_max + 1
    return { ok: false, error: overlong(param, tokens_max, `at least ${tokens_min}`) }
  }
  const { tokens } = encoding
  if (tokens.length === 0) return invalid(param, 'it has no tokens')
  if (tokens.length > tokens_max) return { ok: false, error: overlong(param, tokens_max, `${tokens.length}`) }
  const foreign = tokens.findIndex((token) => token >= text.vocabulary_tokens)
  if (foreign !== -1) return invalid(`${param}[${foreign}]`, `there is no token ${tokens[foreign]}`)
  return { ok: true, tokens }
}

function overlong(param: string, tokens_max: number, tokens: string): StreamError {
  const message = `This model embeds at most ${tokens_max} tokens of one input. However, ${param} has ${tokens}. Please shorten it.`
  return badRequest('context_length_exceeded', message, param)
}

function invalid(param: string, reason: string): { ok: false; error: StreamError } {
  return { ok: false, error: badRequest('invalid_value', `Invalid value for '${param}': ${reason}.`, param) }
}
