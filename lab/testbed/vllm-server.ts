/**
 * A vLLM on the CPU, or on a GPU, as a process of its own, on a free port, ready when it answers. With the
 * plug-in (`switchyard`), its side channel's socket lies in the setting's folder. With the swap, its rings are taken from the KV.
 */
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../ops/system/free-port.ts'
import { HOST } from '../../ops/system/port.ts'
import type { ServerName } from '../bench/vllm/schedulers.ts'
import { ManagedChild } from './managed-child.ts'
import { ROOT } from './repository.ts'

export const SEATS = 8
export const CONTEXT_TOKENS = 2048
/** vLLM's CPU backend takes multiples of 32. */
export const BLOCK_TOKENS = 32
const KV_GIB = 1

/** How large a vLLM is, and how it runs on its device. */
export interface VllmSize {
  seats: number
  context_tokens: number
  /** Flags of vLLM for this device. */
  args: readonly string[]
  env: Readonly<Record<string, string>>
}

export const CPU_SIZE: VllmSize = {
  ...{ seats: SEATS, context_tokens: CONTEXT_TOKENS, args: ['--enforce-eager'] },
  env: { VLLM_CPU_KVCACHE_SPACE: String(KV_GIB) },
}
const READY_TIMEOUT_MS = 300_000
const POLL_MS = 500
const STOP_GRACE_MS = 15_000
const PLUGIN = path.join(ROOT, 'gpu-agent/vllm/src')

export interface VllmSetting {
  python: string
  /** A folder, or a name on the hub. */
  model: string
  served_model: string
  folder: string
  /** Left out: the CPU's. */
  size?: VllmSize
  /** KV blocks of BLOCK_TOKENS; absent: as many as fit KV_GIB. */
  kv_blocks?: number
  /** Of one block: the swap's rings are sized by it. */
  kv_block_bytes?: () => number
  /** Further ones: they win over ours. */
  args?: readonly string[]
  env?: Readonly<Record<string, string>>
}

/** vLLM keeps one block of its own: no call gets it. */
const NULL_BLOCKS = 1

/** Through which images leave, and in which they wait. What does not fit passes in parts, which costs nothing where all memory is the host's. */
const SWAP_RING_BLOCKS = 4
const SWAP_ARENA_GIB = 1
/** A size in GiB is rounded down to whole blocks. */
const BLOCK_ROUNDING = 0.01

const STOCK_ARGUMENTS = {
  'stock-fcfs': ['--scheduling-policy', 'fcfs'],
  'stock-priority': ['--scheduling-policy', 'priority'],
}

function schedulerArguments(name: ServerName, setting: VllmSetting): string[] {
  if (name === 'stock-fcfs' || name === 'stock-priority') return STOCK_ARGUMENTS[name]
  return [
    ...['--scheduling-policy', 'priority', '--scheduler-cls', 'switchyard_vllm.ProgramAwareScheduler'],
    ...(name === 'switchyard-swap' ? swapArguments(setting) : []),
  ]
}

function swapArguments({ kv_block_bytes }: VllmSetting): string[] {
  if (kv_block_bytes === undefined) throw new Error('a vLLM that swaps needs the size of a block')
  const ring_gib = ((SWAP_RING_BLOCKS + BLOCK_ROUNDING) * kv_block_bytes()) / 2 ** 30
  const transfer = {
    kv_connector: 'BulkSwapConnector',
    kv_connector_module_path: 'switchyard_vllm.swap.connector',
    kv_role: 'kv_producer',
    kv_connector_extra_config: { arena_gib: SWAP_ARENA_GIB, ring_gib, prefetch_gib: ring_gib },
  }
  return ['--kv-transfer-config', JSON.stringify(transfer)]
}

/** Of as much memory, the swap's rings take their part. */
function kvBlocks(name: ServerName, kv_blocks: number): number {
  return NULL_BLOCKS + (name === 'switchyard-swap' ? kv_blocks - 2 * SWAP_RING_BLOCKS : kv_blocks)
}

