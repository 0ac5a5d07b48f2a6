/**
 * A call that was stopped for a better one and goes on later (`--preempt resume`): what it had of its server before, and what it is
 * sent with when its turn comes again. A leg is the time between two stops. The server counts what came before a leg as prompt.
 */
import { AnswerSoFar } from '../../../../../src/core/call/answer-so-far.ts'
import { eventId, type Generated, generatedCount, type Resume } from '../../../../../src/protocol/index.ts'
import type { CallAnswer, CountedUsage } from './answer-stream.ts'
import type { VllmRequest, VllmRequestListener } from './vllm-request.ts'

/** How the call is sent to go on. */
export interface Leg {
  answer: CallAnswer
  post: (listener: VllmRequestListener) => VllmRequest
}

export interface StoppedLegsOptions {
  /** Null: such an answer cannot go on exactly. */
  goOn: (so_far: Resume) => Leg | null
  /** What another engine began. Null: nothing. */
  resume: Resume | null
  /** Of the call's prompt, with what another engine began. */
  prompt_tokens: number
}

export class StoppedLegs {
  readonly #options: StoppedLegsOptions
  readonly #so_far = new AnswerSoFar()
  #stops = 0
  /** Of legs that were stopped. */
  pieces = 0
  /** Of those legs, and of all. */
  #stopped_tokens = 0
  #tokens = 0
  #recomputed_tokens = 0

  constructor(options: StoppedLegsOptions) {
    this.#options = options
    const { resume } = options
    if (resume === null) return
    const { content, tokens, output_tokens, created_s: created, system_fingerprint } = resume
    const chunk = { created, system_fingerprint, choices: [{ index: 0, delta: { content } }] }
    this.#so_far.add(JSON.stringify(chunk), eventId(tokens.length > 0 ? tokens : (output_tokens ?? 0)))
  }

  get stopped(): boolean {
    return this.#stops > 0
  }

  /** The client has this. */
  delivered(chunk: object, tokens: Generated): void {
    this.#tokens += generatedCount(tokens)
    this.#so_far.add(JSON.stringify(chunk), eventId(tokens))
  }

  /** Null: it cannot be stopped here. */
  next(): Leg | null {
    const so_far = this.#so_far.resume()
    return so_far === null ? null : this.#options.goOn(so_far)
  }

  stop({ pieces }: CallAnswer): void {
    // A leg that is stopped tells no usage: what it computed again is what it had as prompt.
    if (this.stopped) this.#recomputed_tokens += this.#options.prompt_tokens + this.#stopped_tokens
    this.#stops += 1
    this.pieces += pieces
    this.#stopped_tokens = this.#tokens
  }

  /** Of the whole call, from what the server says of the last leg. It is not known what was cached for earlier ones. */
  usage(last: CountedUsage | null): CountedUsage | null {
    if (last === null || !this.stopped) return last
    const prompt_tokens = Math.max(0, last.prompt_tokens - this.#stopped_tokens)
    return { prompt_tokens, output_tokens: this.#stopped_tokens + last.output_tokens, cached_tokens: null }
  }

  /** What was computed once more since the call was stopped. `began`: the last leg has output. */
  recomputedTokens(last: CountedUsage | null, began: boolean): number {
    if (!this.stopped || !began) return this.#recomputed_tokens
    const last_tokens =
      last === null
        ? this.#options.prompt_tokens + this.#stopped_tokens
        : last.prompt_tokens - (last.cached_tokens ?? 0)
    return this.#recomputed_tokens + Math.max(0, last_tokens)
  }
}
