/**
 * Engines whose streams are broken: what starts them, what breaks them, and what they say to a prompt when nothing breaks.
 * Emulated ones are many times faster. The others are real models on this machine's cores: what they say
 * is not known before, so an unbroken answer to each prompt is asked for first.
 */
import { readFileSync } from 'node:fs'
import { engineFolder } from '../../gpu-agent/src/fronts/vllm/process/engine-folder.ts'
import { readState } from '../../gpu-agent/src/fronts/vllm/process/vllm-state.ts'
import { switchyardCacheFolder } from '../../ops/model/cache-folder.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import { vllmPython } from '../../ops/vllm/environment.ts'
import { vllmModel } from '../../ops/vllm/model.ts'
import type { Flags } from '../testbed/repository.ts'
import type { Api } from './apis.ts'

export const STREAM_ENGINES = ['emulated', 'embedded', 'vllm'] as const
export type StreamEngine = (typeof STREAM_ENGINES)[number]
/** `engine`: the process that holds the model. */
export const BREAKS = ['kill', 'power', 'cut', 'engine'] as const
export type Break = (typeof BREAKS)[number]

export interface EngineKind {
  model: string
  agents: number
  agent_flags: Flags
  /** Streams at a time, where nothing else is asked for. */
  at_once: number
  output_tokens: { min: number; max: number }
  /** Null: as many as there are calls. Otherwise each is asked for without a break first. */
  prompts: ((api: Api) => readonly string[]) | null
  /** Of one round of breaks. */
  breaks: readonly Break[]
}

const TASKS = [
  'Tell me a short story about a small house in the woods.',
  'Explain to a child how rain comes about.',
  'Describe a morning at a harbour.',
  'Write a letter to a friend about your new garden.',
  'What should one take along on a walk in the mountains?',
  'Give five reasons to read books.',
  'How is bread baked?',
  'Describe a cat that sleeps on a warm stone.',
]

/** For an API without chats: a model ends an answer to a question at once there. */
const BEGINNINGS = [
  'Once upon a time there was a small house in the woods. One evening',
  'Rain comes about when the sun warms the sea. The water',
  'In the morning the first boats came into the harbour, and the men',
  'Dear friend, I must tell you about my new garden. First',
  'Before a walk in the mountains one should pack a bag with',
  'To bake bread you need flour, water, salt and yeast. First',
]
const promptsOf = (api: Api): readonly string[] => (api === 'completions' ? BEGINNINGS : TASKS)

const times = (count: number, kind: Break): Break[] => Array.from({ length: count }, () => kind)

async function emulated(): Promise<EngineKind> {
  return {
    ...{ model: 'emulated-8b', agents: 3, agent_flags: { seats: 128, slots: 256 }, at_once: 48 },
    // Fewer than a default answer has, so exact.
    output_tokens: { min: 80, max: 250 },
    prompts: null,
    breaks: Array.from({ length: 24 }, (_, at) => (at === 23 ? 'power' : at % 6 === 5 ? 'cut' : 'kill')),
  }
}

async function embedded(): Promise<EngineKind> {
  const { id, path } = await findOrFetchModel({})
  // With so few tokens of a prompt in a step, a greedy answer is the same to the bit in every batch.
  const exact = { 'prefill-chunk-tokens': 63 }
  const sizes = { 'context-tokens': 1024, seats: 4, slots: 8, threads: 1 }
  return {
    ...{
      model: id,
      agents: 3,
      agent_flags: { engine: 'embedded', 'model-path': path, ...sizes, ...exact },
      at_once: 8,
    },
    output_tokens: { min: 60, max: 60 },
    prompts: promptsOf,
    breaks: [...times(5, 'kill'), ...times(2, 'engine'), 'cut', ...times(3, 'kill'), 'power'],
  }
}

/** In float32, in which greedy answers are the same in every batch. */
async function vllm(): Promise<EngineKind> {
  const python = await vllmPython('cpu', { cache_folder: switchyardCacheFolder() })
  if (!python.ok) throw new Error(`Could not set up vLLM: ${python.reason}`)
  const { id, path } = await vllmModel({ python: python.python, context_tokens: 1024 })
  const flags = { engine: 'vllm', model: path, 'vllm-python': python.python, 'context-tokens': 1024, seats: 4 }
  return {
    ...{ model: id, agents: 2, agent_flags: { ...flags, 'vllm-args': '--dtype float32' }, at_once: 6 },
    output_tokens: { min: 60, max: 60 },
    prompts: promptsOf,
    // vLLM outlives its agent, and the next one takes it over. To start it takes a minute.
    breaks: [...times(6, 'kill'), ...times(3, 'cut'), ...times(6, 'kill'), 'engine', ...times(4, 'kill'), 'power'],
  }
}

const KINDS: Readonly<Record<StreamEngine, () => Promise<EngineKind>>> = { emulated, embedded, vllm }

export function engineKind(engine: StreamEngine): Promise<EngineKind> {
  return KINDS[engine]()
}

/** The process that holds the model. Null: none does at this moment. */
export function engineProcess(engine: StreamEngine, agent_pid: number, data_dir: string): number | null {
  if (engine !== 'vllm') return childOf(agent_pid)
  const left = readState(engineFolder(data_dir, 0))
  return left.status === 'found' ? left.state.pid : null
}

/** The first child of a process. Null: it has none. */
function childOf(pid: number): number | null {
  const [child = ''] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
  return child === '' ? null : Number(child)
}
