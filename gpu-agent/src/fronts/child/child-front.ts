/**
 * An EngineFront whose engine runs in a child process, so that native work never blocks the agent's event loop and a
 * native crash ends a child and not the agent. When the child dies, every open call ends as failed with what its ledger
 * rows say, and after a pause that doubles another child starts; its engine has another epoch. A child that is silent for
 * CHILD_SILENCE_MS_MAX while a call is open is taken for hung and killed.
 */

import { type BackoffBounds, backoffMs } from '../../../../src/core/backoff.ts'
import type { ClassData, EngineDescription, QueuePosition, StreamError } from '../../../../src/protocol/index.ts'
import { engineFailed, engineFull, unavailable } from '../../openai/errors.ts'
import type { CallSink, DispatchedCall, EngineFront, EngineFrontEvents, ProgramKey } from '../engine-front.ts'
import type { FrontOptions } from '../front-options.ts'
import { monotonicUs } from '../local/scheduler-of.ts'
import { ChildCall } from './child-call.ts'
import { type ChildLink, type ForkChild, forkChild } from './child-link.ts'
import { type ChildEvent, CLASSES_PER_MESSAGE_MAX, type FrontStatus } from './child-protocol.ts'

export const RESTART_PAUSE: BackoffBounds = { min_ms: 200, max_ms: 30_000 }
/** Open calls of one engine. */
export const CHILD_CALLS_MAX = 8192
/** A step of the embedded engine takes a second at most; loading takes longer, but then no call is open. */
export const CHILD_SILENCE_MS_MAX = 60_000
const SILENCE_CHECK_MS = 5_000
/** What a client is told when this side of the pipe is full; the child's own queue knows better. */
const FULL_RETRY_AFTER_S = 1
/** How long a child may take to get ready. Some damaged model files make the loader read for ever. */
export const START_MS_MAX = 120_000
/** How long a child may take to stop before it is killed. */
export const STOP_MS_MAX = 10_000

export interface ChildFrontOptions {
  front: FrontOptions
  report: (message: string, error: unknown) => void
  /** All that is known about classes of programs, for a child that starts. */
  classes?: () => readonly ClassData[]
  fork?: ForkChild
  clock?: () => number
  random?: () => number
  restart_pause?: BackoffBounds
  start_ms_max?: number
}

export class ChildFront implements EngineFront {
  hints: ReadonlySet<string> = new Set()
  readonly preempts_offline = true
  readonly #options: ChildFrontOptions
  readonly #events: EngineFrontEvents
  readonly #clock: () => number
  readonly #calls = new Map<string, ChildCall>()
  #child: ChildLink | null = null
  #description: EngineDescription | null = null
  /** The child's last word. */
  #status: FrontStatus | null = null
  #up = false
  #draining = false
  #stopped = false
  /** Children that died in a row without getting ready. */
  #failures = 0
  #heard_us = 0
  #restart: NodeJS.Timeout | null = null
  #watch: NodeJS.Timeout | null = null
  #starting: NodeJS.Timeout | undefined
  #drained: (() => void)[] = []
  #ready: { resolve: () => void; reject: (error: Error) => void } | null = null
  #gone: (() => void)[] = []
  /** Questions that wait for their answer. */
  readonly #asked = new Map<number, (positions: readonly QueuePosition[]) => void>()
  #asks = 0

  /** Resolves when the first child's engine is ready; rejects when it cannot start. */
  static async start(options: ChildFrontOptions, events: EngineFrontEvents): Promise<ChildFront> {
    const front = new ChildFront(options, events)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    front.#ready = { resolve, reject }
    front.#fork()
    await promise
    return front
  }

  private constructor(options: ChildFrontOptions, events: EngineFrontEvents) {
    this.#options = options
    this.#events = events
    this.#clock = options.clock ?? monotonicUs
  }

