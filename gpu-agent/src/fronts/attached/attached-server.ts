/**
 * A server that the agent does not run (`--url`, `--vllm-url`). The agent asks what it is, calls it and watches whether it is
 * there. It cannot start or end it. What is known of it, what is not, and what is lost without our plug-in is told in one event
 * each time that it comes up. A server that was away, or whose process started at another time than before, has another epoch:
 * its KV cache is gone, and with it the pins to it.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BackoffBounds, backoffMs } from '../../../../src/core/backoff.ts'
import type { NativeApi } from '../../../../src/protocol/index.ts'
import type { Report } from '../../events.ts'
import type { Capability } from '../../openai/capabilities.ts'
import type { EngineHello } from '../vllm/channel/channel-messages.ts'
import { hearHello } from '../vllm/channel/side-channel-hello.ts'
import type { VllmAddress, VllmServer, VllmServerListener } from '../vllm/process/vllm-server.ts'
import { ANSWER_MS_MAX, ask, askHealth, type KeyHeader, type ServerApi } from './ask-server.ts'
import { type AttachedBy, attachFault } from './attach-fault.ts'
import type { Behaviour } from './behaviour.ts'
import { continuesAny } from './continuing/continuing.ts'
import { nativeApis } from './native/native-apis.ts'
import { isOpenAi } from './provider-hosts.ts'
import { askFacts, askModels, type ServedModel, type ServerFacts } from './server-facts.ts'
import { METRICS_BYTES_MAX, readMetrics } from './server-metrics.ts'
import type { Preempt } from './server-options.ts'
import { profileOf, type ServerKind, type ServerProfile } from './server-profile.ts'

export const PROBE_PAUSE: BackoffBounds = { min_ms: 500, max_ms: 15_000 }
/** What the pool is told where neither the server nor the operator names its seats. */
export const ATTACHED_SEATS = 256
/** Where nobody says how long a context may be. */
export const CONTEXT_TOKENS_ASSUMED = 8192
const WATCH_MS = 2000
/** /metrics is large: whether the process is another one is looked at less often than whether it answers. */
const IDENTITY_MS = 10_000
/** Answers that are missing in a row before it counts as away. */
const SILENCES_MAX = 3

export interface AttachedServerOptions extends AttachedBy {
  engine: string
  api_key: string | null
  api?: ServerApi
  api_version?: string | null
  key_header?: KeyHeader | null
  /** Calls with output are stopped for better ones, where the server goes on with a text exactly. Left out: never. */
  preempt?: Preempt
  /** APIs beside chat by which it may be called. Null: found out. Left out: none. */
  native?: readonly NativeApi[] | null
  /** Null: found out. */
  kind: ServerKind | null
  /** Side channel of our plug-in in it. */
  socket: string | null
  /** Of a vLLM without the plug-in. */
  order: 'fcfs' | 'priority'
  /** The name that it knows its model by; null: the only one that it serves. */
  model: string | null
  model_id: string
  seats: number | null
  kv_tokens: number | null
  context_tokens: number | null
  /** How long it may take to answer for the first time. */
  start_limit_ms: number
  report: Report
  /** Finds out how the server behaves, with calls that generate tokens. Null: that is not wanted. */
  probe: ((facts: ServerFacts, model: string) => Promise<Behaviour | null>) | null
  random?: () => number
  probe_pause?: BackoffBounds
  watch_ms?: number
  identity_ms?: number
}

interface Present {
  address: VllmAddress
  facts: ServerFacts
  behaviour: Behaviour | null
  process_start_s: number | null
}
/** `final`: asking again does not help. */
type Probed = ({ ok: true } & Present) | { ok: false; reason: string; final: boolean }

export class AttachedServer implements VllmServer {
  readonly #options: AttachedServerOptions
  readonly #stopping = new AbortController()
  #listener: VllmServerListener | null = null
  #suspicion: string | null = null
  #life: Promise<void> = Promise.resolve()
  /** It has a /health that tells of it. */
  #has_health = false

  constructor(options: AttachedServerOptions) {
    this.#options = options
  }

