/**
 * What is known of each kind of server before it is asked: what it is called, what of a body it honours, and whether it stops
 * working on a call whose connection closes. What a server would ignore without a word is refused by name (capabilities.ts).
 * Of servers that are not among them nothing is assumed beyond OpenAI's own fields, and probes find out (probe-server.ts).
 */
import { type Capabilities, type Capability, VLLM, VLLM_HINTS } from '../../openai/capabilities.ts'

export const SERVER_KINDS = ['vllm', 'sglang', 'llama.cpp', 'ollama', 'tgi', 'openai', 'anthropic'] as const
export type ServerKind = (typeof SERVER_KINDS)[number]

export interface ServerProfile {
  kind: ServerKind
  /** For messages. */
  name: string
  capabilities: Capabilities
  /** Fields that it ignores although it can do what others of their capability ask. */
  ignores: ReadonlySet<string>
  hints: ReadonlySet<string>
  /** Whose further fields a body has: vLLM's (salt, strict tools, options of the template) or OpenAI's alone; `messages`: Anthropic's API. */
  dialect: 'vllm' | 'openai' | 'messages'
  takes_back: boolean
}

const of = (...names: Capability[]): Capabilities => new Set(names)
const NAMES_IN_MESSAGES = 'messages[].name'
const SAMPLING_BEYOND = ['min_tokens', 'ignore_eos', 'repetition_penalty'] as const
const TEMPLATE_HINTS: ReadonlySet<string> = new Set([NAMES_IN_MESSAGES, 'reasoning_effort', 'chat_template_kwargs'])
const PLAIN_HINTS: ReadonlySet<string> = new Set([NAMES_IN_MESSAGES, 'reasoning_effort'])

const PROFILES: Readonly<Record<ServerKind, Omit<ServerProfile, 'kind'>>> = {
  vllm: {
    name: 'vLLM',
    capabilities: VLLM,
    ignores: new Set(),
    hints: VLLM_HINTS,
    dialect: 'vllm',
    takes_back: true,
  },
  sglang: {
    name: 'SGLang',
    capabilities: of(
      ...(['tools', 'structured_output', 'choices', 'penalties', 'logit_bias', 'sampling'] as const),
      ...(['logprobs', 'echo', 'stop_tokens'] as const),
    ),
    ignores: new Set(),
    hints: TEMPLATE_HINTS,
    dialect: 'openai',
    takes_back: true,
  },
  'llama.cpp': {
    name: 'llama.cpp',
    capabilities: of('tools', 'structured_output', 'penalties', 'logit_bias', 'sampling', 'logprobs'),
    ignores: new Set(['min_tokens', 'repetition_penalty']),
    hints: TEMPLATE_HINTS,
    dialect: 'openai',
    takes_back: true,
  },
  ollama: {
    name: 'Ollama',
    capabilities: of('tools', 'structured_output', 'penalties'),
    ignores: new Set(['tool_choice', ...SAMPLING_BEYOND]),
    hints: PLAIN_HINTS,
    dialect: 'openai',
    takes_back: true,
  },
  tgi: {
    name: 'TGI',
    capabilities: of('tools', 'structured_output', 'penalties', 'logprobs'),
    ignores: new Set(SAMPLING_BEYOND),
    hints: PLAIN_HINTS,
    dialect: 'openai',
    takes_back: true,
  },
  openai: {
    name: 'the server',
    capabilities: of('tools', 'structured_output', 'choices', 'penalties', 'logit_bias', 'logprobs'),
    ignores: new Set(SAMPLING_BEYOND),
    hints: PLAIN_HINTS,
    dialect: 'openai',
    takes_back: false,
  },
  anthropic: {
    name: 'the provider',
    capabilities: of('tools'),
    ignores: new Set(['min_p', ...SAMPLING_BEYOND]),
    hints: new Set(),
    dialect: 'messages',
    takes_back: false,
  },
}

export function profileOf(kind: ServerKind): ServerProfile {
  return { kind, ...PROFILES[kind] }
}
