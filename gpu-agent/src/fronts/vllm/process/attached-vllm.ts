/**
 * A vLLM that the agent does not run (`--vllm-url`). The agent calls it and watches whether it is there; it cannot start or end
 * it, and what our scheduler would tell is not there unless the plug-in's socket is given too. What it cannot do is told in one
 * event at the start. A server that was away, or whose process started at another time than before, has another epoch: its KV
 * cache is gone, and with it the pins to it.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BackoffBounds, backoffMs } from '../../../../../src/core/backoff.ts'
import type { Report } from '../../../events.ts'
import type { EngineHello } from '../channel/channel-messages.ts'
import { hearHello } from '../channel/side-channel-hello.ts'
import { type Asked, askHealth, askMetrics, askModels, type ServedModel, type VllmMetrics } from './vllm-address.ts'
import type { VllmAddress, VllmServer, VllmServerListener } from './vllm-server.ts'

export const PROBE_PAUSE: BackoffBounds = { min_ms: 500, max_ms: 15_000 }
/** vLLM's own default on most hosts; stock vLLM does not report its seats. */
export const ATTACHED_SEATS = 256
const WATCH_MS = 2000
/** /metrics is large: whether the process is another one is looked at less often than whether it answers. */
const IDENTITY_MS = 10_000
/** Answers that are missing in a row before it counts as away. */
const SILENCES_MAX = 3
const ANSWER_MS_MAX = 5000

export interface AttachedVllmOptions {
  engine: string
  /** Base URL without /v1. */
  url: string
  api_key: string | null
  /** Side channel of our plug-in in it. */
  socket: string | null
  /** Of a vLLM without the plug-in. */
  order: 'fcfs' | 'priority'
  /** The name that it knows its model by; null: the only one that it serves. */
  model: string | null
  model_id: string
  seats: number | null
  context_tokens: number | null
  /** How long it may take to answer for the first time. */
  start_limit_ms: number
  report: Report
  random?: () => number
  probe_pause?: BackoffBounds
  watch_ms?: number
  identity_ms?: number
}

interface Present {
  address: VllmAddress
  process_start_s: number | null
  reduced: string[]
}
/** `final`: asking again does not help. */
type Probed = ({ ok: true } & Present) | { ok: false; reason: string; final: boolean }

export class AttachedVllm implements VllmServer {
  readonly #options: AttachedVllmOptions
  readonly #stopping = new AbortController()
  #listener: VllmServerListener | null = null
  #suspicion: string | null = null
  #life: Promise<void> = Promise.resolve()

  constructor(options: AttachedVllmOptions) {
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
      if (probed.final || late) throw new Error(`the vLLM at ${url} cannot be used: ${probed.reason}`)
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

  #isUp({ address, reduced }: Present): void {
    this.#suspicion = null
    const { engine, report } = this.#options
    const { url, epoch, seats, kv_capacity_tokens, context_tokens_max } = address
    report({ event: 'vllm_attached', engine, url, epoch, seats, kv_capacity_tokens, context_tokens_max, reduced })
    this.#listener?.up(address)
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
    report({ event: 'vllm_down', engine, reason, retry_in_ms })
    await this.#pause(retry_in_ms)
  }

  /** null: the agent stops. */
  async #untilLost({ process_start_s }: Present): Promise<string | null> {
    const { url, api_key, watch_ms = WATCH_MS, identity_ms = IDENTITY_MS } = this.#options
    let silences = 0
    let identified_ms = performance.now()
    for (;;) {
      await this.#pause(watch_ms)
      if (this.#stopping.signal.aborted) return null
      if (this.#suspicion !== null) return this.#suspicion
      const health = await askHealth(url, ANSWER_MS_MAX)
      if (health === 'broken')
        return 'it says that its engine has died, so this agent serves no calls: restart that vLLM'
      silences = health === 'ok' ? 0 : silences + 1
      if (silences >= SILENCES_MAX) return `it does not answer at ${url}/health`
      if (health !== 'ok' || performance.now() - identified_ms < identity_ms) continue
      identified_ms = performance.now()
      const metrics = await askMetrics(url, api_key)
      const started_s = metrics.ok ? metrics.value.process_start_s : null
      if (started_s !== null && process_start_s !== null && started_s !== process_start_s) return 'it was started again'
    }
  }

  async #probe(): Promise<Probed> {
    const { url, api_key, socket } = this.#options
    const health = await askHealth(url, ANSWER_MS_MAX)
    if (health === 'silent') return later(`nothing answers at ${url}/health: start that vLLM, or correct --vllm-url`)
    if (health === 'broken') return later('its /health is not good: it is loading, or its engine has died')
    const models = await askModels(url, api_key)
    if (!models.ok) return modelsFault(models)
    const model = this.#chosen(models.value)
    if (typeof model === 'string') return { ok: false, reason: model, final: true }
    const metrics = await askMetrics(url, api_key)
    const hello = socket === null ? null : await hearHello(socket)
    if (hello?.ok === false) return later(`its side channel ${socket} (--vllm-socket) cannot be used: ${hello.reason}`)
    return this.#described(model, metrics, hello?.hello ?? null)
  }

