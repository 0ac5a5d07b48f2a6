/**
 * What servers say of their load in the Prometheus text of /metrics, each under its own names, and the poll of it: only while
 * calls are open, one question at a time. Numbers that no load can have are not taken.
 */
import { ask } from './ask-server.ts'
import { type LoadReport, NO_LOAD } from './reported-load.ts'

export const POLL_MS = 1000
export const METRICS_BYTES_MAX = 4 * 1024 * 1024
/** No server holds more calls. */
const CALLS_MAX = 1_000_000

/** `used`: the share of its KV that is used. */
const NAMES = [
  { waiting: 'vllm:num_requests_waiting', running: 'vllm:num_requests_running', used: 'vllm:kv_cache_usage_perc' },
  { waiting: 'sglang:num_queue_reqs', running: 'sglang:num_running_reqs', used: 'sglang:token_usage' },
  {
    waiting: 'llamacpp:requests_deferred',
    running: 'llamacpp:requests_processing',
    used: 'llamacpp:kv_cache_usage_ratio',
  },
  { waiting: 'tgi_queue_size', running: 'tgi_batch_current_size', used: null },
] as const

/** Null: it tells no load. `queued_tokens` is not told: the prompts of waiting calls are the front's own estimate. */
export function loadOfMetrics(text: string, kv_capacity_tokens: number): LoadReport | null {
  for (const names of NAMES) {
    const waiting = sumOf(text, names.waiting)
    const running = sumOf(text, names.running)
    if (waiting === null || running === null) continue
    const kv_used = names.used === null ? null : sumOf(text, names.used)
    const kv_used_tokens = Math.round(Math.min(1, kv_used ?? 0) * kv_capacity_tokens)
    return { ...NO_LOAD, waiting: Math.round(waiting), running: Math.round(running), kv_used_tokens }
  }
  return null
}

/** Over all label sets of a metric. */
function sumOf(text: string, name: string): number | null {
  let sum: number | null = null
  for (const line of text.split('\n')) {
    const rest = line.startsWith(name) ? line.slice(name.length) : ''
    if (!rest.startsWith('{') && !rest.startsWith(' ')) continue
    const value = Number(rest.slice(rest.lastIndexOf(' ') + 1))
    if (Number.isFinite(value) && value >= 0 && value <= CALLS_MAX) sum = (sum ?? 0) + value
  }
  return sum
}

export interface ServerMetrics {
  kv_capacity_tokens: number | null
  /** Seconds since 1970 at which the server's process started. */
  process_start_s: number | null
}

/** Several engines behind one server (data-parallel ranks) add up. */
export function readMetrics(text: string): ServerMetrics {
  let kv_capacity_tokens: number | null = null
  let process_start_s: number | null = null
  for (const line of text.split('\n')) {
    if (line.startsWith('process_start_time_seconds ')) process_start_s = numberOf(line.split(' ')[1])
    const tokens = line.startsWith('vllm:cache_config_info{')
      ? cacheTokens(line)
      : line.startsWith('sglang:max_total_num_tokens')
        ? numberOf(line.slice(line.lastIndexOf(' ') + 1))
        : null
    if (tokens !== null) kv_capacity_tokens = (kv_capacity_tokens ?? 0) + tokens
  }
  return { kv_capacity_tokens, process_start_s }
}

/** vLLM 0.32.0 tells them as such. Where it does not, the blocks say it of a model whose layers are of one kind. */
function cacheTokens(line: string): number | null {
  const told = numberOf(/[{,]kv_cache_size_tokens="(\d+)"/.exec(line)?.[1])
  if (told !== null) return told
  const blocks = numberOf(/[{,]num_gpu_blocks="(\d+)"/.exec(line)?.[1])
  const block_tokens = numberOf(/[{,]block_size="(\d+)"/.exec(line)?.[1])
  return blocks === null || block_tokens === null ? null : blocks * block_tokens
}

function numberOf(text: string | undefined): number | null {
  const number = Number(text)
  return text === undefined || text === '' || !Number.isFinite(number) || number <= 0 ? null : number
}

export interface MetricsPollOptions {
  url: string
  api_key: string | null
  kv_capacity_tokens: number
  /** Whether there is anything to know. */
  wanted: () => boolean
  reported: (report: LoadReport) => void
  /** Told once until it works again. */
  failed: (reason: string) => void
  poll_ms?: number
}

export class MetricsPoll {
  readonly #options: MetricsPollOptions
  readonly #timer: NodeJS.Timeout
  readonly #stopping = new AbortController()
  #asking = false
  #failed = false

  constructor(options: MetricsPollOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#poll(), options.poll_ms ?? POLL_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#stopping.abort()
  }

  async #poll(): Promise<void> {
    if (this.#asking || !this.#options.wanted()) return
    this.#asking = true
    const outcome = await this.#ask()
    this.#asking = false
    if (this.#stopping.signal.aborted) return
    if (typeof outcome === 'string') {
      if (!this.#failed) this.#options.failed(outcome)
      this.#failed = true
      return
    }
    this.#failed = false
    this.#options.reported(outcome)
  }

  /** A string says why there is none. */
  async #ask(): Promise<LoadReport | string> {
    const { url, api_key, kv_capacity_tokens } = this.#options
    const answer = await ask({ url, api_key }, '/metrics', { bytes_max: METRICS_BYTES_MAX })
    if (!answer.ok) return answer.reason
    return loadOfMetrics(answer.value, kv_capacity_tokens) ?? 'it has no load under a name that is known'
  }
}