  describe(): EngineDescription {
    if (this.#description === null) throw new Error('the engine has not been ready yet')
    return this.#description
  }

  status(): FrontStatus {
    if (this.#status === null) throw new Error('the engine has not been ready yet')
    if (!this.#up)
      return { ...this.#status, state: 'down', waiting: 0, running: 0, queued_tokens: 0, kv_used_tokens: 0 }
    let pending = 0
    for (const call of this.#calls.values()) if (call.isPending) pending += 1
    const state = this.#draining ? 'draining' : this.#status.state
    return { ...this.#status, state, waiting: this.#status.waiting + pending }
  }

  serve(call: DispatchedCall, sink: CallSink): void {
    const refusal = this.#send(call, sink)
    if (refusal !== null) sink.refused(refusal)
  }

  cancel(lease: string, error: StreamError | null): void {
    if (this.#calls.has(lease)) this.#child?.send({ type: 'cancel', lease, error })
  }

  discard(program: ProgramKey): void {
    this.#child?.send({ type: 'discard', program })
  }

  classes(classes: readonly ClassData[]): void {
    for (let from = 0; from < classes.length; from += CLASSES_PER_MESSAGE_MAX) {
      this.#child?.send({ type: 'classes', classes: classes.slice(from, from + CLASSES_PER_MESSAGE_MAX) })
    }
  }

  /** Nothing is known of a child that dies before it has answered. */
  async positions(leases: readonly string[]): Promise<readonly QueuePosition[]> {
    const child = this.#child
    if (child === null || !this.#up) return []
    const number = ++this.#asks
    const { promise, resolve } = Promise.withResolvers<readonly QueuePosition[]>()
    this.#asked.set(number, resolve)
    child.send({ type: 'positions', number, leases })
    return promise.finally(() => this.#asked.delete(number))
  }

  async drain(): Promise<void> {
    this.#draining = true
    this.#events.status()
    if (!this.#up) return
    await new Promise<void>((resolve) => {
      this.#drained.push(resolve)
      this.#child?.send({ type: 'drain' })
    })
  }

  async stop(): Promise<void> {
    this.#draining = true
    this.#stopped = true
    if (this.#restart !== null) clearTimeout(this.#restart)
    const child = this.#child
    if (child === null) return
    const killing = setTimeout(() => child.kill(), STOP_MS_MAX)
    await new Promise<void>((resolve) => {
      this.#gone.push(resolve)
      child.send({ type: 'stop' })
    })
    clearTimeout(killing)
  }

  #send(call: DispatchedCall, sink: CallSink): StreamError | null {
    const { lease } = call.claims
    if (this.#draining) return unavailable('draining', 'the engine takes no further calls')
    if (!this.#up || this.#child === null) return unavailable('engine_down', 'the engine is down')
    if (call.claims.epoch !== this.describe().epoch) return unavailable('epoch_gone', 'the engine has restarted')
    if (this.#calls.size >= CHILD_CALLS_MAX) return engineFull('the engine holds too many calls', FULL_RETRY_AFTER_S)
    if (this.#calls.has(lease)) throw new Error(`lease ${lease} is open`)
    if (!this.#child.offer({ type: 'serve', call })) {
      return engineFull('the engine does not keep up with new calls', FULL_RETRY_AFTER_S)
    }
    if (this.#calls.size === 0) this.#heard_us = this.#clock()
    this.#calls.set(lease, new ChildCall(sink, this.#clock))
    return null
  }

  #fork(): void {
    const { fork = forkChild, front } = this.#options
    const child = fork({
      events: (events) => {
        this.#heard_us = this.#clock()
        for (const event of events) this.#handle(event)
      },
      gone: (reason) => this.#lost(child, reason),
    })
    this.#child = child
    this.#watch = setInterval(() => this.#checkSilence(child), SILENCE_CHECK_MS).unref()
    const { start_ms_max = START_MS_MAX } = this.#options
    this.#starting = setTimeout(() => {
      this.#options.report(`the engine was not ready within ${start_ms_max} ms`, null)
      child.kill()
    }, start_ms_max)
    child.send({ type: 'start', options: front })
    this.classes(this.#options.classes?.() ?? [])
  }

  #checkSilence(child: ChildLink): void {
    if (this.#calls.size === 0 || this.#clock() - this.#heard_us < CHILD_SILENCE_MS_MAX * 1000) return
    this.#options.report(`the engine was silent for ${CHILD_SILENCE_MS_MAX} ms with calls open`, null)
    child.kill()
  }

  #handle(event: ChildEvent): void {
    switch (event.type) {
      case 'ready':
        this.hints = new Set(event.hints)
        this.#isReady(event.description, event.status)
        break
      case 'failed':
        this.#options.report('the engine failed', event.message)
        this.#ready?.reject(new Error(event.message))
        break
      case 'status':
        this.#status = event.status
        this.#events.status()
        break
      case 'contexts':
        this.#events.contexts?.(event.counts)
        break
      case 'positions':
        this.#asked.get(event.number)?.(event.positions)
        break
      case 'lengths':
        this.#events.lengths?.(event.verdict)
        break
      case 'epoch':
        this.#description = event.description
        this.#status = event.status
        this.#events.epoch()
        this.#events.status()
        break
      case 'ledger':
        for (const row of event.rows) this.#calls.get(row.lease)?.charge(row)
        this.#events.ledger(event.rows)
        break
      case 'drained':
        for (const resolve of this.#drained.splice(0)) resolve()
        break
      default:
        this.#handleCall(event)
    }
  }

  #handleCall(event: Extract<ChildEvent, { lease: string }>): void {
    const call = this.#calls.get(event.lease)
    if (call === undefined) return
    if (event.type === 'refused' || event.type === 'ended') this.#calls.delete(event.lease)
    if (event.type === 'refused') call.refused(event.error)
    else if (event.type === 'accepted') call.accepted(event.prompt_tokens)
    else if (event.type === 'chunk') call.chunk(event.chunk, event.tokens)
    else call.ended(event.end)
  }

  #isReady(description: EngineDescription, status: FrontStatus): void {
    clearTimeout(this.#starting)
    this.#description = description
    this.#status = status
    this.#up = true
    this.#failures = 0
    const first = this.#ready
    this.#ready = null
    if (first !== null) {
      first.resolve()
      return
    }
    this.#events.epoch()
    this.#events.status()
  }

  #lost(child: ChildLink, reason: string): void {
    if (this.#child !== child) return
    clearTimeout(this.#starting)
    this.#child = null
    this.#up = false
    if (this.#watch !== null) clearInterval(this.#watch)
    const calls = [...this.#calls.values()]
    this.#calls.clear()
    for (const call of calls) {
      call.lost(call.isPending ? unavailable('engine_down', 'the engine died') : engineFailed('the engine died'))
    }
    for (const answer of this.#asked.values()) answer([])
    for (const resolve of [...this.#drained.splice(0), ...this.#gone.splice(0)]) resolve()
    if (this.#ready !== null) {
      this.#ready.reject(new Error(`the engine ended before it was ready: ${reason}`))
      return
    }
    if (this.#stopped) return
    this.#options.report('the engine died', reason)
    this.#events.status()
    if (this.#draining) return
    this.#failures += 1
    const { restart_pause = RESTART_PAUSE, random = Math.random } = this.#options
    this.#restart = setTimeout(() => this.#fork(), backoffMs(this.#failures, restart_pause, random()))
  }
}
