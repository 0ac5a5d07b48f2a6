/** A CallSink that remembers what it heard, and checks that a call's life is well formed. */
import type { Generated, StreamError } from '../../../../src/protocol/index.ts'
import type { CallEnd, CallSink } from '../engine-front.ts'

interface Chunk {
  id: string
  object: string
  model: string
  system_fingerprint: string
  choices: { index: number; delta?: { role?: string; content?: string }; text?: string; finish_reason: string | null }[]
  usage?: Record<string, unknown> | null
}

export class RecordingSink implements CallSink {
  readonly chunks: Chunk[] = []
  /** Of each chunk. */
  readonly tokens: Generated[] = []
  readonly over: Promise<CallEnd | null>
  error: StreamError | null = null
  end: CallEnd | null = null
  prompt_tokens: number | null = null
  /** Called for each chunk. */
  onChunk: (chunk: Chunk) => void = () => undefined
  readonly #resolve: (end: CallEnd | null) => void

  constructor() {
    const { promise, resolve } = Promise.withResolvers<CallEnd | null>()
    this.over = promise
    this.#resolve = resolve
  }

  refused(error: StreamError): void {
    this.#expect(this.prompt_tokens === null)
    this.error = error
    this.#resolve(null)
  }

  accepted(prompt_tokens: number): void {
    this.#expect(this.prompt_tokens === null)
    this.prompt_tokens = prompt_tokens
  }

  chunk(chunk: object, tokens: Generated = []): void {
    this.#expect(this.prompt_tokens !== null)
    this.tokens.push(tokens)
    this.chunks.push(chunk as Chunk)
    this.onChunk(chunk as Chunk)
  }

  ended(end: CallEnd): void {
    this.#expect(this.prompt_tokens !== null)
    this.end = end
    this.#resolve(end)
  }

  get text(): string {
    return this.chunks.map(({ choices: [choice] }) => choice?.delta?.content ?? choice?.text ?? '').join('')
  }

  #expect(valid: boolean): void {
    if (!valid || this.end !== null || this.error !== null) throw new Error('the front broke the order of a call')
  }
}
