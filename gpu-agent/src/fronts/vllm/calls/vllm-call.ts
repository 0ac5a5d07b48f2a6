/**
 * One lease on a server: its HTTP request, and the records that the plug-in sends of it (one per choice). The end of the HTTP
 * stream decides how the call ended (a stop string is found by vLLM's front end, and its record says `cancelled`); the
 * records say what it cost. So the end waits for the records, at most RECORD_WAIT_MS, and after that the call is measured
 * from what was charged so far, else from outside (call-clock.ts).
 *
 * Before a server without our plug-in the call waits in the agent's own queue (fronts/attached/). It is sent when its turn
 * comes, and may be taken back until it has output, or stopped in it where it can go on later; its client hears nothing of
 * either.
 *
 * The sink hears `refused` alone, or `accepted`, chunks, `ended` once. Every end passes `#settle`, which brings the ledger to
 * what the end says before it says it.
 */
import type { IncomingHttpHeaders } from 'node:http'
import {
  type Generated,
  joinedGenerated,
  type Measurement,
  type QueuePosition,
  type StreamError,
  type TicketClaims,
  type UsageExtension,
} from '../../../../../src/protocol/index.ts'
import type { NoRoom, QueuedCall } from '../../../../engine/queue/call-queue.ts'
import { noEmbeddings, noText } from '../../../openai/embeddings.ts'
import { deadlineExceeded, engineFailed, unavailable } from '../../../openai/errors.ts'
import type { LedgerSums } from '../../../outbox/record.ts'
import type { CallGate, ServerQueue } from '../../attached/server-queue.ts'
import type { CallEnd, CallSink } from '../../engine-front.ts'
import { CALL_OPEN_US_MAX, orderedCall } from '../../local/engine-call.ts'
import { resumedBy, usageExtension } from '../../local/lease-measurement.ts'
import type { EngineRecord } from '../channel/channel-messages.ts'
import { chargedAs, measurementOf, sumsOf } from '../channel/record-sums.ts'
import type { CallAnswer } from './answer-stream.ts'
import { CallClock } from './call-clock.ts'
import type { CallEndFrame } from './call-end-frame.ts'
import { LeaseMeter } from './lease-meter.ts'
import type { Leg, StoppedLegs } from './stopped-legs.ts'
import { isMissingRoute, type Refusal, refusalOf, streamedError } from './vllm-errors.ts'
import type { VllmRequest, VllmRequestEnd, VllmRequestListener } from './vllm-request.ts'

/** A record follows the last token by one step and 20 ms. */
export const RECORD_WAIT_MS = 2000
/** Chunks of an answer for each token that it may have, and beside them. A server that sends more does not end. */
const PIECES_PER_TOKEN_MAX = 4
const PIECES_SPARE = 256
/** Fewer than text has in most languages and vocabularies, so that an estimate is high. */
const OUTPUT_BYTES_PER_TOKEN = 3
/** How often a call without a plug-in is charged. */
const OWN_CHARGE_US = 200_000

export interface VllmCallOptions {
  claims: TicketClaims
  sink: CallSink
  frame: CallEndFrame
  answer: CallAnswer
  /** What another engine generated of it, and this one computes with the prompt. */
  resumed_tokens: number
  /** As what the server counts those. */
  resumed_as: 'prompt' | 'output'
  choices: number
  /** Prompts of the call. */
  prompts: number
  /** What the prompt probably has, until vLLM says. */
  prompt_tokens: number
  prompt_param: 'messages' | 'prompt' | 'input'
  /** Its output comes as it is made. */
  streams: boolean
  ordering: 'wall' | 'modelled'
  /** For the operator. */
  server_name: string
  /** Whether a plug-in sends records. */
  records: boolean
  record_wait_ms: number
  clock: () => number
  /** The agent's queue before the server. Null: the call goes at once. */
  queue: ServerQueue | null
  /** It may be stopped in its output, and goes on later. Null: it may not. */
  legs: StoppedLegs | null
  /** Of the answer, at most; for the queue. */
  output_tokens_max: number
  post: (listener: VllmRequestListener) => VllmRequest
  /** Writes the row of a sum that grew. */
  charge: (meter: LeaseMeter, sums: LedgerSums) => void
  /** It waits in the agent's queue, or no longer. */
  waits: (here: boolean) => void
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
  #answer: CallAnswer
  #post: VllmCallOptions['post']
  /** How it goes on once it is stopped. */
  #next: Leg | null = null
  readonly #records: EngineRecord[] = []
  readonly #deadline: NodeJS.Timeout
  #http_request: VllmRequest | null = null
  #gate: CallGate | null = null
  /** Output of which the queue has been told. */
  #told_pieces = 0
  #told_wall_us = 0
  #accepted = false
  #state: 'queued' | 'requesting' | 'streaming' | 'settling' | 'over' = 'queued'
  #end: HttpEnd | null = null
  #wait: NodeJS.Timeout | null = null
  #own_charge_us = 0
  /** What no chunk has told of. */
  #untold: Generated = []
  #expects_records: boolean

