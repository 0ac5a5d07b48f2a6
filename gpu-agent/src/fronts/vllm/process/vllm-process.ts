/**
 * A vLLM that this agent runs: started, found again after a crash of the agent, watched, started again when it ends, ended with
 * all its processes when the agent stops. A start that fails before it has ever served is for the operator to fix, and start()
 * rejects with a sentence; after that it is tried again for ever, with a pause that doubles, and every failure is told.
 */
import { chmodSync, mkdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BackoffBounds, backoffMs } from '../../../../../src/core/backoff.ts'
import { messageOf, type Report } from '../../../events.ts'
import { hearHello } from '../channel/side-channel-hello.ts'
import { driverFault, flashinferNote } from './gpu-readiness.ts'
import { HEALTH_TIMES, type HealthTimes, HealthWatch } from './health-watch.ts'
import { classify, type VllmFailure } from './vllm-failure.ts'
import { type Environment, lookAtHost, strangeVersion, type VllmHost } from './vllm-host.ts'
import { fingerprintOf, gpusOfEngine, modelFault, type VllmWish } from './vllm-launch.ts'
import { boundLog, logTail } from './vllm-log.ts'
import { untilReady } from './vllm-ready.ts'
import { logOf, STOP_MS_MAX, VllmRun } from './vllm-run.ts'
import type { VllmAddress, VllmServer, VllmServerListener } from './vllm-server.ts'
import { readState, removeState, writeState } from './vllm-state.ts'

export const RESTART_PAUSE: BackoffBounds = { min_ms: 1000, max_ms: 60_000 }
/** After so long, an end counts as the first in a row. */
const STEADY_MS = 60_000
/** After SIGABRT, for Python to write the stacks of its threads. */
const ABORT_MS_MAX = 3000
/** Starts in a row that another process spoils by taking the port. */
const PORT_TRIES_MAX = 3
const WATCH_MS = 500
/** A vLLM that was loading when the agent crashed has at least so much of its limit left. */
const FOUND_LIMIT_MS_MIN = 60_000

export interface VllmProcessOptions {
  /** Engine id, for events. */
  engine: string
  /** State, log and socket of this engine. */
  folder: string
  wish: VllmWish
  /** From the start of the process until it serves. */
  start_limit_ms: number
  report: Report
  /** Aborted when the agent ends in this very moment. */
  leaving: AbortSignal
  env?: Environment
  random?: () => number
  restart_pause?: BackoffBounds
  stop_ms_max?: number
  health?: Partial<HealthTimes>
}

interface Serving {
  ok: true
  run: VllmRun
  host: VllmHost
  address: VllmAddress
}
type Attempt = Serving | { ok: false; failure: VllmFailure }

export class VllmProcess implements VllmServer {
  readonly #options: VllmProcessOptions
  readonly #env: Environment
  readonly #stopping = new AbortController()
  #listener: VllmServerListener | null = null
  #run: VllmRun | null = null
  #flashinfer_noted = false
  #suspicion: string | null = null
  /** Everything that happens, one after the other; stop() waits for its end. */
  #life: Promise<void> = Promise.resolve()

  constructor(options: VllmProcessOptions) {
    this.#options = options
    this.#env = options.env ?? process.env
  }

