/**
 * An EngineFront over an engine in this process: text model, scheduler, backend. It keeps an engine running: when a
 * backend breaks, every open call has ended as failed, and after a pause that doubles another engine starts under another
 * epoch. Calls for an epoch that is gone are refused, since their program's KV is gone with it.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type BackoffBounds, backoffMs } from '../../../../src/core/backoff.ts'
import type {
  EngineDescription,
  EngineStatus,
  QueuePosition,
  Resume,
  StreamError,
  TicketClaims,
} from '../../../../src/protocol/index.ts'
import type { CallListener, EngineDriver } from '../../../engine/driver.ts'
import type { EngineCall, LedgerRow } from '../../../engine/types.ts'
import type { Capabilities } from '../../openai/capabilities.ts'
import { ChunkBuilder } from '../../openai/chunks.ts'
import { EmbeddingFrame } from '../../openai/embeddings.ts'
import { badRequest, unavailable } from '../../openai/errors.ts'
import { PLAIN_SAMPLING, type SamplingDefaults } from '../../openai/sampling-fields.ts'
import { type Translation, translate } from '../../openai/translate.ts'
import { cappedOutput } from '../budget-cap.ts'
import {
  type CallSink,
  type DispatchedCall,
  type EngineFront,
  type EngineFrontEvents,
  isNativeApi,
  type ProgramKey,
  type TextDialect,
} from '../engine-front.ts'
import { BytesPerToken } from './bytes-per-token.ts'
import type { Echo } from './choice-output.ts'
import { echoOf } from './echo.ts'
import { embeddingPrompts } from './embedding-prompts.ts'
import { choiceOf, embeddingCall, engineCall, engineProgram } from './engine-call.ts'
import { leaseRows } from './lease-rows.ts'
import type { PromptLengths } from './lengths/prompt-lengths.ts'
import { readPrompt } from './lengths/read-prompt.ts'
import { LocalCall } from './local-call.ts'
import { LocalEmbedding } from './local-embedding.ts'
import { OutputMemory } from './output-memory.ts'
import { resumed } from './resumed-call.ts'
import { submitError } from './submit-error.ts'
import type { TextModel } from './text-model.ts'

export const RESTART_PAUSE: BackoffBounds = { min_ms: 100, max_ms: 30_000 }

export interface EngineHooks {
  onLedger: (rows: readonly LedgerRow[]) => void
  onStatus: () => void
  onBroken: (error: unknown) => void
  onCallFailed: (lease: string, error: unknown) => void
}

export interface LocalFrontOptions {
  description: Omit<EngineDescription, 'epoch'>
  text: TextModel
  capabilities: Capabilities
  /** Left out: OpenAI's. */
  sampling?: SamplingDefaults
  /** Shown in every chunk. */
  system_fingerprint: string
  ordering: 'wall' | 'modelled'
  /** How much calls write, by their prompts. Left out or null: prompts are not read. */
  lengths?: PromptLengths | null
  /** Makes an engine under `epoch`. Rejects when none can be made. */
  startEngine: (epoch: string, hooks: EngineHooks) => Promise<EngineDriver>
  /** Where failures go that no caller awaits. */
  report: (message: string, error: unknown) => void
  wall_ms?: () => number
  random?: () => number
  restart_pause?: BackoffBounds
}

interface OpenCall {
  call: LocalCall | LocalEmbedding
  driver: EngineDriver
}

const TEMPLATE_HINT = 'chat_template_kwargs'

export class LocalFront implements EngineFront {
  /** Options of the chat template, where it reads any. */
  readonly hints: ReadonlySet<string>
  readonly preempts_offline = true
  readonly #options: LocalFrontOptions
  readonly #events: EngineFrontEvents
  readonly #memory = new OutputMemory()
  readonly #bytes = new BytesPerToken()
  /** Bounded by the scheduler's open calls. */
  readonly #calls = new Map<string, OpenCall>()
  /** Lease of each further choice's engine call. */
  readonly #lease_of = new Map<string, string>()
  readonly #stopping = new AbortController()
  /** Who waits until no call is open. */
  #idle: (() => void)[] = []
  #epoch = ''
  #driver: EngineDriver | null = null
  #draining = false
  #restart: Promise<void> = Promise.resolve()
  #contexts_told = ''

