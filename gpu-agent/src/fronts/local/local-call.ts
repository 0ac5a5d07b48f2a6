/**
 * One lease on a local engine: one prompt, and one call of the engine per choice. The sink hears `accepted` first and
 * `ended` once and last, when every choice has ended; what a choice fails of, all fail of.
 *
 * The lease's measurement is the sum of its choices' (lease-measurement.ts), and its ledger rows the sums of theirs
 * (local-front.ts).
 */
import type { Measurement, Resume, StreamError, TicketClaims } from '../../../../src/protocol/index.ts'
import type { CallListener } from '../../../engine/driver.ts'
import type { ChunkBuilder } from '../../openai/chunks.ts'
import { deadlineExceeded, engineFailed, incompleteOutput } from '../../openai/errors.ts'
import type { OutputFormat } from '../../openai/output-format.ts'
import type { CallSink } from '../engine-front.ts'
import { type Answer, type ChoiceEnd, ChoiceOutput, type Echo } from './choice-output.ts'
import { resumedBy, summed, usageExtension } from './lease-measurement.ts'
import type { TokenDecoder } from './text-model.ts'

export interface LocalCallOptions {
  claims: TicketClaims
  /** The engine's calls, one per choice. */
  leases: readonly string[]
  sink: CallSink
  chunks: ChunkBuilder
  decoder: () => TokenDecoder
  stops: readonly string[]
  stop_tokens: ReadonlySet<number>
  /** Several have one choice each. */
  prompts: number
  format: OutputFormat
  logprobs: boolean
  /** By choice; none: answers begin with what is generated. */
  echoes: readonly Echo[]
  /** Of a call with one choice. Null: its answer begins here. */
  resume: Resume | null
  emulated: boolean
  /** Which reading `usage.switchyard.service_s` shows. */
  ordering: 'wall' | 'modelled'
  /** The engine need not go on with this call of it. */
  finish: (engine_lease: string) => void
  cancel: (engine_lease: string) => void
  /** The lease is over. */
  over: (answers: readonly Answer[]) => void
}

export class LocalCall {
  readonly leases: readonly string[]
  readonly #options: LocalCallOptions
  readonly #choices: readonly ChoiceOutput[]
  readonly #ends = new Map<number, ChoiceEnd>()
  #error: StreamError | null = null
  #abandoned = false

  constructor(options: LocalCallOptions) {
    this.#options = options
    this.leases = options.leases
    this.#choices = options.leases.map((lease, index) => this.#choice(lease, index))
  }

  /** All choices are the engine's. */
  readonly pending_tokens = 0

  /** Who hears of the engine's call of a choice. */
  listener(choice: number): CallListener {
    const listener = this.#choices[choice]
    if (listener === undefined) throw new RangeError(`there is no choice ${choice}`)
    return listener
  }

  /** Why the call will end as cancelled. */
  cancelledBy(error: StreamError | null): void {
    this.#error = error
  }

  /** The engine refused a choice: the sink is told by others, and hears nothing from here. */
  abandon(): void {
    this.#abandoned = true
  }

  #choice(lease: string, index: number): ChoiceOutput {
    const { chunks, decoder, stops, stop_tokens, format, logprobs, echoes, resume, sink, finish } = this.#options
    return new ChoiceOutput({
      index,
      chunks,
      decoder: decoder(),
      stops,
      stop_tokens,
      format,
      logprobs,
      echo: echoes[index] ?? null,
      resume,
      // The Worker can resume a call of one choice.
      send: (chunk, tokens) => sink.chunk(chunk, this.leases.length === 1 ? tokens : []),
      finish: () => finish(lease),
      ended: (end) => this.#choiceEnded(index, end),
    })
  }

  #choiceEnded(index: number, end: ChoiceEnd): void {
    if (this.#abandoned) return
    this.#ends.set(index, end)
    if (end.finish_reason === null) {
      for (const [other, lease] of this.leases.entries()) if (!this.#ends.has(other)) this.#options.cancel(lease)
    }
    if (this.#ends.size === this.leases.length) this.#end()
  }

  #end(): void {
    const { over, sink } = this.#options
    const ends = this.leases.map((_, index) => this.#ends.get(index)).filter((end) => end !== undefined)
    // Cancelling the others may have ended the last of them within the first's end.
    this.#ends.clear()
    const measurement = resumedBy(
      summed(
        ends.map((end) => end.measurement),
        this.#options.prompts,
      ),
      this.#options.resume?.tokens.length ?? 0,
    )
    const failed = ends.find(({ reason }) => reason === 'failed')
    if (failed !== undefined || ends.some(({ reason }) => reason === 'cancelled')) {
      over([])
      const error = failed === undefined ? this.#error : failureError(failed.failure)
      const outcome = failed === undefined ? 'cancelled' : 'failed'
      sink.ended({ outcome, finish_reason: null, error, measurement, last_chunks: [] })
      return
    }
    over(ends.flatMap(({ answer }) => answer ?? []))
    const finish_reason = ends[0]?.finish_reason ?? null
    const last_chunks = this.#lastChunks(ends, measurement)
    sink.ended({ outcome: 'completed', finish_reason, error: null, measurement, last_chunks })
  }

  #lastChunks(ends: readonly ChoiceEnd[], measurement: Measurement): object[] {
    const { chunks, claims, emulated, ordering } = this.#options
    const { prompt_tokens, output_tokens, resumed_tokens, cached_tokens } = measurement
    const completion_tokens = resumed_tokens + output_tokens
    const switchyard = usageExtension(claims, measurement, ordering, emulated, ends.length)
    const finishes = ends.map(({ finish_reason, stop }, index) =>
      chunks.finish(index, { reason: finish_reason ?? 'stop', stop }),
    )
    const usage = chunks.usage({ prompt_tokens, completion_tokens, cached_tokens, switchyard })
    return usage === null ? finishes : [...finishes, usage]
  }
}

function failureError(failure: ChoiceEnd['failure']): StreamError {
  if (failure === 'deadline_exceeded') return deadlineExceeded()
  return failure === 'output_incomplete' ? incompleteOutput() : engineFailed('the engine failed')
}
