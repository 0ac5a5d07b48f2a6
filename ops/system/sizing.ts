/**
 * How much of this machine each engine takes. Threads: the free cores (llama-limits.ts), few of them, since other programs
 * run here too. Context and slots: as much KV as a share of the memory holds (context-size.ts).
 */
import { contextSize } from '../../gpu-agent/engine/backends/llama/context-size.ts'
import { threadsPerEngine } from '../../gpu-agent/engine/backends/llama/llama-limits.ts'
import type { ModelShape } from '../../gpu-agent/engine/backends/llama/model-shape.ts'
import { EMBEDDED_DEFAULTS } from '../../gpu-agent/src/fronts/front-options.ts'

export interface Machine {
  cores: number
  memory_bytes: number
}

export interface EngineSize {
  threads: number
  /** Calls in one step. */
  seats: number
  /** Sequences whose KV stays resident. */
  slots: number
  /** Of each slot: prompt and answer together. */
  context_tokens: number
}

const SEATS_MIN = 4
const SEATS_MAX = 8
const SLOTS = { slots: EMBEDDED_DEFAULTS.slots, slots_max: 16 }
const THREADS_MAX = 4

/** Without `asked_context_tokens` the context is as long as fits. */
export function sizeEngine(
  { cores, memory_bytes }: Machine,
  engines: number,
  shape: ModelShape,
  asked_context_tokens?: number,
): EngineSize {
  const threads = Math.min(THREADS_MAX, threadsPerEngine(cores, engines))
  const kv_bytes = (memory_bytes * EMBEDDED_DEFAULTS.memory_share) / engines
  const wanted = { ...SLOTS, context_tokens: asked_context_tokens }
  const { context_tokens, slots } = contextSize(shape, kv_bytes, wanted)
  const seats = Math.min(slots, cores / engines >= 2 ? SEATS_MAX : SEATS_MIN)
  return { threads, seats, slots, context_tokens }
}
