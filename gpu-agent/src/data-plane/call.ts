/**
 * One authorised call, from its lease on disk to its record on disk. The front says how it went; in every case
 * (refusal, cancel, a client that left, a front that throws), exactly one record is written, and only then does the
 * client see the end.
 */
import { sequencesOf } from '../../../src/core/call/lease-terms.ts'
import type { CallRecord, Generated, Resume, StreamError, TicketClaims } from '../../../src/protocol/index.ts'
import type { CallForecasts } from '../classes/call-forecasts.ts'
import { messageOf, type Report } from '../events.ts'
import type { CallEnd, CallSink, Dialect } from '../fronts/engine-front.ts'
import { orderedCall } from '../fronts/local/engine-call.ts'
import { cannotResume } from '../openai/errors.ts'
import type { Outbox } from '../outbox/outbox.ts'
import { endWithoutService, recordOf } from '../outbox/record.ts'
import type { ServedEngine } from '../served-engine.ts'
import { AnswerTools } from './answer-tools.ts'
import type { CallStream } from './call-stream.ts'
import { isOnDisk } from './disk-wait.ts'
import type { AgentMetrics } from './metrics.ts'
import type { SpanSender } from './span-sender.ts'
import { ERRORS } from './stream-errors.ts'
import { TokenGaps } from './token-gaps.ts'

/** No call is open for as long (CALL_OPEN_US_MAX). */
const DEADLINE_WATCHED_MS_MAX = 60 * 60_000

export interface CallContext {
  outbox: Pick<Outbox, 'openLease' | 'promptTokens' | 'record'>
  metrics: AgentMetrics
  /** Null: no call is traced. */
  spans: Pick<SpanSender, 'settled'> | null
  report: Report
  wall_ms: () => number
  /** Monotonic, microseconds. */
  clock: () => number
  /** The longest that a client waits for the disk; then its call fails. */
  disk_wait_ms: number
  /** The record is on disk: it can be sent. */
  recorded: () => void
  /** What is expected of calls. Null: nothing is. */
  forecasts: Pick<CallForecasts, 'of' | 'toolUs'> | null
}

/** Where the call's chunks go. */
type CallOutput = Pick<CallStream, 'accepted' | 'chunk' | 'finish' | 'refuse'>

export class Call implements CallSink {
  readonly claims: TicketClaims
  /** Resolves when the stream has its end: the record is on disk, or the disk has failed for `disk_wait_ms`. */
  readonly settled: Promise<void>
  readonly #engine: ServedEngine
  readonly #context: CallContext
  /** The Worker's span, if it sent one. */
  readonly #traceparent: string | undefined
  readonly #gaps: TokenGaps
  readonly #tools = new AnswerTools()
  #dialect: Dialect = 'chat'
  readonly #resolve: () => void
  #stream: CallOutput | null = null
  #state: 'opened' | 'serving' | 'settling' = 'opened'
  /** Why the daemon itself ended the call. */
  #cancelled: StreamError | null = null
  #deadline: NodeJS.Timeout | null = null
  #offline_sequences = 0

  constructor(claims: TicketClaims, engine: ServedEngine, context: CallContext, traceparent?: string) {
    this.claims = claims
    this.#engine = engine
    this.#context = context
    this.#traceparent = traceparent
    this.#gaps = new TokenGaps(context.clock, (gap_us) => context.metrics.tokenGap(engine.id, gap_us))
    const { promise, resolve } = Promise.withResolvers<void>()
    this.settled = promise
    this.#resolve = resolve
  }

  /** Hands the call to its engine; its lease is on disk. `resume`: what another engine began. */
  start(dialect: Dialect, body: unknown, stream: CallOutput, resume: Resume | null = null): void {
    this.#stream = stream
    this.#dialect = dialect
    if (this.#cancelled !== null) {
      // What another engine may still serve was not the client's wish.
      this.#settle(endWithoutService(this.#cancelled.retryable ? 'failed' : 'cancelled', this.#cancelled))
      return
    }
    if (resume !== null && this.#engine.description.resumes !== true) {
      this.#settle(endWithoutService('failed', cannotResume('it cannot be told how an answer began')))
      return
    }
    this.#state = 'serving'
    this.#endAtDeadline()
    this.#offline_sequences = this.#offlineSequences(dialect, body)
    this.#engine.callBegan(this.claims.lease, this.#offline_sequences)
    this.#engine.arrivals.arrived(orderedCall(this.claims), this.claims.call, this.#context.clock())
    try {
      const forecast = this.#context.forecasts?.of(this.claims, dialect, body) ?? null
      const known = { ...(forecast === null ? {} : { forecast }), ...(resume === null ? {} : { resume }) }
      this.#engine.front.serve({ claims: this.claims, dialect, body, ...known }, this)
    } catch (error) {
      this.#context.report({ event: 'call_crashed', lease: this.claims.lease, message: messageOf(error) })
      this.#settle(endWithoutService('failed', ERRORS.engine_failed))
    }
  }

