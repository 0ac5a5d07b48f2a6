/**
 * One lease on a vLLM: its HTTP request, and the records that the plug-in sends of it (one per choice). The end of the HTTP
 * stream decides how the call ended (a stop string is found by vLLM's front end, and its record says `cancelled`); the
 * records say what it cost. So the end waits for the records, at most RECORD_WAIT_MS, and after that the call is measured
 * from what was charged so far, else from outside (call-clock.ts).
 *
 * The sink hears `refused` alone, or `accepted`, chunks, `ended` once. Every end passes `#settle`, which brings the ledger to
 * what the end says before it says it.
 */
import type { Measurement, StreamError, TicketClaims } from '../../../../../src/protocol/index.ts'
import type { ChunkFrame } from '../../../openai/chunk-frame.ts'
import { noEmbeddings, noText } from '../../../openai/embeddings.ts'
import { deadlineExceeded, engineFailed, unavailable } from '../../../openai/errors.ts'
import type { LedgerSums } from '../../../outbox/record.ts'
import type { CallEnd, CallSink } from '../../engine-front.ts'
import { CALL_OPEN_US_MAX } from '../../local/engine-call.ts'
import { usageExtension } from '../../local/lease-measurement.ts'
import type { EngineRecord } from '../channel/channel-messages.ts'
import { chargedAs, measurementOf, sumsOf } from '../channel/record-sums.ts'
import type { CallAnswer } from './answer-stream.ts'
import { CallClock } from './call-clock.ts'
import { LeaseMeter } from './lease-meter.ts'
import { isMissingRoute, type Refusal, refusalOf, streamedError } from './vllm-errors.ts'
import type { VllmRequest, VllmRequestEnd, VllmRequestListener } from './vllm-request.ts'

/** A record follows the last token by one step and 20 ms. */
export const RECORD_WAIT_MS = 2000
/** How often a call without a plug-in is charged. */
const OWN_CHARGE_US = 200_000

export interface VllmCallOptions {
  claims: TicketClaims
  sink: CallSink
  frame: Pick<ChunkFrame, 'finish' | 'usage'>
  answer: CallAnswer
  choices: number
  /** Prompts of the call. */
  prompts: number
  /** What the prompt probably has, until vLLM says. */
  prompt_tokens: number
  prompt_param: 'messages' | 'prompt' | 'input'
  ordering: 'wall' | 'modelled'
  /** Whether a plug-in sends records. */
  records: boolean
  record_wait_ms: number
  clock: () => number
  post: (listener: VllmRequestListener) => VllmRequest
  /** Writes the row of a sum that grew. */
  charge: (meter: LeaseMeter, sums: LedgerSums) => void
  /** Output came: the engine lives. */
  progressed: () => void
  /** The operator should hear of it, or the server be looked at. */
  faulty: (refusal: Refusal) => void
  /** The lease is over. `missing`: it ended without all its records. */
  over: (measurement: Measurement | null, missing: boolean) => void
}

type HttpEnd = { outcome: CallEnd['outcome']; error: StreamError | null }

export class VllmCall implements VllmRequestListener {
  readonly claims: TicketClaims
  readonly choices: number
  readonly meter: LeaseMeter
  readonly #options: VllmCallOptions
  readonly #clock: CallClock
  readonly #answer: CallAnswer
  readonly #records: EngineRecord[] = []
  readonly #deadline: NodeJS.Timeout
  readonly #http_request: VllmRequest
  #state: 'requesting' | 'streaming' | 'settling' | 'over' = 'requesting'
  #end: HttpEnd | null = null
  #wait: NodeJS.Timeout | null = null
  #own_charge_us = 0
  #expects_records: boolean

