/**
 * One call of an engine in a child process, as the agent sees it. It sums up the call's ledger rows, so that a call whose
 * engine dies still ends with what it was charged: its record then equals the ledger.
 */
import { type Generated, type Measurement, NOTHING_MEASURED, type StreamError } from '../../../../src/protocol/index.ts'
import type { LedgerRow } from '../../../engine/types.ts'
import type { CallEnd, CallSink } from '../engine-front.ts'

export class ChildCall {
  readonly #sink: CallSink
  readonly #clock: () => number
  readonly #started_us: number
  #prompt_tokens: number | null = null
  #first_token_us: number | null = null
  #service_wall_us = 0
  #service_modelled_us = 0
  #output_tokens = 0

  /** `clock`: microseconds, monotonic. */
  constructor(sink: CallSink, clock: () => number) {
    this.#sink = sink
    this.#clock = clock
    this.#started_us = clock()
  }

  /** Neither accepted nor refused yet: the child's own status does not count it. */
  get isPending(): boolean {
    return this.#prompt_tokens === null
  }

  refused(error: StreamError): void {
    this.#sink.refused(error)
  }

  accepted(prompt_tokens: number): void {
    this.#prompt_tokens = prompt_tokens
    this.#sink.accepted(prompt_tokens)
  }

  chunk(chunk: object, tokens?: Generated): void {
    this.#sink.chunk(chunk, tokens)
  }

  ended(end: CallEnd): void {
    this.#sink.ended(end)
  }

  charge(row: LedgerRow): void {
    this.#service_wall_us += row.wall_us
    this.#service_modelled_us += row.modelled_us
    this.#output_tokens += row.sampled_tokens
    if (row.sampled_tokens > 0) this.#first_token_us ??= this.#clock() - this.#started_us
  }

  /** The engine is gone: refused if it had not taken the call, else ended as failed. */
  lost(error: StreamError): void {
    if (this.#prompt_tokens === null) {
      this.#sink.refused(error)
      return
    }
    const measurement = this.#measurement(this.#prompt_tokens)
    this.#sink.ended({ outcome: 'failed', finish_reason: null, error, measurement, last_chunks: [] })
  }

  /** What only the child knew is at its least: no cached token, no preemption. */
  #measurement(prompt_tokens: number): Measurement {
    const duration_us = this.#clock() - this.#started_us
    return {
      ...NOTHING_MEASURED,
      prompt_tokens,
      output_tokens: this.#output_tokens,
      service_wall_us: this.#service_wall_us,
      service_modelled_us: this.#service_modelled_us,
      wait_us: Math.max(0, duration_us - this.#service_wall_us),
      first_token_us: this.#first_token_us,
      duration_us,
    }
  }
}
