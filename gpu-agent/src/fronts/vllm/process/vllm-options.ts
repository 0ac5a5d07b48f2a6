/**
 * The flags of `--engine vllm`: a vLLM that the agent runs (`--model`), or one that it does not (`--vllm-url`). A flag
 * of the one given with the other is refused: it would have no effect.
 */
import { existsSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { baseUrl, choice, required, WrongFlag, whole } from '../../../flag-values.ts'
import { KV_TOKENS_MAX } from '../../attached/server-options.ts'
import { shellWords } from './shell-words.ts'
import { hasVllmFlag, refusedVllmArg } from './vllm-flags.ts'

export const PYTHON_VARIABLE = 'SWITCHYARD_VLLM_PYTHON'
export const KEY_VARIABLE = 'SWITCHYARD_VLLM_KEY'
/** Loading a large model from a slow disk and compiling it takes many minutes; a vLLM that hangs takes for ever. */
const START_LIMIT_S = 1200
/** A vLLM that the agent does not run is up or about to be. */
const ATTACH_LIMIT_S = 120
const START_LIMIT_S_MAX = 24 * 3600
const GPUS_MAX = 64
const KV_SWAP_GIB_MAX = 4096

export const VLLM_FLAGS = {
  model: { type: 'string' },
  gpus: { type: 'string' },
  'vllm-args': { type: 'string' },
  'vllm-python': { type: 'string' },
  'kv-swap-gib': { type: 'string' },
  'vllm-start-limit-s': { type: 'string' },
  'vllm-url': { type: 'string' },
  'vllm-socket': { type: 'string' },
  'vllm-order': { type: 'string' },
} as const

export const VLLM_HELP = `Flags of --engine vllm, for one that the agent starts, watches and ends (docs/vllm.md):
  --model DIR|NAME     model folder, or a name on the Hugging Face hub (required)
  --gpus N,N           GPUs, as nvidia-smi numbers them, shared out evenly between the engines (default: one each)
  --vllm-args "…"      further flags for vLLM, split into words as a shell does
  --vllm-python FILE   Python that has vLLM (default: the variable ${PYTHON_VARIABLE}, else python3)
  --kv-swap-gib N      host memory for the KV of preempted calls, of each GPU (default: none, it is computed again;
                       docs/kv-swap.md)
  --vllm-start-limit-s N   how long a start may take (default ${START_LIMIT_S}; with --vllm-url ${ATTACH_LIMIT_S})
and for a vLLM that runs already, with reduced powers:
  --vllm-url URL       its base URL without /v1; its API key in the variable ${KEY_VARIABLE}
  --vllm-socket FILE   side channel of Switchyard's plug-in in it, on this host
  --vllm-order ORDER   without that: fcfs, or priority if it runs with --scheduling-policy priority (default fcfs)
  --kv-tokens N        without that: KV cache that its programs may fill (default: what it says)
  --model NAME         name under which it serves the model, if it serves several
`

export type VllmOptions =
  | {
      mode: 'process'
      model: string
      python: string
      args: string[]
      gpus: number[] | null
      kv_swap_gib: number | null
      start_limit_ms: number
    }
  | {
      mode: 'attached'
      url: string
      api_key: string | null
      socket: string | null
      order: 'fcfs' | 'priority'
      /** Null: what it says. */
      kv_tokens: number | null
      model: string | null
      start_limit_ms: number
    }

export type VllmFlagValues = { [flag in keyof typeof VLLM_FLAGS | 'kv-tokens']?: string | undefined }

export function vllmOptions(
  values: VllmFlagValues,
  engines: number,
  env: Readonly<Record<string, string | undefined>>,
): VllmOptions {
  return values['vllm-url'] === undefined ? processOptions(values, engines, env) : attachedOptions(values, engines, env)
}

/** Where no --model-id is given: the name on the hub, or of the folder. */
export function modelIdOf(options: VllmOptions): string | undefined {
  if (options.mode === 'attached') return undefined
  return existsSync(options.model) ? basename(options.model) : options.model
}

function processOptions(
  values: VllmFlagValues,
  engines: number,
  env: Readonly<Record<string, string | undefined>>,
): VllmOptions {
  for (const flag of ['vllm-socket', 'vllm-order', 'kv-tokens'] as const) {
    if (values[flag] !== undefined) throw new WrongFlag(`--${flag} goes with --vllm-url`)
  }
  if (values.model === undefined || values.model === '') throw new WrongFlag('--model or --vllm-url is required')
  const args = argsOf(values['vllm-args'])
  return {
    mode: 'process',
    model: existsSync(values.model) ? resolve(values.model) : values.model,
    python: values['vllm-python'] ?? (env[PYTHON_VARIABLE]?.trim() || 'python3'),
    args,
    kv_swap_gib: kvSwapGib(values['kv-swap-gib'], args),
    gpus: gpusOf(values.gpus, engines),
    start_limit_ms: limitMs(values, START_LIMIT_S),
  }
}

function attachedOptions(
  values: VllmFlagValues,
  engines: number,
  env: Readonly<Record<string, string | undefined>>,
): VllmOptions {
  for (const flag of ['gpus', 'vllm-args', 'vllm-python', 'kv-swap-gib'] as const) {
    if (values[flag] !== undefined)
      throw new WrongFlag(`--${flag} does not go with --vllm-url: set it where that vLLM is started`)
  }
  if (engines !== 1) throw new WrongFlag('--vllm-url is one engine: start an agent for each vLLM')
  const socket = values['vllm-socket'] ?? null
  const order = values['vllm-order']
  if (socket !== null && order !== undefined) {
    throw new WrongFlag('--vllm-order does not go with --vllm-socket: the plug-in orders the calls')
  }
  const kv_tokens = values['kv-tokens']
  if (socket !== null && kv_tokens !== undefined) {
    throw new WrongFlag('--kv-tokens does not go with --vllm-socket: the plug-in knows its KV cache')
  }
  return {
    mode: 'attached',
    url: baseUrl('--vllm-url', required('--vllm-url', values['vllm-url'])).replace(/\/v1$/, ''),
    api_key: env[KEY_VARIABLE]?.trim() || null,
    socket,
    order: choice('--vllm-order', order ?? 'fcfs', ['fcfs', 'priority'] as const),
    kv_tokens: kv_tokens === undefined ? null : whole('--kv-tokens', kv_tokens, 1, KV_TOKENS_MAX),
    model: values.model ?? null,
    start_limit_ms: limitMs(values, ATTACH_LIMIT_S),
  }
}

function limitMs(values: VllmFlagValues, default_s: number): number {
  const given = values['vllm-start-limit-s']
  return 1000 * (given === undefined ? default_s : whole('--vllm-start-limit-s', given, 1, START_LIMIT_S_MAX))
}

function kvSwapGib(given: string | undefined, args: readonly string[]): number | null {
  if (given === undefined) return null
  if (hasVllmFlag(args, 'kv-transfer-config')) {
    throw new WrongFlag(
      '--kv-swap-gib does not go with --kv-transfer-config in --vllm-args: name BulkSwapConnector there (docs/kv-swap.md)',
    )
  }
  return whole('--kv-swap-gib', given, 1, KV_SWAP_GIB_MAX)
}

function argsOf(line: string | undefined): string[] {
  if (line === undefined) return []
  const split = shellWords(line)
  if (!split.ok) throw new WrongFlag(`--vllm-args cannot be split into words: ${split.reason}`)
  const refused = refusedVllmArg(split.words)
  if (refused !== null) throw new WrongFlag(`--vllm-args ${refused}`)
  return split.words
}

function gpusOf(list: string | undefined, engines: number): number[] | null {
  if (list === undefined) return null
  const names = list.split(',').map((name) => name.trim())
  const gpus = names.map(Number)
  if (names.some((name) => !/^\d{1,3}$/.test(name)) || gpus.length > GPUS_MAX) {
    throw new WrongFlag(`--gpus is a list of at most ${GPUS_MAX} numbers such as 0,1, not ${list}`)
  }
  if (new Set(gpus).size < gpus.length) throw new WrongFlag(`--gpus names a GPU twice: ${list}`)
  if (gpus.length % engines !== 0) {
    throw new WrongFlag(`--gpus names ${gpus.length}, which --engines ${engines} cannot share out evenly`)
  }
  return gpus
}
