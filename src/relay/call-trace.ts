/**
 * One call's spans on the Worker. A server span under the client's traceparent has identify, admit, lease, dispatch, first
 * data, stream and settle below it. The agent's spans are children of `dispatch`. Attributes follow OpenTelemetry's
 * conventions for generative AI (open-telemetry/semantic-conventions-genai docs/gen-ai/gen-ai-spans.md) and are ids and
 * counts only.
 *
 * Without OTEL_EXPORTER_OTLP_ENDPOINT there is no Tracing, and a call has no CallTrace. A call's spans are sent after its
 * client has everything, in batches over the calls of an isolate. Nothing waits for them.
 */

import { type Attributes, otlpTraces, SPAN_KIND, type Span, SpanQueue } from '../core/wire/spans.ts'
import { parseTraceparent, type TraceContext, traceparentOf } from '../core/wire/trace-context.ts'
import { sleep } from '../platform/deadline.ts'
import { logFailure } from '../platform/log.ts'
import { type NetworkEnv, networkFetch } from '../platform/network.ts'
import { type OtlpEnv, type OtlpSettings, otlpSettings, postTraces } from '../protocol/index.ts'

/** From the first span to its sending: several calls go in one request. */
const BATCH_DELAY_MS = 200
/** A sender whose request was cut off by the runtime is abandoned after this. */
const SENDING_MS_MAX = 10_000
export const PROVIDER = 'switchyard'

export interface OpenSpan {
  readonly traceparent: string
  /** The first call ends it; later ones do nothing. */
  end(attributes?: Attributes, error?: string | null): void
}

interface Turn {
  since_ms: number
}

function isBusy(turn: Turn | null, now_ms: number): boolean {
  return turn !== null && now_ms - turn.since_ms < SENDING_MS_MAX
}

export class Tracing {
  readonly #settings: OtlpSettings
  readonly #post: typeof fetch
  readonly #queue = new SpanQueue()
  /** The request that sends what is queued. */
  #sender: Turn | null = null
  /** The request that sends what arrives meanwhile. Without it a quiet isolate would keep the last call's spans. */
  #next: Turn | null = null

  constructor(settings: OtlpSettings, post: typeof fetch) {
    this.#settings = settings
    this.#post = post
  }

  get dropped(): number {
    return this.#queue.dropped
  }

  /** Null: this call is not recorded. */
  begin(headers: Headers, now: () => number): CallTrace | null {
    const client = parseTraceparent(headers.get('traceparent'))
    const sampled = client === null ? Math.random() < this.#settings.ratio : client.sampled
    return sampled ? new CallTrace(client, now) : null
  }

  /** Takes a call's spans. The promise is for `waitUntil` and never rejects. */
  async add(spans: readonly Span[], now: () => number): Promise<void> {
    this.#queue.add(spans)
    const before = this.#sender
    if (isBusy(before, now())) {
      if (isBusy(this.#next, now())) return
      const next = { since_ms: now() }
      this.#next = next
      while (this.#sender === before && isBusy(before, now())) await sleep(BATCH_DELAY_MS)
      if (this.#next === next) this.#next = null
      // A sender that began after these spans were queued takes them.
      if (this.#queue.size === 0 || (this.#sender !== before && isBusy(this.#sender, now()))) return
    }
    const turn = { since_ms: now() }
    this.#sender = turn
    await sleep(BATCH_DELAY_MS)
    // Spans that arrive meanwhile are left to the next sender. Otherwise one request could be kept alive for ever.
    for (let left = this.#queue.size; left > 0; ) {
      const batch = this.#queue.take()
      left -= batch.length
      const taken = await postTraces(this.#settings, otlpTraces({ 'service.name': 'switchyard' }, batch), this.#post)
      if (!taken) this.#queue.lost(batch.length)
    }
    if (this.#sender === turn) this.#sender = null
  }
}

export class CallTrace {
  readonly #now: () => number
  readonly #trace: string
  readonly #root: string
  readonly #parent: string | null
  readonly #start_ms: number
  readonly #spans: Span[] = []

  constructor(client: TraceContext | null, now: () => number) {
    this.#now = now
    this.#trace = client?.trace ?? randomHex(16)
    this.#parent = client?.span ?? null
    this.#root = randomHex(8)
    this.#start_ms = now()
  }

  start(name: string, kind: Span['kind'] = SPAN_KIND.internal): OpenSpan {
    const span = randomHex(8)
    const start_ms = this.#now()
    let open = true
    return {
      traceparent: traceparentOf({ trace: this.#trace, span, sampled: true }),
      end: (attributes = {}, error = null) => {
        if (!open) return
        open = false
        const ids = { trace: this.#trace, span, parent: this.#root }
        this.#spans.push({ ...ids, name, kind, start_ms, end_ms: this.#now(), attributes, error })
      },
    }
  }

  /** All spans, including the call's own. */
  finish(name: string, attributes: Attributes, error: string | null): Span[] {
    const ids = { trace: this.#trace, span: this.#root, parent: this.#parent }
    const times = { start_ms: this.#start_ms, end_ms: this.#now() }
    return [...this.#spans, { ...ids, name, kind: SPAN_KIND.server, ...times, attributes, error }]
  }
}

let known: Tracing | null | undefined

/** The isolate's own, decided once: an isolate's environment does not change. Invalid settings are logged. */
export function tracingOf(env: OtlpEnv & NetworkEnv): Tracing | null {
  if (known !== undefined) return known
  known = null
  try {
    const settings = otlpSettings(env)
    if (settings !== null) known = new Tracing(settings, networkFetch(env))
  } catch (error) {
    logFailure('tracing_off', error)
  }
  return known
}

function randomHex(bytes: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  )
}