  async start(listener: VllmServerListener): Promise<void> {
    this.#listener = listener
    const { url, start_limit_ms } = this.#options
    const give_up_ms = performance.now() + start_limit_ms
    for (let failures = 1; ; failures += 1) {
      const probed = await this.#probe()
      if (probed.ok) {
        this.#isUp(probed)
        this.#life = this.#watch(probed)
        return
      }
      const late = performance.now() > give_up_ms || this.#stopping.signal.aborted
      if (probed.final || late) throw new Error(`the server at ${url} cannot be used: ${probed.reason}`)
      await this.#retry(probed.reason, failures)
    }
  }

  suspect(reason: string): void {
    this.#suspicion ??= reason
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#life
  }

  #isUp({ address, facts, behaviour }: Present): void {
    this.#suspicion = null
    const { engine, report } = this.#options
    const { url, epoch, served_model, queued, profile } = address
    const { kind, version } = facts
    const sizes = {
      seats: queued?.seats ?? queued?.server_seats ?? (address.order === 'plugin' ? address.seats : null),
      kv_tokens: queued === null ? address.kv_capacity_tokens : queued.kv_tokens,
      context_tokens: address.context_tokens_max,
    }
    report({
      ...{ event: 'server_attached', engine, url, epoch, kind, version, model: served_model },
      models: facts.models.length,
      apis: [profile.dialect === 'messages' ? [] : ['chat'], address.native_apis ?? []].flat(),
      ...sizes,
      prefix_cache: behaviour?.cached_tokens ?? facts.prefix_cache,
      reports_queue: facts.reports_queue,
      resumes: continuesAny(address.continues ?? null),
      behaviour,
      unknown: this.#unknown(facts, address, behaviour),
      reduced: reducedPowers(address, facts),
    })
    this.#listener?.up(address)
  }

  /** Each with what it means, and how to say it. */
  #unknown(facts: ServerFacts, { context_tokens_max, queued }: VllmAddress, behaviour: Behaviour | null): string[] {
    if (queued === null) return []
    const { context_tokens } = this.#options
    const unknown: string[] = []
    if (queued.seats === null && queued.server_seats === null) {
      const how = facts.reports_queue
        ? 'by the queue that it reports'
        : 'by its tokens per second and times to the first token'
      unknown.push(`seats: learned ${how} (--seats sets them)`)
    }
    if (queued.kv_tokens === null)
      unknown.push('KV tokens: programs are not held back for memory (--kv-tokens sets them)')
    if (facts.context_tokens === null && context_tokens === null) {
      unknown.push(`context: taken to be ${context_tokens_max} tokens (--context-tokens sets it)`)
    }
    if (facts.kind === 'ollama' && context_tokens === null) {
      unknown.push(
        'whether prompts are cut: Ollama cuts those beyond its own num_ctx (OLLAMA_CONTEXT_LENGTH) without a word',
      )
    }
    if (this.#options.preempt === 'resume' && queued.stops !== true) {
      const why = behaviour === null ? 'it was not asked (--probe asks it)' : 'its answers did not show it'
      unknown.push(
        `whether it goes on with a text exactly and stops when a client leaves, so --preempt resume stops nothing: ${why}`,
      )
    }
    if (behaviour === null && facts.kind === 'openai') {
      unknown.push('what it can do: tools, schemas and usage are taken to work as with OpenAI (--probe finds out)')
    }
    return unknown
  }

  async #watch(first: Present): Promise<void> {
    let present: Present | null = first
    while (present !== null) {
      const lost = await this.#untilLost(present)
      if (lost === null) return
      this.#listener?.down(lost)
      present = await this.#untilBack(lost)
      if (present !== null) this.#isUp(present)
    }
  }

  /** null: the agent stops. */
  async #untilBack(lost: string): Promise<Present | null> {
    let reason = lost
    for (let failures = 1; !this.#stopping.signal.aborted; failures += 1) {
      await this.#retry(reason, failures)
      if (this.#stopping.signal.aborted) return null
      const probed = await this.#probe()
      if (probed.ok) return probed
      reason = probed.reason
    }
    return null
  }

  async #retry(reason: string, failures: number): Promise<void> {
    const { engine, report, probe_pause = PROBE_PAUSE, random = Math.random } = this.#options
    const retry_in_ms = backoffMs(failures, probe_pause, random())
    report({ event: 'server_down', engine, reason, retry_in_ms })
    await this.#pause(retry_in_ms)
  }

  /** null: the agent stops. */
  async #untilLost({ process_start_s, facts }: Present): Promise<string | null> {
    const { watch_ms = WATCH_MS, identity_ms = IDENTITY_MS } = this.#options
    let silences = 0
    let identified_ms = performance.now()
    for (;;) {
      await this.#pause(watch_ms)
      if (this.#stopping.signal.aborted) return null
      if (this.#suspicion !== null) return this.#suspicion
      const health = await this.#health()
      if (health === 'broken' && facts.kind === 'vllm')
        return 'it says that its engine has died, so this agent serves no calls: restart that server'
      silences = health === 'ok' ? 0 : silences + 1
      if (silences >= SILENCES_MAX) return `it does not answer at ${this.#options.url}${this.#watched}`
      if (process_start_s === null || health !== 'ok' || performance.now() - identified_ms < identity_ms) continue
      identified_ms = performance.now()
      const started_s = await this.#processStart()
      if (started_s !== null && started_s !== process_start_s) return 'it was started again'
    }
  }

  get #watched(): string {
    return this.#has_health ? '/health' : '/v1/models'
  }

  async #health(): Promise<'ok' | 'broken' | 'silent'> {
    const { url } = this.#options
    if (this.#has_health) return askHealth(url, ANSWER_MS_MAX)
    const models = await ask(this.#options, '/v1/models')
    return models.ok ? 'ok' : 'silent'
  }

  async #processStart(): Promise<number | null> {
    const metrics = await ask(this.#options, '/metrics', { bytes_max: METRICS_BYTES_MAX })
    return metrics.ok ? readMetrics(metrics.value).process_start_s : null
  }

  async #probe(): Promise<Probed> {
    const { url, socket, kind } = this.#options
    const health = await ask({ url, api_key: null }, '/health')
    if (!health.ok && health.status === null) {
      return { ok: false, ...attachFault(health, this.#options) }
    }
    this.#has_health = health.ok
    if (!health.ok && kind === 'vllm' && (health.status ?? 0) >= 500) {
      return later('its /health is not good: it is loading, or its engine has died')
    }
    const models = await askModels(this.#options)
    if (!models.ok) return { ok: false, ...attachFault(models, this.#options) }
    const model = this.#chosen(models.value)
    if (typeof model === 'string') return { ok: false, reason: model, final: true }
    const facts = await askFacts(this.#options, models.value, model.id, kind)
    const hello = socket === null ? null : await hearHello(socket)
    if (hello?.ok === false) return later(`its side channel ${socket} (--vllm-socket) cannot be used: ${hello.reason}`)
    const behaviour = (await this.#options.probe?.(facts, model.id)) ?? null
    const { native = [] } = this.#options
    const native_apis = native ?? (await nativeApis(this.#options, facts.kind))
    return { ok: true, ...this.#described(model, facts, hello?.hello ?? null, behaviour, native_apis) }
  }

  #chosen(models: readonly ServedModel[]): ServedModel | string {
    const { model: wanted, model_id } = this.#options
    const names = models.map(({ id }) => id).join(', ')
    if (wanted !== null) {
      return models.find(({ id }) => id === wanted) ?? `it serves no model ${wanted} (--model), but ${names || 'none'}`
    }
    const same = models.find(({ id }) => id === model_id)
    if (same !== undefined) return same
    const [only, other] = models
    if (only === undefined) return 'it serves no model: load one into it'
    return other === undefined ? only : `it serves several models: say with --model which of ${names} is ${model_id}`
  }

  #described(
    model: ServedModel,
    facts: ServerFacts,
    hello: EngineHello | null,
    behaviour: Behaviour | null,
    native_apis: readonly NativeApi[],
  ): Present {
    const { url, api_key, socket, order, seats, context_tokens, kv_tokens } = this.#options
    const { api_version = null, key_header = null } = this.#options
    const told_context = facts.context_tokens ?? hello?.context_tokens_max ?? null
    const context_tokens_max = least(told_context, context_tokens) ?? CONTEXT_TOKENS_ASSUMED
    const known_kv = kv_tokens ?? hello?.kv_capacity_tokens ?? facts.kv_tokens
    const seats_told = hello?.seats ?? seats ?? facts.seats ?? ATTACHED_SEATS
    const continues = behaviour?.continues ?? null
    const profile = withFound(profileOf(facts.kind), facts, behaviour)
    const address: VllmAddress = {
      ...{ url, api_key, api_version, key_header, socket, context_tokens_max, profile, native_apis },
      ...{ continues, token_chunks: behaviour?.token_chunks === true },
      served_model: model.id,
      kv_capacity_tokens: known_kv ?? context_tokens_max * seats_told,
      seats: seats_told,
      order: hello !== null ? 'plugin' : facts.kind === 'vllm' ? order : isOpenAi(url) ? 'provider' : 'none',
      epoch: hello?.epoch ?? randomUUID(),
      queued:
        hello === null
          ? {
              ...{ seats, server_seats: facts.seats, kv_tokens: known_kv },
              ...{ takes_back: profile.takes_back, reports: facts.reports_queue },
              stops: this.#options.preempt === 'resume' && profile.takes_back && continuesAny(continues),
            }
          : null,
    }
    return { address, facts, behaviour, process_start_s: facts.process_start_s }
  }

  /** Ends early when the agent stops. */
  async #pause(ms: number): Promise<void> {
    const { signal } = this.#stopping
    await sleep(ms, undefined, { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
  }
}

/**
 * What a probe has seen to be there or missing counts; what it could not see stays as it is for this kind of server. llama.cpp
 * (seen with build 11434) leaves tools out of the prompt where the template has none, and `tool_choice: required` does not help.
 */
function withFound(profile: ServerProfile, { tools }: ServerFacts, behaviour: Behaviour | null): ServerProfile {
  const capabilities = new Set(profile.capabilities)
  if (tools === false) capabilities.delete('tools')
  if (behaviour === null) return { ...profile, capabilities }
  const seen: readonly [Capability, boolean | null][] = [
    ['tools', behaviour.tools],
    ['structured_output', behaviour.schemas],
    ['logprobs', behaviour.logprobs],
    ['choices', behaviour.choices],
  ]
  for (const [capability, works] of seen) {
    if (works === true) capabilities.add(capability)
    if (works === false) capabilities.delete(capability)
  }
  return { ...profile, capabilities, takes_back: behaviour.stops_when_left ?? profile.takes_back }
}

function reducedPowers(
  { order, queued, profile: { name, capabilities }, continues = null }: VllmAddress,
  facts: ServerFacts,
): string[] {
  const powers = ['the agent does not start, end or restart this server']
  if (queued === null) return [...powers, 'it keeps the policy that it was started with: --policy has no effect in it']
  powers.push(
    order === 'priority'
      ? 'calls wait in the queue of the agent, ordered by --policy, and have a priority in its own too'
      : `calls wait in the queue of the agent, ordered by --policy, and are let through as ${name} has room`,
    ...(queued.stops === true ? [] : ['no running call yields to a better one']),
    ...(continuesAny(continues) ? [] : ['an answer that another engine began does not go on here']),
    'service and wait are measured from outside, by the times of chunks and by the usage',
  )
  if (order === 'none' || order === 'provider')
    powers.push("tenants' prefix caches are not kept apart: the times of answers may tell what others sent")
  if (facts.tools === false && !capabilities.has('tools')) {
    powers.push(
      "calls with tools are refused: its model's chat template has none, so it would leave them out without a word " +
        '(start it with a template that has: --chat-template-file)',
    )
  }
  return powers
}

function later(reason: string): Probed {
  return { ok: false, reason, final: false }
}

function least(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other)
}
