/**
 * Embeddings through vLLM, from a server that was started with a model for them. Their requests are not scheduled by
 * programs: vLLM's plug-in orders text only, and a program's calls of another model are in another pool.
 */
import { z } from 'zod'
import { Usage } from '../../../../../src/protocol/openai.ts'
import { type EmbeddingFrame, embeddingInput } from '../../../openai/embeddings.ts'
import { textBytes } from '../../local/bytes-per-token.ts'
import type { AnswerReading, CallAnswer, CountedUsage } from './answer-stream.ts'
import type { CallEndFrame } from './call-end-frame.ts'
import type { RequestResult } from './request-body.ts'

export function embeddingRequest(body: unknown, model: string): RequestResult {
  const parsed = embeddingInput(body)
  if (!parsed.ok) return parsed
  const { inputs, encoding, dimensions } = parsed.asked
  const input = inputs.map((one) => (one.kind === 'text' ? one.text : one.tokens))
  const bytes = inputs.reduce((sum, one) => sum + (textBytes(one) ?? 0), 0)
  const tokens = inputs.reduce((sum, one) => sum + (one.kind === 'tokens' ? one.tokens.length : 0), 0)
  const isText = inputs[0]?.kind === 'text'
  return {
    ok: true,
    request: {
      fields: { model, input, encoding_format: encoding, ...(dimensions === null ? {} : { dimensions }) },
      ...{ prompt_bytes: isText ? bytes : null, prompt_tokens: isText ? null : tokens },
      ...{ choices: inputs.length, prompts: inputs.length, output_tokens_max: 0, include_usage: true },
    },
  }
}

const List = z.object({
  data: z.array(z.object({ index: z.number().int().min(0), embedding: z.union([z.array(z.number()), z.string()]) })),
  usage: Usage.pick({ prompt_tokens: true }),
})

/** vLLM's list → one chunk for each vector. */
export class EmbeddingAnswer implements CallAnswer {
  readonly #frame: EmbeddingFrame
  readonly #inputs: number
  readonly pieces = 0
  readonly text_bytes = 0
  readonly finishes = []
  usage: CountedUsage | null = null
  whole = false

  constructor(frame: EmbeddingFrame, inputs: number) {
    this.#frame = frame
    this.#inputs = inputs
  }

  read(value: unknown): AnswerReading {
    const parsed = List.safeParse(value)
    if (!parsed.success) return { ok: false, broken: 'a list of embeddings that is not one of OpenAI' }
    const { data, usage } = parsed.data
    const indexes = new Set(data.map(({ index }) => index))
    if (indexes.size !== this.#inputs || data.length !== this.#inputs || Math.max(...indexes) >= this.#inputs) {
      return { ok: false, broken: 'embeddings of other inputs' }
    }
    this.usage = { prompt_tokens: usage.prompt_tokens, output_tokens: 0, cached_tokens: 0 }
    this.whole = true
    return { ok: true, chunks: data.map(({ index, embedding }) => this.#frame.vector(index, embedding)) }
  }
}

/** What a call writes at its end: embeddings have no finish reason. */
export function embeddingEnd(frame: EmbeddingFrame): CallEndFrame {
  return { last: (_finishes, usage) => [frame.usage(usage)] }
}