  #chosen(models: readonly ServedModel[]): ServedModel | string {
    const { model: wanted, model_id } = this.#options
    const names = models.map(({ id }) => id).join(', ')
    if (wanted !== null) {
      return models.find(({ id }) => id === wanted) ?? `it serves no model ${wanted} (--model), but ${names}`
    }
    const same = models.find(({ id }) => id === model_id)
    if (same !== undefined) return same
    const [only, other] = models
    if (only === undefined) return 'it serves no model'
    return other === undefined ? only : `it serves several models: say with --model which of ${names} is ${model_id}`
  }

  #described(model: ServedModel, metrics: Asked<VllmMetrics>, hello: EngineHello | null): Probed {
    const { url, api_key, socket, order, seats, context_tokens } = this.#options
    const context_tokens_max = least(model.context_tokens_max ?? hello?.context_tokens_max ?? null, context_tokens)
    if (context_tokens_max === null) {
      return { ok: false, reason: 'it does not say how long a context may be: give --context-tokens', final: true }
    }
    const told_kv = hello?.kv_capacity_tokens ?? (metrics.ok ? metrics.value.kv_capacity_tokens : null)
    const seats_known = hello?.seats ?? seats
    const seats_told = seats_known ?? ATTACHED_SEATS
    const address: VllmAddress = {
      ...{ url, api_key, socket, context_tokens_max },
      served_model: model.id,
      kv_capacity_tokens: told_kv ?? context_tokens_max * seats_told,
      seats: seats_told,
      order: hello === null ? order : 'plugin',
      epoch: hello?.epoch ?? randomUUID(),
    }
    const reduced = reducedPowers(address, { seats_known: seats_known !== null, kv_known: told_kv !== null })
    return { ok: true, address, reduced, process_start_s: metrics.ok ? metrics.value.process_start_s : null }
  }

  /** Ends early when the agent stops. */
  async #pause(ms: number): Promise<void> {
    const { signal } = this.#stopping
    await sleep(ms, undefined, { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
  }
}

function reducedPowers(
  { order, seats, kv_capacity_tokens }: VllmAddress,
  { seats_known, kv_known }: { seats_known: boolean; kv_known: boolean },
): string[] {
  const powers = ['the agent does not start, end or restart this vLLM']
  if (order === 'plugin') powers.push('it keeps the policy that it was started with: --policy has no effect in it')
  else {
    powers.push(
      order === 'fcfs'
        ? 'calls are served in the order in which they come: --policy has no effect in it'
        : 'calls are ordered once, when they come, by the priority of their ticket',
      'no running call yields to a better one',
      'service and wait are measured from outside, by the times of chunks',
      'queue depth and KV use are read from its /metrics, with other clients in them',
    )
  }
  if (!seats_known) powers.push(`seats are taken to be ${seats}: --seats says how many`)
  if (!kv_known) powers.push(`its KV capacity is not told and taken to be ${kv_capacity_tokens} tokens`)
  return powers
}

function modelsFault({ status, reason }: { status: number | null; reason: string }): Probed {
  if (status === 401 || status === 403) {
    const why = 'it asks for another API key: put its key into the variable SWITCHYARD_VLLM_KEY'
    return { ok: false, reason: why, final: true }
  }
  const why = `its /v1/models cannot be read: ${reason}`
  return { ok: false, reason: why, final: status !== null && status < 500 }
}

function later(reason: string): Probed {
  return { ok: false, reason, final: false }
}

function least(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other)
}
