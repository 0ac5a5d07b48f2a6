/**
 * Reads embeddings: what the model's last layer says of a prompt's last token, after its final norm. Causal models have read
 * the whole prompt by then (vLLM pools them alike).
 *
 * llama.cpp gives either logits or embeddings of a context, and an embedding context computes the logits of every token
 * too. So prompts are computed where all calls are, by the scheduler's steps. Then the KV of a prompt is copied into a
 * second context with one sequence, and its last token is computed there once more. That is the cost of one decode and of a
 * copy (measured on SmolLM2-135M: 12 ms at 10 tokens, 40 ms at 600). The second context takes the memory of one slot, from
 * the first embedding on.
 */
import type { LlamaContext, LlamaContextOptions, LlamaContextSequence, LlamaModel } from 'node-llama-cpp'
import type { KvImages } from './kv-images.ts'
import { slotSequence, truncate } from './sequences.ts'

/** The least that llama.cpp does not round up: one token is computed at a time. */
const BATCH_TOKENS = 32
const IMAGE = -2

interface Opened {
  context: LlamaContext
  sequence: LlamaContextSequence
  read: () => Float32Array
}

export class EmbeddingContext {
  readonly #model: LlamaModel
  readonly #images: KvImages
  readonly #context_tokens: number
  readonly #threads: number
  #opened: Promise<Opened> | null = null

  constructor(model: LlamaModel, images: KvImages, context_tokens: number, threads: number) {
    this.#model = model
    this.#images = images
    this.#context_tokens = context_tokens
    this.#threads = threads
  }

  /** The embedding of all that `from` holds. One at a time. */
  async embed(from: LlamaContextSequence): Promise<Float32Array> {
    const { sequence, read } = await this.#open()
    const tokens = from.contextTokens
    const last = tokens.at(-1)
    if (last === undefined) throw new Error('an empty prompt has no embedding')
    await sequence.clearHistory()
    if (tokens.length > 1) {
      await this.#images.saveSole(from, IMAGE)
      try {
        await this.#images.restoreAll(sequence, IMAGE)
      } finally {
        await this.#images.drop(IMAGE)
      }
      await truncate(sequence, tokens.length - 1)
    }
    await sequence.controlledEvaluate([last])
    const vector = read()
    await sequence.clearHistory()
    return vector
  }

  async dispose(): Promise<void> {
    // A context that could not be made has told so to those who asked for it.
    const opened = await this.#opened?.catch(() => null)
    await opened?.context.dispose()
  }

  #open(): Promise<Opened> {
    this.#opened ??= this.#create().catch((error: unknown) => {
      // Memory may be free another time.
      this.#opened = null
      throw error
    })
    return this.#opened
  }

  async #create(): Promise<Opened> {
    const options: LlamaContextOptions & { _embeddings: true } = {
      sequences: 1,
      contextSize: this.#context_tokens,
      batchSize: BATCH_TOKENS,
      // As in the context that the KV comes from.
      flashAttention: true,
      threads: { ideal: this.#threads, min: 1 },
      // The library's own embedding context names no attention.
      _embeddings: true,
    }
    const context = await this.#model.createContext(options)
    return { context, sequence: slotSequence(context), read: vectorReader(context) }
  }
}

function vectorReader(context: LlamaContext): () => Float32Array {
  const native: unknown = Reflect.get(context, '_ctx')
  const read: unknown = typeof native === 'object' && native !== null ? Reflect.get(native, 'getEmbedding') : undefined
  if (typeof read !== 'function') throw new Error('this version of node-llama-cpp gives embeddings in an unknown way')
  return () => {
    const vector: unknown = read.call(native, 1)
    if (!(vector instanceof Float64Array)) throw new Error('the library gave no embedding')
    return Float32Array.from(vector)
  }
}
