/**
 * One lease of embeddings on a local engine. Each input is a call of the engine that computes a prompt and samples nothing;
 * the scheduler places, orders and charges it as any other prefill. They follow one another, so the lease takes one seat,
 * however many inputs it has, and each waits for its turn behind programs that have received less.
 *
 * All of them have the lease's own name, since one has ended before the next is open: the ledger's rows are the lease's.
 */
import type { Measurement, StreamError, TicketClaims } from '../../../../src/protocol/index.ts'
import { NOTHING_MEASURED } from '../../../../src/protocol/index.ts'
import type { CallListener, DriverVerdict } from '../../../engine/driver.ts'
import type { EndReason, FailureCode } from '../../../engine/types.ts'
import { type EmbeddingFrame, type EmbeddingInput, encodedVector, normalised } from '../../openai/embeddings.ts'
import { deadlineExceeded, engineFailed } from '../../openai/errors.ts'
import type { CallEnd, CallSink } from '../engine-front.ts'
import { CALL_OPEN_US_MAX } from './engine-call.ts'
import { usageExtension } from './lease-measurement.ts'
import { submitError } from './submit-error.ts'

export interface LocalEmbeddingOptions {
  claims: TicketClaims
  /** Token ids of each input; at least one. */
  prompts: readonly (readonly number[])[]
  encoding: EmbeddingInput['encoding']
  frame: EmbeddingFrame
  sink: CallSink
  ordering: 'wall' | 'modelled'
  emulated: boolean
  /** Opens the engine's call of one input. `index` 0 may be refused for want of room. */
  submit: (prompt: readonly number[], index: number, deadline_us: number, listener: CallListener) => DriverVerdict
  /** The lease is over. */
  over: () => void
}

export class LocalEmbedding {
  readonly leases: readonly string[]
  readonly #options: LocalEmbeddingOptions
  #index = 0
  #total: Measurement = NOTHING_MEASURED
  #error: StreamError | null = null
  /** Of inputs that have no call on the engine yet. */
  #pending_tokens: number

  constructor(options: LocalEmbeddingOptions) {
    this.#options = options
    this.leases = [options.claims.lease]
    this.#pending_tokens = options.prompts.reduce((sum, prompt) => sum + prompt.length, 0)
  }

  get pending_tokens(): number {
    return this.#pending_tokens
  }

  /** Opens the first input's call. The sink hears nothing before. */
  begin(): DriverVerdict {
    return this.#submit()
  }

  /** Why the call will end as cancelled. */
  cancelledBy(error: StreamError | null): void {
    this.#error = error
  }

  #submit(): DriverVerdict {
    const { prompts, submit } = this.#options
    const prompt = prompts[this.#index] ?? []
    const verdict = submit(prompt, this.#index, CALL_OPEN_US_MAX - this.#total.duration_us, {
      token: () => undefined,
      embedding: (vector) => this.#embedded(vector),
      ended: (reason, measurement, failure) => this.#inputEnded(reason, measurement, failure),
    })
    if (verdict.ok) this.#pending_tokens -= prompt.length
    return verdict
  }

  #embedded(vector: Float32Array): void {
    const { sink, frame, encoding } = this.#options
    sink.chunk(frame.vector(this.#index, encodedVector(normalised(vector), encoding)))
  }

  #inputEnded(reason: EndReason, measurement: Measurement, failure: FailureCode | null): void {
    this.#total = added(this.#total, measurement)
    if (reason === 'cancelled') this.#end('cancelled', this.#error)
    else if (reason === 'failed') this.#end('failed', failureError(failure))
    else if (this.#index + 1 === this.#options.prompts.length) this.#end('completed', null)
    else if (this.#total.duration_us >= CALL_OPEN_US_MAX) this.#end('failed', deadlineExceeded())
    else this.#next()
  }

  #next(): void {
    this.#index += 1
    const verdict = this.#submit()
    if (!verdict.ok) this.#end('failed', submitError(verdict, 'embeddings'))
  }

  #end(outcome: CallEnd['outcome'], error: StreamError | null): void {
    const { over, sink, frame, claims, ordering, emulated } = this.#options
    const measurement = this.#total
    this.#pending_tokens = 0
    over()
    const switchyard = usageExtension(claims, measurement, ordering, emulated, 1)
    const usage = frame.usage({ prompt_tokens: measurement.prompt_tokens, switchyard })
    const last_chunks = outcome === 'completed' ? [usage] : []
    sink.ended({ outcome, finish_reason: null, error, measurement, last_chunks })
  }
}

function failureError(failure: FailureCode | null): StreamError {
  return failure === 'deadline_exceeded' ? deadlineExceeded() : engineFailed('the engine failed')
}

/** Of two calls, one after the other. Neither has output. */
function added(a: Measurement, b: Measurement): Measurement {
  return {
    prompt_tokens: a.prompt_tokens + b.prompt_tokens,
    cached_tokens: a.cached_tokens + b.cached_tokens,
    output_tokens: 0,
    service_wall_us: a.service_wall_us + b.service_wall_us,
    service_modelled_us: a.service_modelled_us + b.service_modelled_us,
    wait_us: a.wait_us + b.wait_us,
    preemptions: a.preemptions + b.preemptions,
    resumed_tokens: 0,
    swapped_out_tokens: a.swapped_out_tokens + b.swapped_out_tokens,
    swapped_in_tokens: a.swapped_in_tokens + b.swapped_in_tokens,
    recomputed_tokens: a.recomputed_tokens + b.recomputed_tokens,
    swap_us: a.swap_us + b.swap_us,
    first_token_us: null,
    duration_us: a.duration_us + b.duration_us,
  }
}
