/**
 * Runs a scheduler over a backend in real time: plan, execute, commit, deliver. It runs one step at a time, with a
 * macrotask between steps so that sockets are served, and sleeps while no call is open. Contexts of programs whose tools
 * run are moved then too, when they are due.
 *
 * Keeps true: a call's ledger rows are delivered before its end. Each accepted call ends once. After `ended` nothing more
 * is delivered for it.
 *
 * An exception in a step, in a listener or in the scheduler breaks the engine: every open call ends as failed and
 * `onBroken` is called once. The owner then makes another engine with another epoch. A step that has not come back after
 * `step_timeout_ms` breaks the engine too: a backend that hangs is as lost as one that failed.
 */
import type { QueuePosition } from '../../src/protocol/queue-position.ts'
import type { ToolCounts } from './memory/handling/handling-counts.ts'
import type { HoldCounts } from './memory/program-hold.ts'
import { OutputIncomplete } from './output-incomplete.ts'
import type { EndedCall, Scheduler, SchedulerStatus, SubmitVerdict } from './scheduler.ts'
import type {
  Backend,
  EndReason,
  EngineCall,
  FailureCode,
  LedgerRow,
  Measurement,
  StepOutcome,
  StepPlan,
  TokenLogprobs,
} from './types.ts'

export interface CallListener {
  /** Before the first token, where the call asked for them: one for each token of the prompt after the first. */
  prompt?(logprobs: readonly TokenLogprobs[]): void
  /** Of a call that embeds: before its end. */
  embedding?(vector: Float32Array): void
  /** `logprobs`: where the call asked for them. */
  token(token: number, logprobs?: TokenLogprobs): void
  /** Called once, as the last call. */
  ended(reason: EndReason, measurement: Measurement, failure: FailureCode | null): void
}

export type DriverVerdict =
  | SubmitVerdict
  /** `draining`: takes no further calls. `engine_down`: broken or stopped. In both cases another engine may be tried. */
  | { ok: false; code: 'draining' | 'engine_down'; message: string }

/** The longest step expected of any backend, with a margin for a machine that swaps or sleeps. */
export const STEP_TIMEOUT_MS = 60_000

/** The longest that a sleeping engine waits before it looks at its contexts again. */
const SLEEP_MS_MAX = 60_000

/** Calls `run` once after `delay_ms`. The returned function cancels it. */
export type Timer = (run: () => void, delay_ms: number) => () => void

export interface EngineDriverOptions {
  epoch: string
  scheduler: Scheduler
  backend: Backend
  /** Microseconds of a single monotonic clock. */
  clock: () => number
  onLedger: (rows: readonly LedgerRow[]) => void
  /** The number of waiting or running calls changed. */
  onStatus: () => void
  onBroken: (error: unknown) => void
  /** The backend could not compute this call. It ends as failed; the engine goes on. */
  onCallFailed?: (lease: string, error: unknown) => void
  step_timeout_ms?: number
  timer?: Timer
}

interface OpenCall {
  readonly call: EngineCall
  readonly listener: CallListener
  admitted: boolean
}

export class EngineDriver {
  readonly epoch: string
  readonly #options: EngineDriverOptions
  readonly #open = new Map<string, OpenCall>()
  #state: 'serving' | 'draining' | 'stopped' | 'broken' = 'serving'
  #looping = false
  #loop: Promise<void> = Promise.resolve()
  #last_status = ''
  readonly #drained: (() => void)[] = []
  #stopped: Promise<void> | null = null
  /** Cancels the wait for the next context that is due. */
  #sleep: (() => void) | null = null

  constructor(options: EngineDriverOptions) {
    if (options.scheduler.config.slots > options.backend.slots) throw new RangeError('the backend has too few slots')
    if (options.scheduler.config.slot_tokens_max > options.backend.slot_tokens_max) {
      throw new RangeError('the slots of the backend are too small')
    }
    this.epoch = options.epoch
    this.#options = options
  }