export class VllmServer {
  readonly name: ServerName
  readonly url: string
  /** Null: it has no plug-in. */
  readonly socket: string | null
  readonly #child: ManagedChild

  #stopped = false

  private constructor(name: ServerName, port: number, setting: VllmSetting) {
    const socket = path.join(setting.folder, `${name}.sock`)
    this.name = name
    this.url = `http://${HOST}:${port}`
    this.socket = name in STOCK_ARGUMENTS ? null : socket
    this.#child = new ManagedChild({
      name: `vLLM (${name})`,
      command: setting.python,
      args: [...argumentsOf(name, port, setting), ...schedulerArguments(name, setting), ...(setting.args ?? [])],
      env: {
        ...{ ...ENVIRONMENT, ...sizeOf(setting).env, PYTHONPATH: PLUGIN, ...setting.env },
        ...(name in STOCK_ARGUMENTS ? {} : { SWITCHYARD_VLLM_OPTIONS: JSON.stringify({ policy: 'plas', socket }) }),
      },
      logFile: path.join(setting.folder, `${name}.log`),
      // It has processes of its own.
      group: true,
    })
  }

  /** Not started: who starts it can stop it while it starts. */
  static async create(name: ServerName, setting: VllmSetting): Promise<VllmServer> {
    return new VllmServer(name, await freePort(), setting)
  }

  /** Resolves when it answers. Rejects, with nothing left, if it ends or is stopped before. */
  async start(): Promise<void> {
    if (this.#stopped) throw new Error(`${this.#child.name} was stopped before it was started`)
    try {
      await this.#child.start()
      await this.#ready()
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  /** Preemptions since it started, as vLLM counts them. */
  async preemptions(): Promise<number> {
    const text = await (await fetch(`${this.url}/metrics`)).text()
    const lines = text.split('\n').filter((line) => line.startsWith('vllm:num_preemptions_total'))
    if (lines.length === 0) throw new Error(`${this.name}: vLLM's /metrics has no vllm:num_preemptions_total`)
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
  }

  /** For good. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#child.end('SIGTERM', STOP_GRACE_MS)
  }

  async #ready(): Promise<void> {
    const until_ms = performance.now() + READY_TIMEOUT_MS
    while (performance.now() < until_ms) {
      if (this.#child.pid === null) throw this.#failure('ended before it was ready')
      if (await answers(`${this.url}/health`)) return
      await sleep(POLL_MS)
    }
    throw this.#failure(`was not ready within ${READY_TIMEOUT_MS / 1000} s`)
  }

  #failure(what: string): Error {
    return new Error(`${this.#child.name} ${what}. The end of its output:\n${this.#child.output}`)
  }
}

const ENVIRONMENT = { HF_HUB_OFFLINE: '1', VLLM_NO_USAGE_STATS: '1', VLLM_LOGGING_LEVEL: 'WARNING' }

function sizeOf({ size = CPU_SIZE }: VllmSetting): VllmSize {
  return size
}

function argumentsOf(name: ServerName, port: number, setting: VllmSetting): string[] {
  const { model, served_model, kv_blocks } = setting
  const { seats, context_tokens, args } = sizeOf(setting)
  return [
    ...['-m', 'vllm.entrypoints.openai.api_server', '--model', model, '--served-model-name', served_model],
    ...['--host', HOST, '--port', String(port), '--dtype', 'bfloat16', ...args],
    ...['--max-num-seqs', String(seats), '--max-model-len', String(context_tokens)],
    ...['--block-size', String(BLOCK_TOKENS), '--enable-prefix-caching'],
    ...(kv_blocks === undefined ? [] : ['--num-gpu-blocks-override', String(kvBlocks(name, kv_blocks))]),
    // Without it stock vLLM does not report cached prompt tokens.
    '--enable-prompt-tokens-details',
  ]
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(POLL_MS * 4) })).ok
  } catch {
    // Not listening yet, or too busy: the caller asks again.
    return false
  }
}
