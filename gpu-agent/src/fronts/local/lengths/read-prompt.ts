/**
 * A call whose prompt is read before it runs. Reading is a call of the engine that computes the prompt and gives its
 * embedding; then the call itself follows under the same lease and finds the prompt's KV. The lease's measurement is the sum
 * of both, as its ledger rows are.
 */
import type { CallForecast } from '../../../../../src/core/call/forecast.ts'
import { type Measurement, NOTHING_MEASURED, type TicketClaims } from '../../../../../src/protocol/index.ts'
import type { CallListener, DriverVerdict } from '../../../../engine/driver.ts'
import type { EngineCall } from '../../../../engine/types.ts'
import { CALL_OPEN_US_MAX, embeddingCall } from '../engine-call.ts'
import type { PromptLengths } from './prompt-lengths.ts'

/** What is read is followed by its own call and by no tool: no context is left between the two. */
const NO_TOOL: CallForecast = { output_tokens: 0, ends: 1, tool: null, confidence: 1 }

export interface PromptReading {
  claims: TicketClaims
  call: EngineCall
  /** Who hears of the call. */
  listener: CallListener
  lengths: PromptLengths
  submit: (call: EngineCall, listener: CallListener) => DriverVerdict
}

/** Opens the reading. Refused: the listener hears nothing. */
export function readPrompt(asked: PromptReading): DriverVerdict {
  const { claims, call, listener, submit } = asked
  const { deadline_us = CALL_OPEN_US_MAX } = call
  let embedding: Float32Array | null = null
  const reading = { ...embeddingCall(claims, call.prompt, deadline_us, false), forecast: NO_TOOL }
  return submit(reading, {
    token: () => undefined,
    embedding: (vector) => {
      embedding = Float32Array.from(vector)
    },
    ended: (reason, read, failure) => {
      if (embedding === null || reason === 'cancelled' || reason === 'failed') listener.ended(reason, read, failure)
      else follow(asked, deadline_us - read.duration_us, embedding, read)
    },
  })
}

function follow(
  { call, listener, lengths, submit }: PromptReading,
  left_us: number,
  embedding: Float32Array,
  read: Measurement,
): void {
  const { forecast } = call
  const told = forecast === undefined ? {} : { forecast: lengths.forecast(forecast, embedding) }
  const next: EngineCall = { ...call, ...told, continues: true, deadline_us: Math.max(0, left_us) }
  const verdict = submit(next, {
    prompt: (logprobs) => listener.prompt?.(logprobs),
    token: (token, logprobs) => listener.token(token, logprobs),
    ended: (reason, measurement, failure) => {
      if (reason === 'stop' || reason === 'length')
        lengths.answered(embedding, measurement.output_tokens, forecast?.output_tokens ?? null)
      listener.ended(reason, after(read, measurement), failure)
    },
  })
  // An engine that has room for the reading has room for the call, unless it is going away.
  if (!verdict.ok) listener.ended('failed', after(read, NOTHING_MEASURED), 'engine_lost')
}

/** Of the call with what reading its prompt took before it. What was cached of the prompt is what the reading found. */
function after(read: Measurement, own: Measurement): Measurement {
  return {
    ...own,
    prompt_tokens: read.prompt_tokens,
    cached_tokens: read.cached_tokens,
    service_wall_us: read.service_wall_us + own.service_wall_us,
    service_modelled_us: read.service_modelled_us + own.service_modelled_us,
    wait_us: read.wait_us + own.wait_us,
    preemptions: read.preemptions + own.preemptions,
    resumed_tokens: read.resumed_tokens + own.resumed_tokens,
    swapped_out_tokens: read.swapped_out_tokens + own.swapped_out_tokens,
    swapped_in_tokens: read.swapped_in_tokens + own.swapped_in_tokens,
    recomputed_tokens: read.recomputed_tokens + own.recomputed_tokens,
    swap_us: read.swap_us + own.swap_us,
    first_token_us: own.first_token_us === null ? null : read.duration_us + own.first_token_us,
    duration_us: read.duration_us + own.duration_us,
  }
}