  async start(listener: VllmServerListener): Promise<void> {
    const { folder, leaving } = this.#options
    mkdirSync(folder, { recursive: true })
    chmodSync(folder, 0o700)
    this.#listener = listener
    leaving.addEventListener('abort', () => this.#run?.killNow(), { once: true })
    const first = this.#attempt()
    this.#life = first.then(() => undefined)
    const attempt = await first
    if (!attempt.ok) throw new Error(attempt.failure.sentence)
    if (this.#stopping.signal.aborted) return
    listener.up(attempt.address)
    this.#life = this.#supervise(attempt)
  }

  suspect(reason: string): void {
    this.#suspicion ??= reason
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#life
    if (this.#run !== null) await this.#end(this.#run, 'SIGTERM', this.#options.stop_ms_max ?? STOP_MS_MAX)
  }

  async #supervise(first: Serving): Promise<void> {
    let serving: Serving | null = first
    let failures = 0
    while (serving !== null) {
      const up_ms = performance.now()
      const lost = await this.#untilLost(serving)
      if (lost === null) return
      if (performance.now() - up_ms > STEADY_MS) failures = 0
      this.#listener?.down(lost.sentence)
      await this.#end(serving.run, lost.kind === 'hang' ? 'SIGABRT' : 'SIGKILL', ABORT_MS_MAX)
      let reason = lost.sentence
      serving = null
      while (serving === null && !this.#stopping.signal.aborted) {
        failures += 1
        const again = await this.#tryAgain(reason, failures)
        if (again === null) return
        if (again.ok) serving = again
        else reason = again.failure.sentence
      }
      if (serving !== null) this.#listener?.up(serving.address)
    }
  }

  /** null: the agent stops. */
  async #tryAgain(reason: string, failures: number): Promise<Attempt | null> {
    const { engine, restart_pause = RESTART_PAUSE, random = Math.random } = this.#options
    const retry_in_ms = backoffMs(failures, restart_pause, random())
    this.#options.report({ event: 'vllm_down', engine, reason, retry_in_ms })
    await this.#pause(retry_in_ms)
    return this.#stopping.signal.aborted ? null : this.#attempt()
  }

  async #attempt(): Promise<Attempt> {
    const { wish, folder } = this.#options
    const fault = modelFault(wish.model)
    if (fault !== null) return failed(fault)
    const looked = await lookAtHost(wish.python, this.#env)
    if (!looked.ok) return failed(looked.sentence)
    const { host } = looked
    const gpus = gpusOfEngine(wish, host)
    if (typeof gpus === 'string') return failed(gpus)
    const driver = driverFault(host, wish.python, this.#env)
    if (driver !== null) return failed(driver)
    const found = await this.#find(host, gpus)
    if (found !== null) return found
    this.#noteFlashinfer(host)
    let attempt: Attempt = failed('it was not started')
    for (let tries = 0; tries < PORT_TRIES_MAX && !this.#stopping.signal.aborted; tries += 1) {
      try {
        this.#run = await VllmRun.start(folder, { wish, host, gpus, env: this.#env })
      } catch (error) {
        return failed(`${wish.python} could not be started: ${messageOf(error)}`)
      }
      attempt = await this.#untilServing(this.#run, host, 'started', this.#options.start_limit_ms)
      if (attempt.ok || attempt.failure.kind !== 'port') return attempt
    }
    return attempt
  }

  /** Once: the next start finds what the first one compiled. */
  #noteFlashinfer(host: VllmHost): void {
    const { engine, wish, report } = this.#options
    const message = this.#flashinfer_noted ? null : flashinferNote(host, wish.python)
    this.#flashinfer_noted = true
    if (message !== null) report({ event: 'vllm_note', engine, message })
  }

  /** What a former agent left: taken over where it is what this one would start, else ended. */
  async #find(host: VllmHost, gpus: readonly number[]): Promise<Serving | null> {
    const { engine, folder, wish, report, start_limit_ms } = this.#options
    const found = readState(folder)
    if (found.status === 'none') return null
    if (found.status === 'damaged') {
      removeState(folder)
      report({ event: 'vllm_note', engine, message: `${folder}/state.json could not be read and is removed` })
      return null
    }
    const { state } = found
    const run = new VllmRun(folder, state)
    const same = state.fingerprint === fingerprintOf(wish, host, gpus, this.#env)
    if (!run.alive || !same) {
      const what = run.alive ? 'was started with other settings' : 'has ended since'
      report({ event: 'vllm_note', engine, message: `the vLLM of a former agent (pid ${state.pid}) ${what}` })
      await this.#end(run, 'SIGTERM', this.#options.stop_ms_max ?? STOP_MS_MAX)
      return null
    }
    this.#run = run
    const left_ms = start_limit_ms - Math.max(0, Date.now() - state.started_at_ms)
    const attempt = await this.#untilServing(run, host, 'found', Math.max(FOUND_LIMIT_MS_MIN, left_ms))
    if (!attempt.ok) {
      const message = `the vLLM of a former agent is of no use: ${attempt.failure.sentence}`
      report({ event: 'vllm_note', engine, message })
      return null
    }
    if (!isEqual(state.scheduler, wish.scheduler)) await this.#changeScheduler(run)
    return attempt
  }

  async #changeScheduler(run: VllmRun): Promise<void> {
    const { engine, folder, wish, report } = this.#options
    const heard = await hearHello(run.state.socket, wish.scheduler)
    if (heard.ok) writeState(folder, { ...run.state, scheduler: wish.scheduler })
    else
      report({ event: 'vllm_note', engine, message: `the scheduler's options could not be changed: ${heard.reason}` })
  }

