/**
 * One call on a local engine: the engine's tokens become text, the text is searched for stop strings, and what may go out
 * becomes chunks. The sink hears `accepted` first, the role chunk with the first token (an engine that fails before can be
 * replaced unseen), and `ended` once and last.
 */
import type { FinishReason, StreamError, TicketClaims, UsageExtension } from '../../../src/protocol/index.ts'
import type { CallListener } from '../../engine/driver.ts'
import type { EndReason, Measurement } from '../../engine/types.ts'
import type { CallSink } from '../engine-front.ts'
import type { ChunkBuilder } from './openai/chunks.ts'
import { engineFailed } from './openai/errors.ts'
import type { StopMatcher } from './stop-matcher.ts'
import type { TokenDecoder } from './text-model.ts'

export interface LocalCallOptions {
  claims: TicketClaims
  sink: CallSink
  chunks: ChunkBuilder
  decoder: TokenDecoder
  stops: StopMatcher
  emulated: boolean
  /** Which reading `usage.switchyard.service_s` shows. */
  ordering: 'wall' | 'modelled'
  /** A stop string was met: the engine need not go on. */
  finish: (lease: string) => void
  /** The call is over. `answer` is what was generated, when all of it became text. */
  over: (answer: { text: string; tokens: readonly number[] } | null) => void
}

export class LocalCall implements CallListener {
  readonly #options: LocalCallOptions
  readonly #tokens: number[] = []
  #text = ''
  #begun = false
  #stopped = false
  /** The sink may cancel the call while it is given a chunk, and the end comes within that. */
  #over = false
  #error: StreamError | null = null

  constructor(options: LocalCallOptions) {
    this.#options = options
  }

  /** Why the call will end as cancelled. */
  cancelledBy(error: StreamError | null): void {
    this.#error = error
  }

  token(token: number): void {
    if (this.#stopped) return
    this.#tokens.push(token)
    this.#begin()
    this.#write(this.#options.decoder.push(token))
    if (this.#stopped && !this.#over) this.#options.finish(this.#options.claims.lease)
  }

  ended(reason: EndReason, measurement: Measurement): void {
    if (reason === 'failed' || reason === 'cancelled') {
      this.#over = true
      this.#options.over(null)
      const error = reason === 'failed' ? engineFailed('the engine failed') : this.#error
      const outcome = reason
      this.#options.sink.ended({ outcome, finish_reason: null, error, measurement, last_chunks: [] })
      return
    }
    this.#begin()
    this.#write(this.#options.decoder.end())
    if (!this.#stopped) this.#emit(this.#options.stops.end())
    const finish_reason: FinishReason = reason === 'length' && !this.#stopped ? 'length' : 'stop'
    this.#options.over(this.#stopped ? null : { text: this.#text, tokens: this.#tokens })
    const last_chunks = this.#lastChunks(finish_reason, measurement)
    this.#options.sink.ended({ outcome: 'completed', finish_reason, error: null, measurement, last_chunks })
  }

  #begin(): void {
    if (this.#begun) return
    this.#begun = true
    const role = this.#options.chunks.role()
    if (role !== null) this.#options.sink.chunk(role)
  }

  #write(piece: string): void {
    if (this.#stopped) return
    const { text, stopped } = this.#options.stops.push(piece)
    this.#stopped = stopped
    this.#emit(text)
  }

  #emit(text: string): void {
    if (text === '' || this.#over) return
    this.#text += text
    this.#options.sink.chunk(this.#options.chunks.content(text))
  }

  #lastChunks(finish_reason: FinishReason, measurement: Measurement): object[] {
    const { chunks, claims, emulated, ordering } = this.#options
    const { prompt_tokens, output_tokens, cached_tokens } = measurement
    const service_wall_s = measurement.service_wall_us / 1e6
    const service_modelled_s = measurement.service_modelled_us / 1e6
    const switchyard: UsageExtension = {
      service_s: ordering === 'wall' ? service_wall_s : service_modelled_s,
      service_wall_s,
      service_modelled_s,
      wait_s: measurement.wait_us / 1e6,
      preemptions: measurement.preemptions,
      engine: claims.engine,
      region: claims.region,
      emulated,
    }
    const usage = chunks.usage({ prompt_tokens, completion_tokens: output_tokens, cached_tokens, switchyard })
    return usage === null ? [chunks.finish(finish_reason)] : [chunks.finish(finish_reason), usage]
  }
}