  /** Resolves when the first engine is ready; rejects when it cannot be started. */
  static async start(options: LocalFrontOptions, events: EngineFrontEvents): Promise<LocalFront> {
    const front = new LocalFront(options, events)
    await front.#startEngine()
    return front
  }

  private constructor(options: LocalFrontOptions, events: EngineFrontEvents) {
    const { template_options } = options.text
    this.hints = new Set(template_options === undefined || template_options.size === 0 ? [] : [TEMPLATE_HINT])
    this.#options = options
    this.#events = events
  }

  describe(): EngineDescription {
    return { ...this.#options.description, epoch: this.#epoch, resumes: true }
  }

  status(): Omit<EngineStatus, 'leases_seen'> {
    const { waiting, running, queued_tokens, kv_used_tokens } = this.#driver?.status() ?? IDLE
    let pending_tokens = 0
    for (const { call } of this.#calls.values()) pending_tokens += call.pending_tokens
    return {
      id: this.#options.description.id,
      epoch: this.#epoch,
      state: this.#state(),
      waiting,
      running,
      queued_tokens: queued_tokens + pending_tokens,
      kv_used_tokens,
      bytes_per_token: this.#bytes.ratio(),
    }
  }

  serve(call: DispatchedCall, sink: CallSink): void {
    const refusal = this.#submit(call, sink)
    if (refusal !== null) sink.refused(refusal)
  }

  cancel(lease: string, error: StreamError | null): void {
    const open = this.#calls.get(lease)
    if (open === undefined) return
    open.call.cancelledBy(error)
    for (const engine_lease of open.call.leases) open.driver.cancel(engine_lease)
  }

  async positions(leases: readonly string[]): Promise<readonly QueuePosition[]> {
    return this.#driver?.positions(leases) ?? []
  }

  discard(program: ProgramKey): void {
    this.#driver?.discard(engineProgram(program))
  }

  async drain(): Promise<void> {
    this.#draining = true
    this.#events.status()
    // An embedding call under way opens further calls of the engine.
    if (this.#calls.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
    await this.#driver?.drain()
  }

  async stop(): Promise<void> {
    this.#draining = true
    this.#stopping.abort()
    this.#options.lengths?.stop()
    await this.#restart
    const driver = this.#driver
    this.#driver = null
    await driver?.stop()
  }

  #state(): EngineStatus['state'] {
    if (this.#driver === null) return 'down'
    return this.#draining ? 'draining' : 'ready'
  }

  #submit(dispatched: DispatchedCall, sink: CallSink): StreamError | null {
    const { claims, dialect, body, forecast, resume: asked_resume } = dispatched
    const driver = this.#driver
    if (this.#draining) return unavailable('draining', 'the engine takes no further calls')
    if (driver === null) return unavailable('engine_down', 'the engine is down')
    if (claims.epoch !== this.#epoch) return unavailable('epoch_gone', 'the engine has restarted')
    if (dialect === 'embeddings') return this.#embed(dispatched, sink, driver)
    if (isNativeApi(dialect)) return badRequest('unsupported_api', 'The engine speaks chat completions.', null)
    const translated = translate(dialect, body, this.#options.capabilities)
    if (!translated.ok) return translated.error
    const { translation } = translated
    const recall = (text: string) => this.#memory.recall(claims.cache_salt, text)
    const { text, sampling = PLAIN_SAMPLING } = this.#options
    const asked: EngineCall[] = []
    for (const [index] of translation.prompts.entries()) {
      const result = engineCall(claims, dialect, translation, index, text, recall, sampling)
      if (!result.ok) return result.error
      asked.push(forecast === undefined ? result.call : { ...result.call, forecast })
    }
    const capped = underBudget(asked, claims, translation.choices)
    if (!capped.ok) return capped.error
    const resuming = resumed(capped.calls, asked_resume ?? null, translation, text)
    if (!resuming.ok) return resuming.error
    const { calls, resume } = resuming
    const call = this.#localCall({ ...dispatched, dialect }, translation, calls, resume, sink, driver)
    const refusal = this.#isRead(calls, call)
      ? this.#submitReading(claims, calls, call, driver, dialect)
      : this.#submitChoices(calls, call, driver, dialect)
    if (refusal !== null) return refusal
    this.#calls.set(claims.lease, { call, driver })
    for (const [index, { prompt, resumed_tokens = 0 }] of calls.entries()) {
      this.#bytes.add(translation.prompts[index] ?? translation.prompts[0], prompt.length - resumed_tokens)
    }
    sink.accepted(totalTokens(calls.map(({ prompt }) => prompt)) - (resume?.tokens.length ?? 0))
    return null
  }

  #embed({ claims, body }: DispatchedCall, sink: CallSink, driver: EngineDriver): StreamError | null {
    const { text, ordering, description } = this.#options
    const result = embeddingPrompts(body, text)
    if (!result.ok) return result.error
    const { prompts, asked } = result.asked
    const capped = cappedOutput(claims, totalTokens(prompts), prompts.length, 0)
    if (!capped.ok) return capped.error
    const call = new LocalEmbedding({
      ...{ claims, prompts, sink, ordering },
      encoding: asked.encoding,
      frame: new EmbeddingFrame(claims.model),
      emulated: description.kind === 'emulated',
      submit: (prompt, index, deadline_us, listener) =>
        driver.submit(embeddingCall(claims, prompt, deadline_us, index > 0), listener),
      over: () => this.#over(claims.lease),
    })
    const verdict = call.begin()
    if (!verdict.ok) return submitError(verdict, 'embeddings')
    this.#calls.set(claims.lease, { call, driver })
    for (const [index, input] of asked.inputs.entries()) this.#bytes.add(input, prompts[index]?.length ?? 0)
    sink.accepted(totalTokens(prompts))
    return null
  }

  #over(lease: string): void {
    this.#calls.delete(lease)
    if (this.#calls.size === 0) for (const resolve of this.#idle.splice(0)) resolve()
  }

  /** Whether how much it writes is foreseen by its prompt, or learned from it: of one answer to one prompt. */
  #isRead(calls: readonly EngineCall[], { leases }: LocalCall): boolean {
    const { lengths = null } = this.#options
    const [call] = calls
    if (lengths === null || call === undefined || calls.length + leases.length > 2) return false
    if (call.resumed_tokens !== undefined) return false
    return call.sampling.prompt_logprobs === undefined && lengths.wants(call.prompt.length)
  }

  #submitReading(
    claims: TicketClaims,
    [call]: readonly EngineCall[],
    local: LocalCall,
    driver: EngineDriver,
    dialect: TextDialect,
  ): StreamError | null {
    const { lengths = null } = this.#options
    if (lengths === null || call === undefined) throw new Error('a call that is read has a prompt')
    const submit = (engine_call: EngineCall, listener: CallListener) => driver.submit(engine_call, listener)
    const verdict = readPrompt({ claims, call, listener: local.listener(0), lengths, submit })
    if (verdict.ok) return null
    local.abandon()
    this.#forget(local)
    return submitError(verdict, dialect)
  }

  /** All choices or none. `calls`: one for each choice, or one for all. */
  #submitChoices(
    calls: readonly EngineCall[],
    local: LocalCall,
    driver: EngineDriver,
    dialect: TextDialect,
  ): StreamError | null {
    for (const [index, lease] of local.leases.entries()) {
      const call = choiceOf(calls, index)
      const verdict = driver.submit({ ...call, lease }, local.listener(index))
      if (verdict.ok) {
        if (index > 0) this.#lease_of.set(lease, call.lease)
        continue
      }
      local.abandon()
      for (const submitted of local.leases.slice(0, index)) driver.cancel(submitted)
      this.#forget(local)
      return submitError(verdict, dialect)
    }
    return null
  }

  #localCall(
    { claims, dialect }: DispatchedCall & { dialect: TextDialect },
    { prompts, stops, sampling, include_usage, choices, logprobs, echo, max_output_tokens, output }: Translation,
    calls: readonly EngineCall[],
    resume: Resume | null,
    sink: CallSink,
    driver: EngineDriver,
  ): LocalCall {
    const { text, description, ordering, wall_ms = Date.now } = this.#options
    const created_s = resume?.created_s ?? Math.floor(wall_ms() / 1000)
    const system_fingerprint = resume?.system_fingerprint ?? this.#options.system_fingerprint
    const { call, model, lease } = claims
    const answers = prompts.length * choices
    const echoed = (index: number): Echo => {
      const { prompt } = choiceOf(calls, index)
      return echoOf(prompts[index] ?? prompts[0], prompt, text, max_output_tokens === 0)
    }
    const local: LocalCall = new LocalCall({
      claims,
      leases: Array.from({ length: answers }, (_, index) => (index === 0 ? lease : `${lease}#${index}`)),
      prompts: prompts.length,
      sink,
      chunks: new ChunkBuilder({ dialect, call, model, created_s, system_fingerprint, include_usage, text }),
      decoder: () => text.decoder(),
      stops,
      stop_tokens: sampling.stop_tokens ?? NO_TOKENS,
      format: output.format,
      logprobs: logprobs !== null,
      echoes: echo ? Array.from({ length: answers }, (_, index) => echoed(index)) : [],
      resume,
      emulated: description.kind === 'emulated',
      ordering,
      finish: (engine_lease) => driver.finish(engine_lease),
      cancel: (engine_lease) => driver.cancel(engine_lease),
      over: (answers) => {
        this.#over(lease)
        this.#forget(local)
        if (dialect !== 'chat') return
        for (const answer of answers) this.#memory.remember(claims.cache_salt, answer.text, answer.tokens)
      },
    })
    return local
  }

