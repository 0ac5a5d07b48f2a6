/**
 * Embeddings between a client's body, an engine and the relay. An answer goes out in chunks of OpenAI's list, one vector
 * each, and ends with a chunk that has the usage alone. The relay joins them (src/relay/dialects/embeddings.ts).
 */
import { z } from 'zod'
import type { StreamError, UsageExtension } from '../../../src/protocol/index.ts'
import { EMBEDDING_FIELDS } from '../../../src/protocol/openai.ts'
import { bodyError } from './body-error.ts'
import { unsupported } from './capabilities.ts'
import { badRequest } from './errors.ts'
import type { PlainPrompt } from './translate.ts'

const EmbeddingBody = z.strictObject({
  ...EMBEDDING_FIELDS,
  model: z.string().nullish(),
  user: z.string().nullish(),
  safety_identifier: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
  truncate_prompt_tokens: z.unknown().optional(),
  add_special_tokens: z.unknown().optional(),
  messages: z.unknown().optional(),
  instructions: z.unknown().optional(),
})

/** Binding fields that no engine here honours. */
const UNSUPPORTED = ['truncate_prompt_tokens', 'add_special_tokens', 'messages', 'instructions'] as const

export interface EmbeddingInput {
  inputs: readonly PlainPrompt[]
  encoding: 'float' | 'base64'
  /** Null: as many as the model has. */
  dimensions: number | null
}

export type EmbeddingInputResult = { ok: true; asked: EmbeddingInput } | { ok: false; error: StreamError }

export function embeddingInput(body: unknown): EmbeddingInputResult {
  const parsed = EmbeddingBody.safeParse(body)
  if (!parsed.success) return { ok: false, error: bodyError(parsed.error) }
  const field = UNSUPPORTED.find((name) => parsed.data[name] != null)
  if (field !== undefined) return { ok: false, error: unsupported(field) }
  const { input, encoding_format, dimensions } = parsed.data
  return {
    ok: true,
    asked: { inputs: inputsOf(input), encoding: encoding_format ?? 'float', dimensions: dimensions ?? null },
  }
}

function inputsOf(input: z.infer<typeof EmbeddingBody>['input']): EmbeddingInput['inputs'] {
  if (typeof input === 'string') return [{ kind: 'text', text: input }]
  if (isNumbers(input)) return [{ kind: 'tokens', tokens: input }]
  return input.map((one) => (typeof one === 'string' ? { kind: 'text', text: one } : { kind: 'tokens', tokens: one }))
}

function isNumbers(input: readonly (string | number | number[])[]): input is number[] {
  return typeof input[0] === 'number'
}

/** 400: the engine of this model makes none. */
export function noEmbeddings(): StreamError {
  return badRequest('embeddings_unsupported', 'The engine of this model makes no embeddings.', 'model')
}

/** 400: the engine of this model makes embeddings alone. */
export function noText(): StreamError {
  return badRequest(
    'generation_unsupported',
    'The engine of this model writes no text: it makes embeddings (POST /v1/embeddings).',
    'model',
  )
}

/** Of a number with NUMBER_DIGITS, its sign, point, exponent and comma. */
const NUMBER_CHARS_MAX = 17
/** What tells every float32 from the next. */
const NUMBER_DIGITS = 9
/** Around a vector in its chunk, the name of the model included. */
const FRAME_BYTES_MAX = 256

/** Of one vector in the answer. */
export function vectorBytesMax(dimensions: number, encoding: EmbeddingInput['encoding']): number {
  return FRAME_BYTES_MAX + dimensions * (encoding === 'float' ? NUMBER_CHARS_MAX : (4 * 4) / 3)
}

/** To length 1. */
export function normalised(vector: Float32Array): Float32Array {
  let sum = 0
  for (const value of vector) sum += value * value
  const length = Math.sqrt(sum)
  return length === 0 ? vector : vector.map((value) => value / length)
}

/** A vector as `encoding_format` has it: numbers, or base64 of little-endian float32. */
export function encodedVector(vector: Float32Array, encoding: EmbeddingInput['encoding']): number[] | string {
  if (encoding === 'float') return Array.from(vector, (value) => Number(value.toPrecision(NUMBER_DIGITS)))
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64')
}

/** The chunks of one answer. */
export class EmbeddingFrame {
  readonly #model: string

  constructor(model: string) {
    this.#model = model
  }

  vector(index: number, embedding: readonly number[] | string): object {
    return { object: 'list', data: [{ object: 'embedding', index, embedding }], model: this.#model }
  }

  usage({ prompt_tokens, switchyard }: { prompt_tokens: number; switchyard: UsageExtension }): object {
    const usage = { prompt_tokens, total_tokens: prompt_tokens, switchyard }
    return { object: 'list', data: [], model: this.#model, usage }
  }
}