  constructor(options: VllmCallOptions) {
    this.#options = options
    this.claims = options.claims
    this.choices = options.choices
    this.#expects_records = options.records
    this.meter = new LeaseMeter(options.claims)
    this.#clock = new CallClock(options.clock, options.queue?.prefill ?? null)
    this.#answer = options.answer
    this.#post = options.post
    if (!options.streams) this.#clock.allService()
    this.#deadline = setTimeout(() => this.#close('failed', deadlineExceeded()), CALL_OPEN_US_MAX / 1000)
  }

  /** In the agent's own queue. Null: it is in none. */
  get position(): Omit<QueuePosition, 'lease'> | null {
    return this.#gate?.position ?? null
  }

  /** The call goes, or waits for its turn. An error says that the queue is full: the call has not begun, and is over. */
  begin(): StreamError | null {
    const { queue, prompt_tokens, output_tokens_max, streams } = this.#options
    if (queue === null) {
      this.#send()
      return null
    }
    const { choices } = this
    const size = { prompt_tokens, output_tokens_max: output_tokens_max * choices, choices: streams ? choices : 1 }
    const queued: QueuedCall = {
      send: () => this.#send(),
      takeBack: () => this.#takeBack(),
      mayStop: () => this.#mayStop(),
      refuse: (why) => this.#giveUp(why),
    }
    const entered = queue.enter(orderedCall(this.claims), size, queued)
    if (entered.ok) {
      this.#gate = entered.gate
      this.#options.waits(true)
      return null
    }
    this.#over(null, false)
    return entered.error
  }

