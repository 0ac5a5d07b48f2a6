/**
 * A call as it looks from outside its server, for calls of which the server sends no record (there is no plug-in, its process is
 * gone, or the record did not come). The time from the first output to the end is wall service, and with it the prefill: what
 * its uncached tokens take at the speed at which this server computes prompts, if that is known (outside-prefill.ts). The rest
 * is wait. The step that a client's reading delays thus counts as service. The modelled reading comes from token counts, as
 * everywhere.
 */

import { modelledServiceUs } from '../../../../../src/core/call/service.ts'
import { type Measurement, NOTHING_MEASURED } from '../../../../../src/protocol/index.ts'
import type { LedgerSums } from '../../../outbox/record.ts'
import type { OutsidePrefill } from '../../attached/outside-prefill.ts'
import type { CountedUsage } from './answer-stream.ts'

export class CallClock {
  readonly #clock: () => number
  readonly #prefill: OutsidePrefill | null
  readonly #started_us: number
  #sent_us: number
  #first_us: number | null = null
  /** Of all times that it was sent. */
  #first_of_all_us: number | null = null
  #stopped_wall_us = 0
  /** Of the first time, once it was stopped. */
  #first_ttft_us: number | null = null
  #ended_us: number | null = null
  #all_service = false

  /** `clock`: microseconds, monotonic. `prefill`: of its server; null: nothing is known of it. */
  constructor(clock: () => number, prefill: OutsidePrefill | null = null) {
    this.#clock = clock
    this.#prefill = prefill
    this.#started_us = clock()
    this.#sent_us = this.#started_us
  }

  /** It goes to the server, for the first time or again. */
  sent(): void {
    this.#sent_us = this.#clock()
    // Without a queue before it, it goes when it comes.
    if (this.#all_service) this.#first_us = this.#prefill === null ? this.#started_us : this.#sent_us
  }

  get ageUs(): number {
    return this.#clock() - this.#started_us
  }

  output(): void {
    this.#first_us ??= this.#clock()
    this.#first_of_all_us ??= this.#first_us
  }

  /** It is stopped in its output, and will be sent again. What it waits until then is no service. */
  stopped(): void {
    if (this.#first_us === null) return
    this.#first_ttft_us ??= this.#first_us - this.#sent_us
    this.#stopped_wall_us += this.#clock() - this.#first_us
    this.#first_us = null
  }

  /** For an answer that comes all at once: how long it waited cannot be told from how long it took, so all is service. */
  allService(): void {
    this.#all_service = true
  }

  ended(): void {
    this.#ended_us ??= this.#clock()
  }

  /** What `pieces` chunks of output cost so far, without the prompt, whose size vLLM tells at the end. */
  sumsSoFar(pieces: number): LedgerSums {
    const modelled_us = modelledServiceUs({ uncached_prompt_tokens: 0, cached_prompt_tokens: 0, output_tokens: pieces })
    return { wall_us: this.#wallUs(), modelled_us, computed_tokens: pieces, sampled_tokens: pieces }
  }

  /** `prompt_tokens`: an estimate, for a call whose usage did not come. */
  measured(usage: CountedUsage | null, pieces: number, prompt_tokens: number): Measurement {
    const prompt = usage?.prompt_tokens ?? prompt_tokens
    const cached = Math.min(usage?.cached_tokens ?? 0, prompt)
    const output = usage?.output_tokens ?? pieces
    const began_us = this.#first_of_all_us ?? this.#first_us
    const computed = began_us !== null
    const tokens = {
      uncached_prompt_tokens: computed ? prompt - cached : 0,
      cached_prompt_tokens: computed ? cached : 0,
      output_tokens: output,
    }
    const duration_us = (this.#ended_us ?? this.#clock()) - this.#started_us
    const wall_us = this.#wallUs() + this.#prefillUs(tokens.uncached_prompt_tokens, usage?.cached_tokens != null)
    return {
      ...NOTHING_MEASURED,
      prompt_tokens: prompt,
      cached_tokens: cached,
      output_tokens: output,
      service_wall_us: wall_us,
      service_modelled_us: modelledServiceUs(tokens),
      wait_us: duration_us - wall_us,
      first_token_us: began_us === null ? null : began_us - this.#started_us,
      duration_us,
    }
  }

  /** `told`: the server has said how much of the prompt it found cached. */
  #prefillUs(uncached_tokens: number, told: boolean): number {
    if (this.#prefill === null) return 0
    // What is computed again after a stop is no service.
    if (this.#first_ttft_us !== null) return this.#prefill.prefillUs(this.#first_ttft_us, uncached_tokens)
    if (this.#first_us === null) return 0
    const ttft_us = this.#first_us - this.#sent_us
    if (told) this.#prefill.seen(ttft_us, uncached_tokens)
    return this.#prefill.prefillUs(ttft_us, uncached_tokens)
  }

  #wallUs(): number {
    const running_us = this.#first_us === null ? 0 : (this.#ended_us ?? this.#clock()) - this.#first_us
    return this.#stopped_wall_us + running_us
  }
}
