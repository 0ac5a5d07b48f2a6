/**
 * A host that is lent to offline applications (SamuLLM §4.3): it brings its engines to what the last stage wants, and back home. host-steps.ts says
 * what is next; this class does it, one step for each engine at a time.
 *
 * Keeps true:
 * - A stage of a lower epoch than the last one is refused. The same epoch renews the lease.
 * - A stage that is not renewed in time counts as over, so a lost control plane cannot keep a host.
 * - Nothing is kept on disk: an agent that starts is at home, and is told its stage when it links.
 * - An engine that does not start is tried again, with a pause that doubles, for as long as it is wanted.
 */
import { type BackoffBounds, backoffMs } from '../../../src/core/backoff.ts'
import {
  type HomeEngine,
  type HostEngine,
  type HostStage,
  MESSAGE_CHARS_MAX,
  type WantedEngine,
} from '../../../src/protocol/host.ts'
import { messageOf, type Report } from '../events.ts'
import { hostSteps, type StartStep } from './host-steps.ts'

/** Calls under way on an engine that has to stop may take this long. Cancelled ones go on at another engine, where there is one. */
export const LEND_DRAIN_LIMIT_MS = 30_000
export const START_PAUSE: BackoffBounds = { min_ms: 1000, max_ms: 60_000 }

export interface LentHostOptions {
  agent: string
  /** They run. */
  home: readonly HomeEngine[]
  /** Rejects when the engine cannot start. `leaving`: it is not wanted any more. */
  start: (engine: WantedEngine & { id: string; home: boolean }, leaving: AbortSignal) => Promise<void>
  end: (id: string, drain_limit_ms: number) => Promise<void>
  /** Whether a started engine is up: one that crashed comes back by itself. */
  isUp: (id: string) => boolean
  /** Something that a status tells has changed. */
  changed: () => void
  report: Report
  random: () => number
  drain_limit_ms?: number
  start_pause?: BackoffBounds
}

interface Running {
  id: string
  model: string
  gpus: number[]
  home: boolean
  state: HostEngine['state']
  message: string | null
  /** Starts in a row that failed. */
  failures: number
  leaving: AbortController
  retry: NodeJS.Timeout | null
}

export class LentHost {
  readonly #options: LentHostOptions
  readonly #running = new Map<string, Running>()
  /** By model: why its pool refuses this agent. */
  readonly #refused = new Map<string, string>()
  /** Steps under way. */
  readonly #steps = new Set<Promise<void>>()
  #wanted: readonly WantedEngine[] = []
  #epoch = 0
  #lease: NodeJS.Timeout | null = null
  #stopped = false

  constructor(options: LentHostOptions) {
    this.#options = options
    for (const { id, model, gpus } of options.home) {
      this.#running.set(id, { ...runningOf({ model, gpus }, id, true), state: 'ready' })
    }
  }

  /** Of the last stage; 0: none came. */
  get epoch(): number {
    return this.#epoch
  }