  accepted(headers: IncomingHttpHeaders): void {
    this.#gate?.heard(headers)
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
    const refusal = streamedError(chunk, this.#options.prompt_param, this.#options.server_name)
    if (refusal !== null) {
      this.#options.faulty(refusal)
      // What vLLM refuses of a body it has not queued.
      this.#close('failed', refusal.error, refusal.error.retryable)
      return
    }
    this.#read(chunk, data)
  }

  ended(end: VllmRequestEnd): void {
    if (end.kind === 'done') {
      if (this.#answer.whole) this.#ended({ outcome: 'completed', error: null })
      else this.#ended({ outcome: 'failed', error: engineFailed('the engine ended a stream in its middle') })
      return
    }
    // Some servers end a stream without an end mark.
    if (end.kind === 'cut' && end.complete && this.#answer.whole) {
      this.#ended({ outcome: 'completed', error: null })
      return
    }
    const refused = end.kind === 'refused' && hasNoRoom(end.status) && this.#state === 'requesting'
    const here = refused ? this.#gate?.refusedThere(end) : undefined
    if (here?.waits === true) {
      this.#waitAgain()
      return
    }
    if (here?.waits === false && here.error !== null) {
      this.#refuseOrFail(here.error)
      return
    }
    const refusal = this.#refusalOf(end)
    this.#options.faulty(refusal)
    this.#refuseOrFail(refusal.error)
  }

  #refuseOrFail(error: StreamError): void {
    if (this.#isUnknown()) this.#refuse(error)
    else {
      this.#accept()
      this.#ended({ outcome: 'failed', error })
    }
  }

  /** Its turn cannot come while it lives. */
  #giveUp(why: NoRoom): void {
    if (this.#state === 'queued' && this.#gate !== null) this.#refuseOrFail(this.#gate.errorOf(why))
  }

  #refusalOf(end: Exclude<VllmRequestEnd, { kind: 'done' }>): Refusal {
    const { prompt_param, server_name } = this.#options
    if (end.kind === 'refused' && isMissingRoute(end)) {
      return { error: this.#options.streams ? noText() : noEmbeddings(), report: null, suspect: false }
    }
    return refusalOf(end, prompt_param, server_name)
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
    this.#http_request?.abort()
    if (this.#isUnknown()) this.#refuse(unavailable('engine_down', 'the engine died'))
    else {
      this.#accept()
      this.#end ??= { outcome: 'failed', error: engineFailed('the engine died') }
      this.#clock.ended()
      this.#settle()
    }
  }

  #read(chunk: unknown, data: string): void {
    const reading = this.#answer.read(chunk, data)
    if (!reading.ok) {
      this.#options.faulty({
        error: engineFailed(''),
        report: `${this.#options.server_name} sent ${reading.broken}`,
        suspect: false,
      })
      this.#fail(engineFailed('the engine sent what is no answer'))
      return
    }
    if (reading.chunks.length > 0) this.#options.progressed()
    if (this.#answer.pieces > 0) {
      this.#clock.output()
      this.#gate?.answered()
    }
    if (!this.#options.records) this.#chargeOwn()
    if (this.#pieces > this.#pieces_max) {
      const report = `${this.#options.server_name} does not end its answers: a call had ${this.#pieces} chunks`
      this.#options.faulty({ error: engineFailed(''), report, suspect: false })
      this.#fail(engineFailed('the engine did not end its answer'))
      return
    }
    this.#untold = joinedGenerated(this.#untold, reading.tokens ?? [])
    for (const [at, outgoing] of reading.chunks.entries()) {
      // The sink may cancel the call while it is given a chunk.
      if (this.#state !== 'streaming') return
      const is_last = at === reading.chunks.length - 1
      const told = is_last ? this.#told() : []
      this.#options.legs?.delivered(outgoing, told)
      this.#options.sink.chunk(outgoing, told)
    }
  }

  #told(): Generated {
    const told = this.#untold
    this.#untold = []
    return told
  }

  #send(): void {
    this.#state = 'requesting'
    this.#options.waits(false)
    this.#clock.sent()
    this.#http_request = this.#post(this)
  }

  #takeBack(): void {
    this.#http_request?.abort()
    this.#http_request = null
    if (this.#next !== null && this.#answer.pieces > 0) this.#stop(this.#next)
    this.#waitAgain()
  }

  #mayStop(): boolean {
    const { legs } = this.#options
    if (legs === null || this.#state !== 'streaming' || this.#answer.whole) return false
    this.#next = legs.next()
    return this.#next !== null
  }