  async #untilServing(run: VllmRun, host: VllmHost, how: 'started' | 'found', limit_ms: number): Promise<Attempt> {
    const { engine, wish, report } = this.#options
    const { pid } = run.state
    report({ event: 'vllm_starting', engine, pid, how, device: host.device, log: logOf(run.folder) })
    const strange = strangeVersion(host)
    const began_ms = performance.now()
    const ready = await untilReady({
      run,
      wish,
      device: host.device,
      limit_ms,
      stopping: this.#stopping.signal,
      progress: (phase, elapsed_s) => report({ event: 'vllm_loading', engine, phase, elapsed_s }),
    })
    if (!ready.ok) {
      const stuck = ready.failure.kind === 'start_limit'
      await this.#end(run, stuck ? 'SIGABRT' : run.alive ? 'SIGTERM' : 'SIGKILL', ABORT_MS_MAX)
      const { kind, sentence } = ready.failure
      return { ok: false, failure: { kind, sentence: `${sentence} ${strange}`.trim() } }
    }
    this.#suspicion = null
    run.noteSharedMemory()
    const { address } = ready
    const vllm = host.vllm_version
    const { epoch, seats, kv_capacity_tokens, context_tokens_max } = address
    const after_s = Math.round((performance.now() - began_ms) / 1000)
    report({
      event: 'vllm_up',
      ...{ engine, pid, how, after_s, epoch, vllm, seats, kv_capacity_tokens, context_tokens_max },
    })
    if (strange !== '') report({ event: 'vllm_note', engine, message: strange })
    return { ok: true, run, host, address }
  }

  /** null: the agent stops. */
  async #untilLost({ run, host }: Serving): Promise<VllmFailure | null> {
    const { wish } = this.#options
    const log_file = logOf(run.folder)
    const lost = (): VllmFailure =>
      classify({
        ...{ phase: 'serving', exit: run.exit, start_limit_s: null, device: host.device, model: wish.model },
        ...{ log_file, log: logTail(log_file) },
      })
    const times = { ...HEALTH_TIMES, ...this.#options.health }
    const health = new HealthWatch(run.url, times)
    while (!this.#stopping.signal.aborted) {
      boundLog(log_file)
      if (!run.alive) return lost()
      const ill = health.look()
      if (ill === 'broken') return lost()
      if (this.#suspicion !== null || ill === 'silent') {
        const why = this.#suspicion ?? `its /health has not answered for ${times.silence_ms_max / 1000} s`
        return { kind: 'hang', sentence: `vLLM is started again: ${why}` }
      }
      await this.#pause(WATCH_MS)
    }
    return null
  }

  async #end(run: VllmRun, signal: 'SIGTERM' | 'SIGABRT' | 'SIGKILL', grace_ms: number): Promise<void> {
    const left = await run.end(signal, grace_ms)
    if (this.#run === run) this.#run = null
    if (left.length === 0) return
    const message = `processes ${left.join(', ')} of vLLM do not end, not even by SIGKILL: their memory is not free`
    this.#options.report({ event: 'vllm_note', engine: this.#options.engine, message })
  }

  /** Ends early when the agent stops. */
  async #pause(ms: number): Promise<void> {
    const { signal } = this.#stopping
    await sleep(ms, undefined, { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
  }
}

function failed(sentence: string): Attempt {
  return { ok: false, failure: { kind: 'died', sentence } }
}

function isEqual(one: Readonly<Record<string, unknown>>, other: Readonly<Record<string, unknown>>): boolean {
  const sorted = (record: Readonly<Record<string, unknown>>) => JSON.stringify(Object.entries(record).sort())
  return sorted(one) === sorted(other)
}