  #forget({ leases }: LocalCall): void {
    for (const lease of leases) this.#lease_of.delete(lease)
  }

  async #startEngine(): Promise<void> {
    const epoch = randomUUID()
    const driver = await this.#options.startEngine(epoch, {
      onLedger: (rows) => this.#events.ledger(leaseRows(rows, this.#lease_of)),
      onStatus: () => this.#changed(),
      onBroken: (error) => this.#broken(driver, error),
      onCallFailed: (lease, error) =>
        this.#options.report(`the engine could not compute the call of lease ${lease}`, error),
    })
    this.#epoch = epoch
    this.#driver = driver
  }

  #changed(): void {
    this.#events.status()
    const driver = this.#driver
    if (driver === null) return
    const { holds, tools } = driver
    const counts = tools === null ? { holds } : { holds, tools }
    const told = JSON.stringify(counts)
    if (told === this.#contexts_told) return
    this.#contexts_told = told
    this.#events.contexts?.(counts)
  }

  /** The driver has ended its calls as failed before it says that it is broken. */
  #broken(driver: EngineDriver, error: unknown): void {
    this.#options.report('the engine broke', error)
    if (this.#driver !== driver) return
    this.#driver = null
    this.#events.status()
    this.#restart = this.#restart.then(() => this.#restartEngine(driver))
  }

  async #restartEngine(broken: EngineDriver): Promise<void> {
    const { report, restart_pause = RESTART_PAUSE, random = Math.random } = this.#options
    const { signal } = this.#stopping
    await broken.stop().catch((error: unknown) => report('a broken engine could not be stopped', error))
    for (let failures = 1; !this.#draining; failures++) {
      // Rejects only when the front stops.
      await pause(backoffMs(failures, restart_pause, random()), undefined, { signal }).catch(() => undefined)
      if (this.#draining) return
      try {
        await this.#startEngine()
        this.#events.epoch()
        this.#events.status()
        return
      } catch (error) {
        report('the engine could not be restarted', error)
      }
    }
  }
}

const IDLE = { waiting: 0, running: 0, queued_tokens: 0, kv_used_tokens: 0 }

const NO_TOKENS: ReadonlySet<number> = new Set()

function totalTokens(prompts: readonly ArrayLike<number>[]): number {
  return prompts.reduce((sum, prompt) => sum + prompt.length, 0)
}

/** `choices`: answers to each prompt. */
function underBudget(
  asked: readonly EngineCall[],
  claims: TicketClaims,
  choices: number,
): { ok: true; calls: EngineCall[] } | { ok: false; error: StreamError } {
  const prompt_tokens = totalTokens(asked.map(({ prompt }) => prompt))
  const calls: EngineCall[] = []
  for (const call of asked) {
    const capped = cappedOutput(claims, prompt_tokens, asked.length * choices, call.max_output_tokens)
    if (!capped.ok) return capped
    calls.push({ ...call, max_output_tokens: capped.output_tokens_max })
  }
  return { ok: true, calls }
}