  #stop({ answer, post }: Leg): void {
    this.#clock.stopped()
    this.#options.legs?.stop(this.#answer)
    this.#answer = answer
    this.#post = post
    this.#next = null
    // What the client lacks is generated again.
    this.#untold = []
  }

  /** Of all times that it was sent. */
  get #pieces(): number {
    return (this.#options.legs?.pieces ?? 0) + this.#answer.pieces
  }

  #waitAgain(): void {
    this.#state = 'queued'
    this.#options.waits(true)
  }

  get #pieces_max(): number {
    return PIECES_SPARE + PIECES_PER_TOKEN_MAX * this.choices * this.#options.output_tokens_max
  }

  #chargeOwn(): void {
    this.#chargeQueue()
    const now_us = this.#options.clock()
    if (now_us - this.#own_charge_us < OWN_CHARGE_US) return
    this.#own_charge_us = now_us
    this.#options.charge(this.meter, this.#clock.sumsSoFar(this.#pieces))
  }

  #fail(error: StreamError): void {
    this.#close('failed', error)
  }

  /** Ends the request from this side: vLLM aborts the call. `queued`: its scheduler may have it. */
  #close(outcome: 'cancelled' | 'failed', error: StreamError | null, queued = true): void {
    if (this.#state === 'settling' || this.#state === 'over') return
    this.#http_request?.abort()
    this.#expects_records &&= queued && !this.#isUnknown()
    this.#accept()
    this.#ended({ outcome, error })
  }

  /** vLLM answers before it queues; but what it then charges may be heard before its answer. */
  #isUnknown(): boolean {
    const { wall_us, modelled_us } = this.meter.total
    const isOpen = this.#state === 'requesting' || this.#state === 'queued'
    return isOpen && !this.#accepted && wall_us + modelled_us + this.#records.length === 0
  }

  #accept(): void {
    if (this.#state === 'requesting' || this.#state === 'queued') this.#state = 'streaming'
    if (this.#accepted) return
    this.#accepted = true
    this.#options.sink.accepted(this.#options.prompt_tokens)
  }

  #refuse(error: StreamError): void {
    this.#over(null, false)
    this.#options.sink.refused(error)
  }

  #ended(end: HttpEnd): void {
    this.#end = end
    // An answer may be empty, and its prompt was computed all the same.
    if (end.outcome === 'completed') this.#clock.output()
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
    const measured = this.#measurement()
    const measurement = { ...measured, ...this.#gate?.outlook, ...this.#queueWait(measured) }
    this.#leaveQueue(measurement)
    const error = end.outcome === 'completed' ? null : end.error
    const last_chunks = end.outcome === 'completed' ? this.#lastChunks(measurement) : []
    const finish_reason = end.outcome === 'completed' ? (this.#answer.finishes[0]?.reason ?? null) : null
    this.#over(measurement, this.#expects_records && !this.#hasRecords())
    this.#options.sink.ended({ outcome: end.outcome, finish_reason, error, measurement, last_chunks })
  }

  /** Charges what the chunks since the last time have cost. The prompt comes with the usage. */
  #chargeQueue(): void {
    if (this.#gate === null) return
    const { wall_us } = this.#clock.sumsSoFar(this.#pieces)
    const output_tokens = this.#pieces - this.#told_pieces
    if (output_tokens === 0) return
    const charged = { uncached_prompt_tokens: 0, cached_prompt_tokens: 0, output_tokens }
    this.#gate.charge(charged, wall_us - this.#told_wall_us)
    this.#told_pieces = this.#pieces
    this.#told_wall_us = wall_us
  }

  #leaveQueue({ prompt_tokens, cached_tokens, output_tokens, service_wall_us, first_token_us }: Measurement): void {
    if (this.#gate === null) return
    const began = first_token_us !== null || output_tokens > 0
    if (began) {
      const rest = {
        uncached_prompt_tokens: prompt_tokens - cached_tokens,
        cached_prompt_tokens: cached_tokens,
        output_tokens: Math.max(0, output_tokens - this.#told_pieces),
      }
      this.#gate.charge(rest, Math.max(0, service_wall_us - this.#told_wall_us))
    }
    const { usage } = this.#answer
    this.#gate.ended(began ? { prompt_tokens, output_tokens, cached_tokens: usage?.cached_tokens ?? null } : null)
    this.#gate = null
  }

  /** Brings the ledger to what it says. */
  #measurement(): Measurement {
    const { charge, prompt_tokens } = this.#options
    const charged = this.meter.total
    const { legs } = this.#options
    const { usage } = this.#answer
    const outside = {
      ...this.#clock.measured(legs?.usage(usage) ?? usage, this.#outputEstimate(), prompt_tokens),
      recomputed_tokens: legs?.recomputedTokens(usage, this.#answer.pieces > 0) ?? 0,
    }
    const first_token_us = this.#options.streams ? outside.first_token_us : null
    const records = this.#records
    if (records.length > 0) charge(this.meter, sumsOf(records))
    else if (!this.#options.records || charged.wall_us === 0) charge(this.meter, sumsOfMeasurement(outside))
    const { total } = this.meter
    const { resumed_tokens, resumed_as } = this.#options
    if (records.length > 0) {
      const recorded = resumedBy(chargedAs(measurementOf(records, this.#options.prompts), total), resumed_tokens)
      return { ...recorded, output_tokens: Math.min(recorded.output_tokens, this.#answered(resumed_tokens)) }
    }
    const resumed_output = resumed_as === 'output' ? resumed_tokens : 0
    const output_tokens = Math.max(outside.output_tokens - resumed_output, total.sampled_tokens)
    const wait_us = Math.max(0, outside.duration_us - total.wall_us)
    const preemptions = this.#gate?.take_backs ?? 0
    const measured = chargedAs({ ...outside, output_tokens, wait_us, first_token_us, preemptions }, total)
    return resumed_as === 'prompt' ? resumedBy(measured, resumed_tokens) : { ...measured, resumed_tokens }
  }

  /**
   * Tokens of the answer, without what it was resumed from. After a stop string the engine computes more until it hears that vLLM's
   * front end has seen it, and how many depends on how busy the machine is.
   */
  #answered(resumed_tokens: number): number {
    const { usage } = this.#answer
    return usage === null ? Number.POSITIVE_INFINITY : Math.max(0, usage.output_tokens - resumed_tokens)
  }

  /** Of an answer whose server tells no usage: a chunk has a token at least, and most chunks of some servers have several. */
  #outputEstimate(): number {
    const by_text = Math.ceil(this.#answer.text_bytes / OUTPUT_BYTES_PER_TOKEN)
    const tokens = (this.#options.legs?.pieces ?? 0) + Math.max(this.#answer.pieces, by_text)
    return Math.max(this.#pieces, Math.min(tokens, this.choices * this.#options.output_tokens_max))
  }

  get #isEstimated(): boolean {
    return this.#answer.usage === null && this.#records.length === 0
  }

  #lastChunks(measurement: Measurement): readonly object[] {
    const { frame, ordering } = this.#options
    const { prompt_tokens, cached_tokens } = measurement
    const output_tokens = measurement.resumed_tokens + measurement.output_tokens
    const extension = usageExtension(this.claims, measurement, ordering, false, this.choices)
    const estimated = this.#isEstimated ? { tokens: 'estimated' as const } : {}
    const outside = this.#options.records ? {} : this.#outside(measurement)
    const switchyard = { ...extension, ...outside, ...estimated }
    const usage = { prompt_tokens, completion_tokens: output_tokens, cached_tokens, switchyard }
    return frame.last(this.#answer.finishes, usage)
  }

  /** How much of its wait was here. The rest was at the server. A plug-in measures the wait in its engine, before which there is no queue. */
  #queueWait({ wait_us }: Measurement): Pick<Measurement, 'queue_wait_us'> {
    return this.#options.records ? {} : { queue_wait_us: Math.min(wait_us, this.#gate?.waited_us ?? 0) }
  }

  #outside({ wait_us, queue_wait_us = 0 }: Measurement): Partial<UsageExtension> {
    return {
      measured: 'outside',
      ...{ queue_wait_s: queue_wait_us / 1e6, server_wait_s: (wait_us - queue_wait_us) / 1e6 },
    }
  }

  #over(measurement: Measurement | null, missing: boolean): void {
    this.#state = 'over'
    this.#gate?.ended(null)
    this.#gate = null
    clearTimeout(this.#deadline)
    if (this.#wait !== null) clearTimeout(this.#wait)
    this.#options.over(measurement, missing)
  }
}

/** By status. Its place in the agent's queue is kept for the call. */
function hasNoRoom(status: number): boolean {
  return status === 429 || status === 503 || status === 529
}

function sumsOfMeasurement(measurement: Measurement): LedgerSums {
  const { prompt_tokens, cached_tokens, output_tokens, recomputed_tokens } = measurement
  const { service_wall_us, service_modelled_us } = measurement
  const began = measurement.first_token_us !== null
  return {
    wall_us: service_wall_us,
    modelled_us: service_modelled_us,
    computed_tokens: began ? prompt_tokens - cached_tokens + recomputed_tokens + Math.max(0, output_tokens - 1) : 0,
    sampled_tokens: output_tokens,
  }
}
