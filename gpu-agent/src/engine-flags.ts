/** What each kind of engine takes of the flags. One that is of another kind is refused: it would have no effect. */
import { availableParallelism } from 'node:os'
import { STEP_TOKENS_MAX, threadsPerEngine } from '../engine/backends/llama/llama-limits.ts'
import { HANDLINGS, type Handling } from '../engine/memory/handling/waste.ts'
import { choice, number, required, WrongFlag, whole } from './flag-values.ts'
import {
  SERVER_FLAGS,
  type ServerFlagValues,
  type ServerOptions,
  serverOptions,
} from './fronts/attached/server-options.ts'
import { VLLM_FLAGS, type VllmFlagValues, type VllmOptions, vllmOptions } from './fronts/vllm/process/vllm-options.ts'

export const ENGINE_KINDS = ['embedded', 'emulated', 'scripted', 'vllm', 'openai'] as const
export type EngineKind = (typeof ENGINE_KINDS)[number]

/** Only those that were given: the front has the defaults. */
export interface FrontFlags {
  model_path?: string
  profile?: string
  script_path?: string
  seats?: number
  slots?: number
  context_tokens?: number
  threads?: number
  prefill_chunk_tokens?: number
  hold_kv?: boolean
  /** Of a policy that handles contexts while tools run. */
  handling?: readonly Handling[]
  learn_lengths?: boolean
  system_prompt?: string
  sampling?: { temperature?: number; top_p?: number }
  vllm?: VllmOptions
  server?: ServerOptions
}

export type EngineFlagValues = VllmFlagValues &
  ServerFlagValues & {
    [flag in
      | 'model-path'
      | 'profile'
      | 'script'
      | 'threads'
      | 'prefill-chunk-tokens'
      | 'system-prompt'
      | 'temperature'
      | 'top-p'
      | 'seats'
      | 'slots'
      | 'context-tokens'
      | 'handling'
      | 'hold-kv'
      | 'learn-lengths']?: string | undefined
  }

export function frontFlags(
  values: EngineFlagValues,
  engine: EngineKind,
  engines: number,
  env: Readonly<Record<string, string | undefined>>,
  cores: number = availableParallelism(),
): FrontFlags {
  refuseOthers(values, engine)
  const front: FrontFlags = {}
  if (engine === 'embedded') front.model_path = required('--model-path', values['model-path'])
  if (engine === 'scripted') front.script_path = required('--script', values.script)
  if (engine === 'vllm') front.vllm = vllmOptions(values, engines, env)
  if (engine === 'openai') front.server = serverOptions(values, engines, env)
  if (values.profile !== undefined) front.profile = values.profile
  if (values.threads !== undefined) front.threads = whole('--threads', values.threads, 1, 1024)
  else if (engine === 'embedded') front.threads = threadsPerEngine(cores, engines)
  if (values['prefill-chunk-tokens'] !== undefined) {
    front.prefill_chunk_tokens = whole('--prefill-chunk-tokens', values['prefill-chunk-tokens'], 1, STEP_TOKENS_MAX)
  }
  if (values['system-prompt'] !== undefined) front.system_prompt = values['system-prompt']
  const sampling = {
    ...(values.temperature === undefined ? {} : { temperature: number('--temperature', values.temperature, 0, 2) }),
    ...(values['top-p'] === undefined ? {} : { top_p: number('--top-p', values['top-p'], 0, 1) }),
  }
  if (Object.keys(sampling).length > 0) front.sampling = sampling
  if (values['hold-kv'] !== undefined) front.hold_kv = choice('--hold-kv', values['hold-kv'], ['on', 'off']) === 'on'
  const learns = values['learn-lengths']
  if (learns !== undefined) front.learn_lengths = choice('--learn-lengths', learns, ['on', 'off']) === 'on'
  if (values.handling !== undefined) {
    front.handling = values.handling.split(',').map((name) => choice('--handling', name, HANDLINGS))
    if (engine === 'vllm' && front.handling.every((name) => name === 'swap') && values['kv-swap-gib'] === undefined)
      throw new WrongFlag(
        '--handling swap needs --kv-swap-gib with --engine vllm: without it that engine cannot move KV',
      )
  }
  if (values.seats !== undefined) front.seats = whole('--seats', values.seats, 1, 4096)
  if (values.slots !== undefined) front.slots = whole('--slots', values.slots, 1, 4096)
  if (values['context-tokens'] !== undefined) {
    front.context_tokens = whole('--context-tokens', values['context-tokens'], 16, 16_777_216)
  }
  return front
}

function refuseOthers(values: EngineFlagValues, engine: EngineKind): void {
  const owners: [readonly EngineKind[], readonly (keyof EngineFlagValues)[]][] = [
    [
      ['embedded'],
      ['model-path', 'threads', 'prefill-chunk-tokens', 'system-prompt', 'temperature', 'top-p', 'learn-lengths'],
    ],
    [['emulated', 'scripted'], ['profile']],
    [
      ['embedded', 'emulated', 'scripted', 'vllm'],
      ['hold-kv', 'handling'],
    ],
    [['scripted'], ['script']],
    [
      ['vllm', 'openai'],
      ['model', 'kv-tokens'],
    ],
    [['vllm'], (Object.keys(VLLM_FLAGS) as (keyof typeof VLLM_FLAGS)[]).filter((flag) => flag !== 'model')],
    [['openai'], (Object.keys(SERVER_FLAGS) as (keyof typeof SERVER_FLAGS)[]).filter((flag) => flag !== 'kv-tokens')],
  ]
  for (const [kinds, flags] of owners) {
    const given = flags.find((flag) => !kinds.includes(engine) && values[flag] !== undefined)
    if (given !== undefined) throw new WrongFlag(`--${given} goes with --engine ${kinds.join(' or ')}`)
  }
  for (const [flag, option] of [
    ['hold-kv', 'hold_kv'],
    ['handling', 'handling'],
  ] as const) {
    if (values['vllm-url'] === undefined || values[flag] === undefined) continue
    throw new WrongFlag(
      `--${flag} does not go with --vllm-url: set ${option} where that vLLM is started (docs/vllm.md)`,
    )
  }
  if ((engine === 'vllm' || engine === 'openai') && values.slots !== undefined) {
    throw new WrongFlag(`--slots does not go with --engine ${engine}: it keeps its KV cache itself`)
  }
}
