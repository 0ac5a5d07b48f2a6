/**
 * An engine front that does what a test tells it, in memory: calls stay open until the test ends them. Its steps write
 * ledger rows, and its measurements are their sums, as a real front's are.
 */
import {
  type ClassData,
  type EngineDescription,
  type EngineStatus,
  type Measurement,
  NOTHING_MEASURED,
  type StreamError,
} from '../../../src/protocol/index.ts'
import type { CallEnd, CallSink, DispatchedCall, EngineFront, EngineFrontEvents } from '../fronts/engine-front.ts'

export class ScriptedCall {
  readonly call: DispatchedCall
  readonly sink: CallSink
  readonly #front: ScriptedFront
  #measured: Measurement = { ...NOTHING_MEASURED }
  cancelled: StreamError | null | undefined

  constructor(call: DispatchedCall, sink: CallSink, front: ScriptedFront) {
    this.call = call
    this.sink = sink
    this.#front = front
  }

  accept(prompt_tokens = 3): this {
    this.#measured = { ...this.#measured, prompt_tokens }
    this.sink.accepted(prompt_tokens)
    return this
  }

  /** One engine step that charges this call and yields one token. */
  step(wall_us = 1000, modelled_us = 700): this {
    const measured = this.#measured
    this.#measured = {
      ...measured,
      service_wall_us: measured.service_wall_us + wall_us,
      service_modelled_us: measured.service_modelled_us + modelled_us,
      duration_us: measured.duration_us + wall_us,
      output_tokens: measured.output_tokens + 1,
    }
    const { lease } = this.call.claims
    this.#front.step += 1
    const { step, epoch } = this.#front
    this.#front.events.ledger([{ epoch, step, lease, wall_us, modelled_us, computed_tokens: 1, sampled_tokens: 1 }])
    return this
  }

  /** What preemptions did to its KV. */
  moved(kv: Partial<Measurement>): this {
    this.#measured = { ...this.#measured, ...kv }
    return this
  }

  chunk(chunk: object): this {
    this.sink.chunk(chunk)
    return this
  }

  end(end: Partial<CallEnd> = {}): void {
    this.#front.calls.delete(this.call.claims.lease)
    this.sink.ended({
      outcome: 'completed',
      finish_reason: end.outcome === undefined || end.outcome === 'completed' ? 'stop' : null,
      error: null,
      measurement: this.#measured,
      last_chunks: [],
      ...end,
    })
  }
}

export class ScriptedFront implements EngineFront {
  readonly id: string
  readonly events: EngineFrontEvents
  readonly calls = new Map<string, ScriptedCall>()
  readonly model: string
  hints: ReadonlySet<string> = new Set()
  preempts_offline = false
  epoch = 'epoch-1'
  step = 0
  state: EngineStatus['state'] = 'ready'
  drained = false
  /** What it was told about classes of programs. */
  readonly told: ClassData[] = []
  /** Whether a cancelled call ends by itself, as it must on a real engine. */
  ends_cancelled = true
  /** Called with every call that arrives. */
  onCall: (call: ScriptedCall) => void = () => {}
  readonly #arrived: ScriptedCall[] = []
  readonly #waiting: ((call: ScriptedCall) => void)[] = []

  constructor(id: string, events: EngineFrontEvents, model = 'test-model') {
    this.id = id
    this.events = events
    this.model = model
  }

  classes(classes: readonly ClassData[]): void {
    this.told.push(...classes)
  }

  /** The next call that arrives and that no other `next` took. */
  next(): Promise<ScriptedCall> {
    const call = this.#arrived.shift()
    if (call !== undefined) return Promise.resolve(call)
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  restart(epoch: string): void {
    for (const call of this.calls.values()) call.end({ outcome: 'failed' })
    this.epoch = epoch
    this.events.epoch()
  }

  describe(): EngineDescription {
    return {
      id: this.id,
      epoch: this.epoch,
      kind: 'emulated',
      model: this.model,
      seats: 8,
      kv_capacity_tokens: 8192,
      context_tokens_max: 1024,
      prefill_tokens_per_s: null,
      speed_factor: 1,
    }
  }

  status(): Omit<EngineStatus, 'leases_seen'> {
    const { id, epoch, state } = this
    const counts = { waiting: 0, running: this.calls.size, queued_tokens: 0, kv_used_tokens: 0 }
    return { id, epoch, state, ...counts, bytes_per_token: null }
  }

  serve(dispatched: DispatchedCall, sink: CallSink): void {
    const call = new ScriptedCall(dispatched, sink, this)
    this.calls.set(dispatched.claims.lease, call)
    this.events.status()
    this.onCall(call)
    const waiting = this.#waiting.shift()
    if (waiting === undefined) this.#arrived.push(call)
    else waiting(call)
  }

  cancel(lease: string, error: StreamError | null): void {
    const call = this.calls.get(lease)
    if (call === undefined) return
    call.cancelled = error
    if (this.ends_cancelled) setImmediate(() => call.end({ outcome: 'cancelled', error }))
  }

  async drain(): Promise<void> {
    this.drained = true
  }

  async stop(): Promise<void> {
    this.state = 'down'
  }
}
