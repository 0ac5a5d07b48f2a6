/**
 * Waits until a vLLM serves, and asks it what it is. It serves when /health is good, its model is listed under the name that
 * it was given and, since the plug-in must be in it, the side channel says hello. Meanwhile the log tells how far it is.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { ask, askHealth } from '../../attached/ask-server.ts'
import { askModels } from '../../attached/server-facts.ts'
import { METRICS_BYTES_MAX, readMetrics } from '../../attached/server-metrics.ts'
import { profileOf } from '../../attached/server-profile.ts'
import { hearHello } from '../channel/side-channel-hello.ts'
import { compilesKernels } from './gpu-readiness.ts'
import { groupPrograms } from './process-group.ts'
import { classify, type VllmFailure } from './vllm-failure.ts'
import type { VllmWish } from './vllm-launch.ts'
import { boundLog, logTail } from './vllm-log.ts'
import { logOf, type VllmRun } from './vllm-run.ts'
import type { VllmAddress } from './vllm-server.ts'

const POLL_MS = 250
/** A /health that is good before the side channel listens: it is bound before the model is loaded, so this is no race. */
const DESCRIBE_MS_MAX = 30_000
const PROGRESS_MS = 10_000
/** A look at all processes of the host. */
const LOOK_MS = 2000

export type Ready = { ok: true; address: VllmAddress } | { ok: false; failure: VllmFailure }

export interface ReadyWait {
  run: VllmRun
  wish: VllmWish
  device: 'cpu' | 'cuda'
  limit_ms: number
  stopping: AbortSignal
  progress: (phase: string, elapsed_s: number) => void
}

export async function untilReady(wait: ReadyWait): Promise<Ready> {
  const { run, wish, device, limit_ms, stopping } = wait
  const began_ms = performance.now()
  const told = teller(wait, began_ms)
  const failed = (start_limit_s: number | null): Ready => {
    const log_file = logOf(run.folder)
    const compiling = isCompiling(wait)
    const end = {
      phase: 'loading' as const,
      exit: run.exit,
      start_limit_s,
      compiling,
      device,
      model: wish.model,
      log_file,
    }
    return { ok: false, failure: classify({ ...end, log: logTail(log_file) }) }
  }
  let healthy_ms: number | null = null
  while (!stopping.aborted) {
    if (!run.alive) return failed(null)
    const now_ms = performance.now()
    if (now_ms - began_ms > limit_ms) return failed(limit_ms / 1000)
    if ((await askHealth(run.url)) === 'ok') {
      healthy_ms ??= now_ms
      const described = await describe(run, wish)
      if (typeof described !== 'string') return { ok: true, address: described }
      if (now_ms - healthy_ms > DESCRIBE_MS_MAX) return { ok: false, failure: { kind: 'died', sentence: described } }
    }
    told()
    await sleep(POLL_MS)
  }
  return { ok: false, failure: { kind: 'died', sentence: 'the agent stops' } }
}

/** What is known of it, or why it is not to be used. */
async function describe(run: VllmRun, wish: VllmWish): Promise<VllmAddress | string> {
  const { socket, api_key } = run.state
  const heard = await hearHello(socket)
  if (!heard.ok) return `vLLM answers, but its side channel ${socket} does not: ${heard.reason}`
  const server = { url: run.url, api_key }
  const models = await askModels(server)
  if (!models.ok) return `vLLM answers, but not when asked for its model: ${models.reason}`
  const model = models.value.find(({ id }) => id === wish.model_id)
  if (model === undefined) return `what answers on its port serves another model: ${models.value.map(({ id }) => id)}`
  const { hello } = heard
  const seats = hello.seats ?? wish.seats
  if (seats === null) return 'the plug-in does not say how many seats there are: it is older than this agent'
  const told = (hello.kv_capacity_tokens ?? null) !== null
  const metrics = told ? null : await ask(server, '/metrics', { bytes_max: METRICS_BYTES_MAX })
  const context_tokens_max = model.context_tokens_max ?? hello.context_tokens_max ?? wish.context_tokens
  if (context_tokens_max === null) return 'vLLM does not say how long a context may be: give --context-tokens'
  return {
    url: run.url,
    api_key,
    socket,
    served_model: model.id,
    context_tokens_max,
    // A cache holds at least one call of full length, or vLLM does not start.
    kv_capacity_tokens:
      hello.kv_capacity_tokens ??
      (metrics?.ok === true ? readMetrics(metrics.value).kv_capacity_tokens : null) ??
      context_tokens_max,
    seats,
    order: 'plugin',
    queued: null,
    profile: profileOf('vllm'),
    epoch: hello.epoch,
  }
}

/** Tells each phase once, and the seconds from time to time. */
function teller(wait: ReadyWait, began_ms: number): () => void {
  const { run, progress } = wait
  let phase = ''
  let compiling = false
  let looked_ms = Number.NEGATIVE_INFINITY
  let told_ms = began_ms
  return () => {
    boundLog(logOf(run.folder))
    const now_ms = performance.now()
    if (now_ms - looked_ms >= LOOK_MS) {
      compiling = isCompiling(wait)
      looked_ms = now_ms
    }
    const current = compiling ? COMPILING : phaseOf(logTail(logOf(run.folder)))
    if (current === phase && now_ms - told_ms < PROGRESS_MS) return
    phase = current
    told_ms = now_ms
    progress(phase, Math.round((now_ms - began_ms) / 1000))
  }
}

/** By vLLM's processes: no line of its log says so. */
function isCompiling({ run, device }: ReadyWait): boolean {
  return device === 'cuda' && compilesKernels(groupPrograms(run.state.pid))
}

const COMPILING = "compiling FlashInfer's kernels, which are kept"

/** The last of these lines of vLLM 0.32.0's log names the phase. */
const PHASES: readonly (readonly [RegExp, string])[] = [
  [/Application startup complete|Starting vLLM server/, 'opening its port'],
  [/init engine \(profile, create kv cache, warmup model\)/, 'warming up'],
  [/Capturing CUDA graphs|Graph capturing finished/i, 'capturing CUDA graphs'],
  [/GPU KV cache size|CPU KV cache size|KV cache size:/, 'making its KV cache'],
  [/Compiling a graph|torch\.compile takes|Dynamo bytecode transform/, 'compiling the model'],
  [/Loading weights took|Model loading took/, 'measuring memory'],
  [/Loading safetensors checkpoint shards|Starting to load model|Loading weights/, 'loading weights'],
  [/Initializing a V1 LLM engine/, 'starting its engine'],
]

export function phaseOf(log: string): string {
  return PHASES.find(([pattern]) => pattern.test(log))?.[1] ?? 'importing'
}