  submit(call: EngineCall, listener: CallListener): DriverVerdict {
    if (this.#state === 'draining') return { ok: false, code: 'draining', message: 'the engine is draining' }
    if (this.#state !== 'serving') return { ok: false, code: 'engine_down', message: `the engine is ${this.#state}` }
    const verdict = this.#options.scheduler.submit(call, this.#now())
    if (!verdict.ok) return verdict
    this.#open.set(call.lease, { call, listener, admitted: false })
    this.#tellStatus()
    this.#wake()
    return verdict
  }

  /** Ends the call as cancelled, within one step. Unknown leases are ignored. */
  cancel(lease: string): void {
    if (this.#isLive()) this.#endEarly(this.#options.scheduler.cancel(lease, this.#now()))
  }

  /** Ends the call as `stop`, within one step: its listener needs no more tokens. Unknown leases are ignored. */
  finish(lease: string): void {
    if (this.#isLive()) this.#endEarly(this.#options.scheduler.finish(lease, this.#now()))
  }

  /** The program goes on elsewhere or has ended. */
  discard(program: string): void {
    if (!this.#isLive()) return
    this.#options.scheduler.discard(program, this.#now())
    this.#options.onStatus()
    this.#wake()
  }

  positions(leases: readonly string[]): QueuePosition[] {
    return this.#isLive() ? this.#options.scheduler.positions(leases, this.#now()) : []
  }

  status(): SchedulerStatus {
    return this.#options.scheduler.status()
  }

  get holds(): HoldCounts {
    return this.#options.scheduler.holds
  }

  /** What became of contexts while tools ran. Null: the policy does not handle them. */
  get tools(): ToolCounts | null {
    const { scheduler } = this.#options
    return scheduler.config.policy.handling === undefined ? null : scheduler.tools
  }

  /** Takes no further calls; resolves when those under way have ended. */
  drain(): Promise<void> {
    if (this.#state === 'serving') this.#state = 'draining'
    if (this.#open.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#drained.push(resolve))
  }

  /** Waits for the step under way, ends every open call as failed, and disposes of the backend. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    const live = this.#isLive()
    if (live) this.#state = 'stopped'
    this.#sleep?.()
    this.#sleep = null
    await this.#loop
    const errors = live ? this.#failAll() : []
    await this.#options.backend.dispose()
    if (errors.length > 0) throw new AggregateError(errors, 'listeners threw while the engine stopped')
  }

  #isLive(): boolean {
    return this.#state === 'serving' || this.#state === 'draining'
  }

  #now(): number {
    return Math.floor(this.#options.clock())
  }

  #wake(): void {
    if (this.#looping) return
    this.#looping = true
    this.#sleep?.()
    this.#sleep = null
    this.#loop = this.#run()
  }

  async #run(): Promise<void> {
    try {
      // Calls that arrive in the same turn of the event loop share the first step.
      await macrotask()
      while (this.#isLive() && (this.#open.size > 0 || this.#isContextDue())) {
        if (this.#open.size > 0) await this.#runStep()
        else await this.#moveContexts()
        await macrotask()
      }
    } catch (error) {
      this.#break(error)
    } finally {
      // In the same turn as the loop's last check, so no call can arrive in between and find the loop asleep.
      this.#looping = false
    }
    this.#sleepUntilDue()
  }

  #isContextDue(): boolean {
    return this.#options.scheduler.contexts_due_us <= this.#now()
  }

  #sleepUntilDue(): void {
    const { scheduler, timer = realTimer } = this.#options
    const due_us = scheduler.contexts_due_us
    if (!this.#isLive() || due_us === Number.POSITIVE_INFINITY) return
    const delay_ms = Math.min(SLEEP_MS_MAX, Math.max(0, Math.ceil((due_us - this.#now()) / 1000)))
    this.#sleep = timer(() => this.#wake(), delay_ms)
  }

  async #moveContexts(): Promise<void> {
    const { scheduler, backend } = this.#options
    const plan = scheduler.planContexts(this.#now())
    if (plan !== null) {
      const started_us = this.#now()
      const outcome = await this.#watch(backend.execute(plan))
      scheduler.commit(plan, outcome, started_us, this.#now())
    }
    this.#options.onStatus()
  }

  async #runStep(): Promise<void> {
    const { scheduler, backend, onLedger } = this.#options
    const plan = scheduler.plan(this.#now())
    this.#admit(plan)
    this.#tellStatus()
    const started_us = this.#now()
    const outcome = await this.#watch(backend.execute(plan))
    this.#endFailed(outcome)
    const { ended, prompts, embeddings, tokens, ledger } = scheduler.commit(plan, outcome, started_us, this.#now())
    onLedger(ledger)
    for (const { lease, logprobs } of prompts) this.#open.get(lease)?.listener.prompt?.(logprobs)
    for (const { lease, embedding } of embeddings) this.#open.get(lease)?.listener.embedding?.(embedding)
    for (const { lease, token, logprobs } of tokens) this.#open.get(lease)?.listener.token(token, logprobs)
    for (const end of ended) this.#deliverEnd(withFailure(end, outcome))
    this.#tellStatus()
  }

  /** The call's end comes with the commit of this step. */
  #endFailed({ failed }: StepOutcome): void {
    for (const [lease, error] of failed ?? []) {
      this.#options.scheduler.cancel(lease, this.#now())
      if (!(error instanceof OutputIncomplete)) this.#options.onCallFailed?.(lease, error)
    }
  }

  /** Ignores a step that ends after it timed out: the engine is broken by then. */
  async #watch(step: Promise<StepOutcome>): Promise<StepOutcome> {
    const { timer = realTimer, step_timeout_ms = STEP_TIMEOUT_MS } = this.#options
    let stop = () => {}
    const timeout = new Promise<never>((_, reject) => {
      stop = timer(() => reject(new Error(`a step did not end within ${step_timeout_ms} ms`)), step_timeout_ms)
    })
    try {
      return await Promise.race([step, timeout])
    } finally {
      stop()
    }
  }

  #admit(plan: StepPlan): void {
    for (const { lease } of plan.work) {
      const open = this.#open.get(lease)
      if (open === undefined || open.admitted) continue
      open.admitted = true
      this.#options.backend.admit(open.call)
    }
  }

  #endEarly(end: EndedCall | null): void {
    if (end === null) return
    this.#deliverEnd(end)
    this.#tellStatus()
  }

  #deliverEnd({ lease, reason, measurement, failure }: EndedCall): void {
    const open = this.#open.get(lease)
    if (open === undefined) return
    this.#open.delete(lease)
    if (open.admitted) this.#options.backend.release(lease)
    open.listener.ended(reason, measurement, failure)
    if (this.#open.size > 0) return
    for (const resolve of this.#drained.splice(0)) resolve()
  }

  /** A listener that throws must not keep the others from their end. Returns what they threw. */
  #failAll(): unknown[] {
    const errors: unknown[] = []
    for (const end of this.#options.scheduler.fail(this.#now())) {
      try {
        this.#deliverEnd(end)
      } catch (error) {
        errors.push(error)
      }
    }
    this.#tellStatus()
    return errors
  }

  #break(error: unknown): void {
    this.#state = 'broken'
    let errors: unknown[] = []
    try {
      errors = this.#failAll()
    } finally {
      this.#options.onBroken(errors.length === 0 ? error : new AggregateError([error, ...errors], 'the engine broke'))
    }
  }

  #tellStatus(): void {
    const { waiting, running } = this.status()
    const status = `${waiting} ${running}`
    if (status === this.#last_status) return
    this.#last_status = status
    this.#options.onStatus()
  }
}

/** A call that the backend could not compute may run on another engine. */
function withFailure(end: EndedCall, { failed }: StepOutcome): EndedCall {
  if (end.reason !== 'cancelled' || !failed?.has(end.lease)) return end
  const incomplete = failed.get(end.lease) instanceof OutputIncomplete
  return { ...end, reason: 'failed', failure: incomplete ? 'output_incomplete' : 'engine_lost' }
}

function realTimer(run: () => void, delay_ms: number): () => void {
  const timeout = setTimeout(run, delay_ms)
  return () => clearTimeout(timeout)
}

/** Lets sockets and timers run between steps. */
function macrotask(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
