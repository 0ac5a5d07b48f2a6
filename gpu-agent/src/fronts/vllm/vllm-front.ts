/**
 * An EngineFront over a vLLM: calls go to its OpenAI server over HTTP, what they cost comes back over the plug-in's side
 * channel, and what runs the process (vllm-server.ts) says where it is and when it has gone. A vLLM that went down ends
 * its calls as failed with what they were charged; one that comes back under another epoch voids pins and tickets.
 *
 * Without the plug-in the agent's own queue orders the calls before they are sent (fronts/attached/), and service is measured
 * from outside.
 */

import type { ClassBook } from '../../../../src/core/classes/class-book.ts'
import type { EngineDescription, EngineStatus, QueuePosition, StreamError } from '../../../../src/protocol/index.ts'
import { ERRORS } from '../../data-plane/stream-errors.ts'
import { VLLM_HINTS } from '../../openai/capabilities.ts'
import { engineFull, unavailable } from '../../openai/errors.ts'
import type { LostCall } from '../../outbox/lost-calls.ts'
import { continuesAny } from '../attached/continuing/continuing.ts'
import type { LoadReport } from '../attached/reported-load.ts'
import type { ServerQueue } from '../attached/server-queue.ts'
import type {
  CallSink,
  DispatchedCall,
  EngineFront,
  EngineFrontEvents,
  KvSwapCosts,
  ProgramKey,
} from '../engine-front.ts'
import { monotonicUs } from '../local/scheduler-of.ts'
import { programKey } from './calls/ticket-fields.ts'
import { VllmCalls } from './calls/vllm-calls.ts'
import type { Refusal } from './calls/vllm-errors.ts'
import type { EngineReport } from './channel/channel-messages.ts'
import { ClassTeller, type ToldClass } from './channel/class-teller.ts'
import { EngineConnection, type EngineFacts } from './channel/engine-connection.ts'
import { EngineWatch } from './channel/engine-watch.ts'
import type { OptionsVerdict } from './channel/side-channel.ts'
import type { VllmAddress, VllmServer } from './process/vllm-server.ts'
import { VLLM_TIMES, type VllmTimes } from './vllm-times.ts'

/** Open calls of one engine. */
export const VLLM_CALLS_MAX = 8192
const FULL_RETRY_AFTER_S = 1
const TOLD_AGAIN_MS = 60_000

export interface VllmFrontOptions {
  /** Engine id. */
  id: string
  model_id: string
  /** Left out: vLLM. */
  kind?: 'vllm' | 'openai'
  ordering: 'wall' | 'modelled'
  server: VllmServer
  /** Calls that a former agent left open here. */
  lost?: readonly LostCall[]
  /** What the plug-in's policy orders classes of programs by. Left out or null: its policy does not learn. */
  classes?: Pick<ClassBook, 'sketchOf' | 'tableOf'> | null
  /** The agent's own queue, before a server that does not order programs. Left out or null: calls go at once. */
  queue?: ServerQueue | null
  report: (message: string, error: unknown) => void
  clock?: () => number
  wall_ms?: () => number
  random?: () => number
  times?: Partial<VllmTimes>
}

export class VllmFront implements EngineFront {
  readonly #options: VllmFrontOptions
  readonly #events: EngineFrontEvents
  readonly #times: VllmTimes
  readonly #calls: VllmCalls
  readonly #watch: EngineWatch
  readonly #teller: ClassTeller | null
  #connection: EngineConnection | null = null
  #facts: EngineFacts | null = null
  /** As it last was. */
  #address: VllmAddress | null = null
  #up = false
  #draining = false
  #stopped = false
  /** As last told. */
  #swap_costs = ''
  #plugin_failed = false
  #swap_failed = false
  #told = ''
  #told_ms = 0
  #checking: NodeJS.Timeout | null = null
  #ready: { resolve: () => void; reject: (error: Error) => void } | null = null

  /** Resolves when vLLM can be asked; rejects with a sentence for the operator. */
  static async start(options: VllmFrontOptions, events: EngineFrontEvents): Promise<VllmFront> {
    const front = new VllmFront(options, events)
    try {
      await front.#start()
    } catch (error) {
      await front.stop()
      throw error
    }
    return front
  }