  /** Whether it has a stage, or is on its way home. */
  get lent(): boolean {
    if (this.#wanted.length > 0) return true
    const at_home = [...this.#running.values()].filter(({ home, state }) => home && state === 'ready').length
    return at_home < this.#options.home.length || this.#running.size > at_home
  }

  get engines(): HostEngine[] {
    return [...this.#running.values()].map((engine): HostEngine => {
      const { id, model, gpus, home, message } = engine
      const refused = home ? undefined : this.#refused.get(model)
      const up = engine.state !== 'ready' || this.#options.isUp(id)
      const state = refused === undefined ? (up ? engine.state : 'loading') : 'failed'
      return { id, model, gpus, home, state, message: (refused ?? message)?.slice(0, MESSAGE_CHARS_MAX) ?? null }
    })
  }

  /** False: it is of an earlier epoch. */
  stage({ epoch, lease_ms, engines }: HostStage): boolean {
    if (epoch < this.#epoch || this.#stopped) return false
    if (epoch > this.#epoch || engines.length !== this.#wanted.length) {
      this.#refused.clear()
      const names = engines.map(({ model, gpus }) => `${model} on GPU ${gpus.join('+')}`)
      if (engines.length > 0 || this.#wanted.length > 0) this.#options.report({ event: 'stage', epoch, engines: names })
    }
    this.#epoch = epoch
    this.#wanted = engines
    if (this.#lease !== null) clearTimeout(this.#lease)
    this.#lease = engines.length === 0 ? null : setTimeout(() => this.#over(), lease_ms)
    this.#goOn()
    return true
  }

  /** The pool of a model refuses this agent: its lent engines get no calls. */
  poolRefused(model: string, reason: string): void {
    this.#refused.set(model, reason)
    this.#options.changed()
  }

  /** Whether a pool that refuses this agent says something about the agent itself. */
  isHomeModel(model: string): boolean {
    return this.#options.home.some((one) => one.model === model)
  }

  /** No further steps. Resolves when those under way have ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    if (this.#lease !== null) clearTimeout(this.#lease)
    for (const engine of this.#running.values()) {
      if (engine.retry !== null) clearTimeout(engine.retry)
      engine.leaving.abort()
    }
    await Promise.all(this.#steps)
  }

  #over(): void {
    this.#options.report({ event: 'stage_over', epoch: this.#epoch, reason: 'the control plane has not renewed it' })
    this.#wanted = []
    this.#goOn()
  }

  #goOn(): void {
    if (this.#stopped) return
    const { stop, start } = hostSteps([...this.#running.values()], this.#wanted, this.#options.home)
    for (const id of stop) this.#end(id)
    for (const step of start) this.#begin(step)
    // An engine that ended at once has made room.
    if (stop.length > 0 && start.length === 0 && stop.some((id) => !this.#running.has(id))) this.#goOn()
    this.#options.changed()
  }

  #end(id: string): void {
    const engine = this.#running.get(id)
    if (engine === undefined) return
    if (engine.retry !== null) clearTimeout(engine.retry)
    engine.leaving.abort()
    if (engine.state === 'failed') {
      this.#running.delete(id)
      return
    }
    const loading = engine.state === 'loading'
    engine.state = 'stopping'
    // One that loads ends when its start has failed or is over.
    if (!loading) this.#step(this.#stopEngine(engine))
  }

  #begin({ model, gpus, home_id }: StartStep): void {
    const id = home_id ?? `${this.#options.agent}-x${gpus[0]}`
    const engine = runningOf({ model, gpus }, id, home_id !== null)
    this.#running.set(id, engine)
    this.#step(this.#startEngine(engine))
  }

  async #startEngine(engine: Running): Promise<void> {
    const { id, model, gpus, home } = engine
    engine.state = 'loading'
    const started_ms = performance.now()
    try {
      await this.#options.start({ id, model, gpus, home }, engine.leaving.signal)
    } catch (error) {
      this.#failed(engine, messageOf(error))
      return
    }
    if (engine.leaving.signal.aborted) return this.#stopEngine(engine)
    Object.assign(engine, { state: 'ready', message: null, failures: 0 })
    const loading_s = Math.round((performance.now() - started_ms) / 100) / 10
    this.#options.report({ event: 'engine_started', engine: id, model, gpus, loading_s })
  }

  #failed(engine: Running, message: string): void {
    if (engine.leaving.signal.aborted) {
      this.#running.delete(engine.id)
      return
    }
    engine.failures += 1
    const { random, start_pause = START_PAUSE, report } = this.#options
    const retry_in_ms = backoffMs(engine.failures, start_pause, random())
    Object.assign(engine, { state: 'failed', message })
    report({ event: 'engine_start_failed', engine: engine.id, model: engine.model, message, retry_in_ms })
    if (this.#stopped) return
    engine.retry = setTimeout(() => {
      engine.retry = null
      this.#step(this.#startEngine(engine))
      this.#options.changed()
    }, retry_in_ms)
  }

  async #stopEngine(engine: Running): Promise<void> {
    engine.state = 'stopping'
    const { id, model } = engine
    const { end, report, drain_limit_ms = LEND_DRAIN_LIMIT_MS } = this.#options
    try {
      await end(id, drain_limit_ms)
    } catch (error) {
      report({ event: 'engine_drain_failed', engine: id, message: messageOf(error) })
    }
    this.#running.delete(id)
    report({ event: 'engine_ended', engine: id, model })
  }

  #step(work: Promise<void>): void {
    const step = work.then(() => {
      this.#steps.delete(step)
      this.#goOn()
    })
    this.#steps.add(step)
  }
}

function runningOf({ model, gpus }: WantedEngine, id: string, home: boolean): Running {
  const rest = { message: null, failures: 0, leaving: new AbortController(), retry: null }
  return { id, model, gpus: [...gpus], home, state: 'loading', ...rest }
}