  constructor(options: VllmCallOptions) {
    this.#options = options
    this.claims = options.claims
    this.choices = options.choices
    this.#expects_records = options.records
    this.meter = new LeaseMeter(options.claims)
    this.#clock = new CallClock(options.clock)
    this.#answer = options.answer
    if (options.prompt_param === 'input') this.#clock.allService()
    this.#deadline = setTimeout(() => this.#close('failed', deadlineExceeded()), CALL_OPEN_US_MAX / 1000)
    this.#http_request = options.post(this)
  }

  accepted(): void {
    this.#accept()
  }

  data(data: string): void {
    let chunk: unknown
    try {
      chunk = JSON.parse(data)
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
      this.#fail(engineFailed('the engine sent what is not JSON'))
      return
    }
    const refusal = streamedError(chunk, this.#options.prompt_param)
    if (refusal !== null) {
      this.#options.faulty(refusal)
      // What vLLM refuses of a body it has not queued.
      this.#close('failed', refusal.error, refusal.error.retryable)
      return
    }
    this.#read(chunk)
  }

  ended(end: VllmRequestEnd): void {
    if (end.kind === 'done') {
      if (this.#answer.whole) this.#ended({ outcome: 'completed', error: null })
      else this.#ended({ outcome: 'failed', error: engineFailed('the engine ended a stream in its middle') })
      return
    }
    const refusal = this.#refusalOf(end)
    this.#options.faulty(refusal)
    if (this.#isUnknown()) this.#refuse(refusal.error)
    else {
      this.#accept()
      this.#ended({ outcome: 'failed', error: refusal.error })
    }
  }

  #refusalOf(end: Exclude<VllmRequestEnd, { kind: 'done' }>): Refusal {
    const { prompt_param } = this.#options
    if (end.kind === 'refused' && isMissingRoute(end)) {
      return { error: prompt_param === 'input' ? noEmbeddings() : noText(), report: null, suspect: false }
    }
    return refusalOf(end, prompt_param)
  }

  /** Ends as cancelled, with the record of what was done up to here. */
  cancel(error: StreamError | null): void {
    this.#close('cancelled', error)
  }

  /** One of the call's records has come. False: the call is over or has all of them. */
  record(record: EngineRecord): boolean {
    if (this.#state === 'over' || this.#records.length >= this.choices) return false
    this.#records.push(record)
    if (this.#state === 'settling' && this.#hasRecords()) this.#settle()
    return true
  }

  /** The server is gone, and with it what it measured and did not tell. */
  lost(): void {
    if (this.#state === 'over') return
    this.#http_request.abort()
    if (this.#isUnknown()) this.#refuse(unavailable('engine_down', 'the engine died'))
    else {
      this.#accept()
      this.#end ??= { outcome: 'failed', error: engineFailed('the engine died') }
      this.#clock.ended()
      this.#settle()
    }
  }

  #read(chunk: unknown): void {
    const reading = this.#answer.read(chunk)
    if (!reading.ok) {
      this.#options.faulty({ error: engineFailed(''), report: `vLLM sent ${reading.broken}`, suspect: false })
      this.#fail(engineFailed('the engine sent what is no answer'))
      return
    }
    if (reading.chunks.length > 0) {
      this.#clock.output()
      this.#options.progressed()
    }
    if (!this.#options.records) this.#chargeOwn()
    for (const outgoing of reading.chunks) {
      // The sink may cancel the call while it is given a chunk.
      if (this.#state !== 'streaming') return
      this.#options.sink.chunk(outgoing)
    }
  }

  #chargeOwn(): void {
    const now_us = this.#options.clock()
    if (now_us - this.#own_charge_us < OWN_CHARGE_US) return
    this.#own_charge_us = now_us
    this.#options.charge(this.meter, this.#clock.sumsSoFar(this.#answer.pieces))
  }

  #fail(error: StreamError): void {
    this.#close('failed', error)
  }

  /** Ends the request from this side: vLLM aborts the call. `queued`: its scheduler may have it. */
  #close(outcome: 'cancelled' | 'failed', error: StreamError | null, queued = true): void {
    if (this.#state === 'settling' || this.#state === 'over') return
    this.#http_request.abort()
    this.#expects_records &&= queued && !this.#isUnknown()
    this.#accept()
    this.#ended({ outcome, error })
  }

  /** vLLM answers before it queues; but what it then charges may be heard before its answer. */
  #isUnknown(): boolean {
    const { wall_us, modelled_us } = this.meter.total
    return this.#state === 'requesting' && wall_us + modelled_us + this.#records.length === 0
  }

  #accept(): void {
    if (this.#state !== 'requesting') return
    this.#state = 'streaming'
    this.#options.sink.accepted(this.#options.prompt_tokens)
  }

  #refuse(error: StreamError): void {
    this.#over(null, false)
    this.#options.sink.refused(error)
  }

  #ended(end: HttpEnd): void {
    this.#end = end
    this.#clock.ended()
    this.#state = 'settling'
    if (this.#hasRecords() || !this.#expects_records) this.#settle()
    else this.#wait = setTimeout(() => this.#settle(), this.#options.record_wait_ms)
  }

  #hasRecords(): boolean {
    return this.#records.length === this.choices
  }

  #settle(): void {
    const end = this.#end
    if (end === null) throw new Error('a call settles after its end')
    const measurement = this.#measurement()
    const error = end.outcome === 'completed' ? null : end.error
    const last_chunks = end.outcome === 'completed' ? this.#lastChunks(measurement) : []
    const finish_reason = end.outcome === 'completed' ? (this.#answer.finishes[0]?.reason ?? null) : null
    this.#over(measurement, this.#expects_records && !this.#hasRecords())
    this.#options.sink.ended({ outcome: end.outcome, finish_reason, error, measurement, last_chunks })
  }

  /** Brings the ledger to what it says. */
  #measurement(): Measurement {
    const { charge, prompt_tokens } = this.#options
    const charged = this.meter.total
    const outside = this.#clock.measured(this.#answer.usage, this.#answer.pieces, prompt_tokens)
    const first_token_us = this.#options.prompt_param === 'input' ? null : outside.first_token_us
    const records = this.#records
    if (records.length > 0) charge(this.meter, sumsOf(records))
    else if (!this.#options.records || charged.wall_us === 0) charge(this.meter, sumsOfMeasurement(outside))
    const { total } = this.meter
    if (records.length > 0) return chargedAs(measurementOf(records, this.#options.prompts), total)
    const output_tokens = Math.max(outside.output_tokens, total.sampled_tokens)
    const wait_us = Math.max(0, outside.duration_us - total.wall_us)
    return chargedAs({ ...outside, output_tokens, wait_us, first_token_us }, total)
  }

  #lastChunks(measurement: Measurement): object[] {
    const { frame, ordering } = this.#options
    const { prompt_tokens, output_tokens, cached_tokens } = measurement
    const switchyard = usageExtension(this.claims, measurement, ordering, false, this.choices)
    const finishes = this.#answer.finishes.map((finish, index) => frame.finish(index, finish))
    const usage = frame.usage({ prompt_tokens, completion_tokens: output_tokens, cached_tokens, switchyard })
    return usage === null ? finishes : [...finishes, usage]
  }

  #over(measurement: Measurement | null, missing: boolean): void {
    this.#state = 'over'
    clearTimeout(this.#deadline)
    if (this.#wait !== null) clearTimeout(this.#wait)
    this.#options.over(measurement, missing)
  }
}

function sumsOfMeasurement(measurement: Measurement): LedgerSums {
  const { prompt_tokens, cached_tokens, output_tokens, service_wall_us, service_modelled_us } = measurement
  const began = measurement.first_token_us !== null
  return {
    wall_us: service_wall_us,
    modelled_us: service_modelled_us,
    computed_tokens: began ? prompt_tokens - cached_tokens + Math.max(0, output_tokens - 1) : 0,
    sampled_tokens: output_tokens,
  }
}
