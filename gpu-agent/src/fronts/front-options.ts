/**
 * What an engine is started with, and the defaults of the embedded one.
 *
 * Why these: a decode step of 4 calls costs about three times one of 1 call on a laptop's core, so 4 seats give most of the
 * throughput while each call still streams at a readable pace, and scheduling is visible. 8 slots keep the KV of as many
 * calls again (preempted, or idle programs whose next turn comes). Their context follows the model and the memory
 * (context-size.ts): KV takes at most `memory_share` of it, 23,040 bytes a token with SmolLM2-135M.
 * A step of at most 128 tokens is under a second of prefill, which is how long a cancel may take.
 */
import type { ServiceReading } from '../../../src/core/call/service.ts'
import { PREFILL_CHUNK_TOKENS } from '../../engine/backends/llama/llama-limits.ts'
import type { Handling } from '../../engine/memory/handling/waste.ts'
import type { MemoryPolicyName, PolicyName } from '../../engine/order/policies/index.ts'
import type { EngineKind } from '../engine-flags.ts'
import type { ServerOptions } from './attached/server-options.ts'
import type { VllmOptions } from './vllm/process/vllm-options.ts'

export const EMBEDDED_DEFAULTS = {
  seats: 4,
  slots: 8,
  memory_share: 0.125,
  block_tokens: 16,
  max_step_tokens: 128,
  prefill_chunk_tokens: PREFILL_CHUNK_TOKENS,
} as const

/** Of a scripted engine: coding agents' first bodies have 40 to 80 kB, and their conversations grow from there. */
export const SCRIPTED_CONTEXT_TOKENS = 131_072

export interface FrontOptions {
  engine: EngineKind
  /** Engine id. */
  id: string
  model_id: string
  /** The GGUF; the embedded engine needs it. */
  model_path?: string | undefined
  /** The answers of a scripted engine; it needs them. */
  script_path?: string | undefined
  /** Latency profile, a name or a JSON file; without it an emulated engine has `emulated-8b`, a scripted one `fast`. */
  profile?: string | undefined
  policy: PolicyName | MemoryPolicyName
  seats?: number | undefined
  slots?: number | undefined
  context_tokens?: number | undefined
  threads?: number | undefined
  /** What the embedded engine tells the model in conversations without a system message; left out: what its template says. */
  system_prompt?: string | undefined
  /** How the embedded engine draws tokens where a client does not say, beside the GGUF's advice. */
  sampling?: { temperature?: number; top_p?: number } | undefined
  /** Prompt tokens of one call in a step of the embedded engine. */
  prefill_chunk_tokens?: number | undefined
  /** Calls wait rather than take the KV of a better program whose tool runs; left out: they do. */
  hold_kv?: boolean | undefined
  /** What a policy that handles contexts while tools run chooses from; left out: what its name has. */
  handling?: readonly Handling[] | undefined
  /** The embedded engine learns from its own answers how much calls write, and is told so by prompts once that is better. */
  learn_lengths?: boolean | undefined
  /** Which reading of service orders calls; `modelled` without it. */
  ordering?: ServiceReading | undefined
  /** A vLLM needs it. */
  vllm?: VllmOptions | undefined
  /** A server that the agent does not run, and the name that it has for this engine's model. */
  server?: (ServerOptions & { model: string }) | undefined
  /** Where this engine may keep files, and its number among the agent's engines; a vLLM that the agent runs needs them. */
  place?: { folder: string; engine_index: number; engines: number } | undefined
}