  cancel(error: StreamError): void {
    if (this.#state === 'settling' || this.#cancelled !== null) return
    this.#cancelled = error
    if (this.#state === 'serving') this.#engine.front.cancel(this.claims.lease, error)
  }

  refused(error: StreamError): void {
    if (this.#expect('refused')) this.#settle(endWithoutService('failed', error))
  }

  accepted(prompt_tokens: number): void {
    if (!this.#expect('accepted')) return
    this.#context.outbox.promptTokens(this.claims.lease, prompt_tokens)
    this.#engine.arrivals.promptTokens(this.claims.lease, prompt_tokens)
    this.#stream?.accepted()
  }

  chunk(chunk: object, tokens?: Generated): void {
    if (!this.#expect('chunk')) return
    this.#gaps.chunk(chunk)
    this.#tools.chunk(chunk)
    if (this.#stream?.chunk(chunk, tokens) === false) this.cancel(ERRORS.reader_too_slow)
  }

  ended(end: CallEnd): void {
    if (this.#expect('ended')) this.#settle(end)
  }

  /** The texts of an embedding are no sequences of their own: they are not in the engine all at once. */
  #offlineSequences(dialect: Dialect, body: unknown): number {
    if (this.claims.offline !== true) return 0
    const is_text = dialect !== 'embeddings' && typeof body === 'object' && body !== null
    return is_text ? sequencesOf({ ...body }) : 1
  }

  #endAtDeadline(): void {
    const { ends_in_ms } = this.claims.budget ?? {}
    if (ends_in_ms === undefined || ends_in_ms > DEADLINE_WATCHED_MS_MAX) return
    this.#deadline = setTimeout(() => this.cancel(ERRORS.program_deadline), ends_in_ms)
  }

  #toolsAsked(): Pick<CallRecord, 'tools' | 'expected_tool_us'> {
    const tools = [...this.#tools.names]
    const expected_tool_us = this.#context.forecasts?.toolUs(this.claims, tools) ?? null
    return expected_tool_us === null ? { tools } : { tools, expected_tool_us }
  }

  #expect(what: string): boolean {
    if (this.#state === 'serving') return true
    this.#context.report({ event: 'front_misbehaved', lease: this.claims.lease, what: `${what} after the end` })
    return false
  }

  #settle(end: CallEnd): void {
    if (this.#state === 'serving') this.#engine.callEnded(this.#offline_sequences)
    this.#state = 'settling'
    if (this.#deadline !== null) clearTimeout(this.#deadline)
    const { service_wall_us, wait_us, prompt_tokens, output_tokens } = end.measurement
    const measured = { service_us: service_wall_us, wait_us, kv_tokens: prompt_tokens + output_tokens }
    this.#engine.arrivals.ended(this.claims.lease, { at_us: this.#context.clock(), ...measured })
    const error = end.outcome === 'completed' ? null : (end.error ?? this.#cancelled)
    const told = end.outcome === 'completed' ? this.#toolsAsked() : null
    const record = recordOf(this.claims, { ...end, error }, this.#context.wall_ms(), told)
    const recorded = this.#context.outbox.record(record).then(() => {
      this.#context.recorded()
      this.#engine.front.recorded?.(this.claims.lease)
      this.#context.metrics.settled(record, this.#gaps.choices)
      this.#context.spans?.settled(record, this.#dialect, this.#traceparent)
    })
    void isOnDisk(recorded, this.#context.disk_wait_ms).then((kept) => {
      const fallback = end.outcome === 'failed' ? ERRORS.engine_failed : ERRORS.cancelled
      // The record waits for the disk by itself. The client must not see a whole answer that nothing accounts for yet.
      if (kept) this.#stream?.finish({ ...end, error }, fallback)
      else this.#stream?.refuse(ERRORS.disk_full)
      this.#resolve()
    })
  }
}