  private constructor(options: VllmFrontOptions, events: EngineFrontEvents) {
    const { clock = monotonicUs, wall_ms = Date.now, lost = [], model_id, ordering, classes = null } = options
    const tell = (told: readonly ToldClass[]): boolean => this.#connection?.tellClasses(told) === true
    this.#teller = classes === null ? null : new ClassTeller({ classes, tell })
    this.#options = options
    this.#events = events
    this.#times = { ...VLLM_TIMES, ...options.times }
    this.#watch = new EngineWatch(clock, this.#times.hang_ms_max)
    this.#calls = new VllmCalls({
      ...{ model_id, ordering, lost, times: this.#times, clock, wall_ms, events, queue: options.queue ?? null },
      settle: (epoch, number) => this.#connection?.settle(epoch, number),
      progressed: () => this.#watch.progressed(),
      faulty: (refusal) => this.#faulty(refusal),
      idle: () => this.#restartFailedPlugin(),
    })
  }

  /** Of the server as it last was. */
  get hints(): ReadonlySet<string> {
    return this.#address?.profile.hints ?? VLLM_HINTS
  }

  get seats(): number | null {
    const queued = this.#connection !== null && this.#connection.address.queued !== null
    return queued ? (this.#options.queue?.seats ?? null) : null
  }

  /** With the plug-in. */
  get preempts_offline(): boolean {
    return this.#address?.order === 'plugin'
  }

  describe(): EngineDescription {
    const { epoch, seats, kv_capacity_tokens, context_tokens_max } = this.#known()
    const { id, model_id: model } = this.#options
    const { native_apis = [] } = this.#address ?? {}
    const sizes = { seats, kv_capacity_tokens, context_tokens_max }
    return {
      id,
      epoch,
      kind: this.#options.kind ?? 'vllm',
      model,
      ...sizes,
      prefill_tokens_per_s: null,
      speed_factor: 1,
      ...(native_apis.length === 0 ? {} : { native_apis: [...native_apis] }),
      ...(this.#resumes ? { resumes: true } : {}),
    }
  }

  /** By the tokens of the answer, or by its text. */
  get #resumes(): boolean {
    return this.#calls.vocabulary_tokens !== null || continuesAny(this.#address?.continues ?? null)
  }

  status(): Omit<EngineStatus, 'leases_seen'> {
    const { epoch, seats } = this.#known()
    const state = this.#up ? (this.#draining ? 'draining' : 'ready') : 'down'
    const { load, bytes } = this.#calls
    const limit_wait_us = this.#options.queue?.limit_wait_us ?? null
    return {
      ...{ id: this.#options.id, epoch, state, ...load.now(seats), bytes_per_token: bytes.ratio() },
      ...(limit_wait_us === null ? {} : { limit_wait_us }),
    }
  }

  serve(call: DispatchedCall, sink: CallSink): void {
    const refusal = this.#submit(call, sink)
    if (refusal !== null) sink.refused(refusal)
  }

  cancel(lease: string, error: StreamError | null): void {
    this.#calls.cancel(lease, error)
  }

  recorded(lease: string): void {
    this.#calls.recorded(lease)
  }

  async positions(leases: readonly string[]): Promise<readonly QueuePosition[]> {
    const open = leases.filter((lease) => this.#calls.has(lease))
    const queued = this.#calls.positions(open)
    if (queued.length > 0 || open.length === 0) return queued
    return (await this.#connection?.positions(open)) ?? []
  }

  discard(program: ProgramKey): void {
    this.#connection?.discard(programKey(program))
  }

  /** Changes the plug-in's policy and parameters while it runs; `options` is its whole section. */
  async changeOptions(options: Readonly<Record<string, unknown>>): Promise<OptionsVerdict> {
    return this.#connection?.changeOptions(options) ?? { status: 'unanswered', reason: 'the engine is down' }
  }

  async drain(): Promise<void> {
    this.#draining = true
    this.#events.status()
    await this.#calls.whenIdle()
  }

  async stop(): Promise<void> {
    this.#draining = true
    this.#stopped = true
    this.#teller?.stop()
    if (this.#checking !== null) clearInterval(this.#checking)
    this.#calls.cancelAll(ERRORS.agent_draining)
    await this.#calls.whenIdle()
    this.#options.queue?.close()
    // When the agent has ended in order, this vLLM may be ended too, and with it what it has not reported.
    if (this.#up) this.#calls.lost.giveUp()
    this.#calls.close()
    this.#connection?.close()
    this.#connection = null
    await this.#options.server.stop()
  }

  async #start(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#ready = { resolve, reject }
    // It is awaited once the server has started, and may be rejected before.
    promise.catch(() => undefined)
    await this.#options.server.start({
      up: (address) => this.#connect(address),
      down: (reason) => this.#down(reason),
    })
    const limit_ms = this.#times.channel_start_ms_max
    const late = `the plug-in of vLLM did not answer on its side channel within ${limit_ms} ms`
    const timer = setTimeout(() => reject(new Error(late)), limit_ms)
    await promise.finally(() => clearTimeout(timer))
    this.#checking = setInterval(() => this.#check(), this.#times.hang_check_ms).unref()
  }

  #connect(address: VllmAddress): void {
    this.#connection?.close()
    const { random = Math.random, report } = this.#options
    const connection = new EngineConnection({
      address,
      random,
      busy: () => this.#calls.size > 0,
      listener: {
        ready: (facts) => this.#isReady(facts, address),
        record: (record, epoch) => {
          this.#watch.progressed()
          this.#calls.record(record, epoch)
        },
        charges: (charges) => {
          this.#watch.progressed()
          this.#calls.charges(charges)
        },
        load: (load, engine) => this.#reported(load, engine),
        incompatible: (sentence) => this.#incompatible(sentence),
        counted: (what) => this.#events.counted?.(what),
        report: (message) => report(message, null),
      },
    })
    this.#connection = connection
    connection.start()
  }

  #isReady(facts: EngineFacts, address: VllmAddress): void {
    const { socket } = address
    const before = this.#facts
    const was_up = this.#up
    const restarted = before !== null && before.epoch !== facts.epoch
    // The process behind the channel may be another although the end of the old one was not reported.
    if (was_up && restarted) this.#calls.engineLost()
    this.#facts = facts
    this.#calls.vocabulary_tokens = facts.vocabulary_tokens
    this.#address = address
    this.#up = true
    if (address.queued !== null) this.#options.queue?.serves(address.queued)
    this.#teller?.forget()
    if (restarted || !was_up) {
      this.#plugin_failed = false
      this.#swap_failed = false
      this.#swap_costs = ''
      this.#calls.measured = true
    }
    this.#watch.progressed()
    this.#calls.lost.engineIs(socket === null ? null : facts.epoch)
    const first = this.#ready
    this.#ready = null
    if (first !== null) first.resolve()
    else if (restarted) this.#events.epoch()
    this.#events.status()
  }

  #incompatible(sentence: string): void {
    this.#options.report('the side channel of vLLM cannot be used', sentence)
    this.#ready?.reject(new Error(sentence))
    this.#ready = null
    this.#down(sentence)
  }

  #down(reason: string): void {
    if (this.#stopped) return
    this.#connection?.close()
    this.#connection = null
    const was_up = this.#up
    this.#up = false
    this.#calls.engineLost()
    if (!was_up) return
    this.#options.report('the server is down', reason)
    this.#events.status()
  }

  #submit(call: DispatchedCall, sink: CallSink): StreamError | null {
    const { lease, epoch } = call.claims
    const connection = this.#connection
    if (this.#draining) return unavailable('draining', 'the engine takes no further calls')
    if (!this.#up || connection === null) return unavailable('engine_down', 'the engine is down')
    if (epoch !== this.#known().epoch) return unavailable('epoch_gone', 'the engine has restarted')
    if (this.#calls.size >= VLLM_CALLS_MAX) return engineFull('the engine holds too many calls', FULL_RETRY_AFTER_S)
    if (this.#calls.has(lease)) throw new Error(`lease ${lease} is open`)
    if (this.#calls.size === 0) this.#watch.progressed()
    const refusal = this.#calls.open(call, sink, connection.address)
    if (refusal === null) {
      this.#teller?.used(call.claims)
      this.#events.status()
    }
    return refusal
  }

  #reported(load: LoadReport, report: EngineReport | null): void {
    this.#calls.load.reported(load)
    if (report === null) this.#options.queue?.reported(load.waiting)
    if (report !== null) {
      this.#watch.reported(report)
      this.#calls.measured = report.measures !== false
      if (report.swap_costs) this.#swapCosts(report.swap_costs)
      const { holds, tools } = report
      if (holds) this.#events.contexts?.({ holds, ...(tools ? { tools } : {}) })
      if (report.swap_failed === true) this.#swapFailed()
      if (report.failed === true) this.#pluginFailed(report.failed_reason ?? 'no reason was given')
    }
    this.#events.status()
  }

  #swapCosts(costs: KvSwapCosts): void {
    const told = JSON.stringify(costs)
    if (told === this.#swap_costs) return
    this.#swap_costs = told
    this.#events.swapCosts?.(costs)
  }

  #swapFailed(): void {
    if (this.#swap_failed) return
    this.#swap_failed = true
    const then = 'preempted calls are computed again until vLLM is started again; its log says why'
    this.#options.report('the KV swap of vLLM failed', then)
  }

  #pluginFailed(reason: string): void {
    if (this.#plugin_failed) return
    this.#plugin_failed = true
    this.#options.report('the plug-in failed: vLLM schedules by itself, and is restarted when it is idle', reason)
    if (this.#calls.size === 0) this.#restartFailedPlugin()
  }

  #restartFailedPlugin(): void {
    if (this.#plugin_failed) this.#suspect('its plug-in failed')
  }

  /** What every call meets alike is told once in a while. */
  #faulty({ report, suspect }: Refusal): void {
    if (report === null) return
    const now_ms = performance.now()
    if (report !== this.#told || now_ms - this.#told_ms >= TOLD_AGAIN_MS) {
      this.#told = report
      this.#told_ms = now_ms
      this.#options.report(report, null)
    }
    if (suspect) this.#suspect(report)
  }

  #suspect(reason: string): void {
    if (this.#up && !this.#stopped) this.#options.server.suspect(reason)
  }

  #check(): void {
    if (!this.#up || this.#calls.size === 0 || !this.#watch.hangs) return
    this.#watch.progressed()
    const reason = `vLLM made no progress for ${this.#times.hang_ms_max} ms with calls open`
    this.#options.report(reason, null)
    this.#suspect(reason)
  }

  #known(): EngineFacts {
    if (this.#facts === null) throw new Error('vLLM has not been ready yet')
    return this.#facts
  }
}
