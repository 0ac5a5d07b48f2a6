/**
 * The front of the embedded engine, a real model on this machine's processor. The model is loaded once; an engine that
 * breaks gets a fresh context. Loading and tokenising are synchronous native work, so the agent runs this in a child.
 */
import { availableParallelism, totalmem } from 'node:os'
import { contextSize } from '../../../engine/backends/llama/context-size.ts'
import { LlamaBackend } from '../../../engine/backends/llama/llama-backend.ts'
import { threadsPerEngine } from '../../../engine/backends/llama/llama-limits.ts'
import { type LlamaRuntime, loadLlamaRuntime } from '../../../engine/backends/llama/llama-runtime.ts'
import { LlamaTextModel } from '../../../engine/backends/llama/llama-text-model.ts'
import { modelShape } from '../../../engine/backends/llama/model-shape.ts'
import { samplingDefaults } from '../../../engine/backends/llama/sampling-defaults.ts'
import { EngineDriver } from '../../../engine/driver.ts'
import { measuredMemory, memoryOf } from '../../../engine/memory/backend-memory.ts'
import type { ClassTables } from '../../../engine/order/policy.ts'
import { EMBEDDED } from '../../openai/capabilities.ts'
import type { EngineFront, EngineFrontEvents } from '../engine-front.ts'
import { EMBEDDED_DEFAULTS, type FrontOptions } from '../front-options.ts'
import { PromptLengths } from './lengths/prompt-lengths.ts'
import { LocalFront } from './local-front.ts'
import { type EngineMemoryConfig, type EngineSizes, monotonicUs, schedulerOf } from './scheduler-of.ts'

export async function startEmbeddedFront(
  options: FrontOptions,
  events: EngineFrontEvents,
  report: (message: string, error: unknown) => void,
  classes: ClassTables | null = null,
): Promise<EngineFront> {
  if (options.model_path === undefined) throw new Error('the embedded engine needs a model file')
  const runtime = await loadLlamaRuntime(options.model_path)
  const first = await createBackend(runtime, options)
  const sizes = sizesOf(options, first)
  let spare: LlamaBackend | null = first
  return LocalFront.start(
    {
      description: {
        id: options.id,
        kind: 'embedded',
        model: options.model_id,
        seats: sizes.seats,
        kv_capacity_tokens: sizes.capacity_blocks * sizes.block_tokens,
        context_tokens_max: sizes.slot_tokens_max,
        prefill_tokens_per_s: first.prefill_tokens_per_s,
        speed_factor: 1,
      },
      text: new LlamaTextModel(
        runtime.model,
        sizes.slot_tokens_max,
        options.system_prompt ?? null,
        first.embedding_dimensions,
      ),
      capabilities: EMBEDDED,
      sampling: { ...samplingDefaults(runtime.model), ...options.sampling },
      system_fingerprint: `switchyard-embedded-${options.model_id}`,
      ordering: options.ordering ?? 'modelled',
      lengths: options.learn_lengths && first.embedding_dimensions !== null ? lengthsOf(events) : null,
      report,
      startEngine: async (epoch, hooks) => {
        const backend = spare ?? (await createBackend(runtime, options))
        spare = null
        return new EngineDriver({
          epoch,
          scheduler: schedulerOf(epoch, sizes, options, classes, memory(backend, runtime, sizes), true),
          backend,
          clock: monotonicUs,
          ...hooks,
        })
      },
    },
    events,
  )
}

function lengthsOf({ lengths }: EngineFrontEvents): PromptLengths {
  return new PromptLengths({ random: Math.random, told: (verdict) => lengths?.(verdict) })
}

/** Images hold as much as all slots: the backend looked for a place with that much room. */
function memory(backend: LlamaBackend, { model }: LlamaRuntime, { seats }: EngineSizes): EngineMemoryConfig {
  const { prefill_tokens_per_s, slots, slot_tokens_max, step_us } = backend
  const { kv_bytes_per_token } = modelShape(model.fileInfo.metadata)
  const measured = { prefill_tokens_per_s, step_us, swap: backend.swapCosts(), kv_bytes_per_token }
  return {
    ...memoryOf(backend, prefill_tokens_per_s, slots * slot_tokens_max),
    memory: measuredMemory(measured, seats),
  }
}

function createBackend({ model }: LlamaRuntime, options: FrontOptions): Promise<LlamaBackend> {
  const { slots = EMBEDDED_DEFAULTS.slots, place } = options
  const kv_bytes = (totalmem() * EMBEDDED_DEFAULTS.memory_share) / (place?.engines ?? 1)
  const fitting = contextSize(modelShape(model.fileInfo.metadata), kv_bytes, { slots, slots_max: slots })
  return LlamaBackend.create({
    model,
    slots,
    context_tokens: options.context_tokens ?? fitting.context_tokens,
    threads: options.threads ?? threadsPerEngine(availableParallelism(), 1),
    prefill_chunk_tokens: options.prefill_chunk_tokens ?? EMBEDDED_DEFAULTS.prefill_chunk_tokens,
  })
}

function sizesOf(options: FrontOptions, { slots, slot_tokens_max }: LlamaBackend): EngineSizes {
  const { block_tokens, max_step_tokens } = EMBEDDED_DEFAULTS
  const { prefill_chunk_tokens = EMBEDDED_DEFAULTS.prefill_chunk_tokens } = options
  const seats = Math.min(options.seats ?? EMBEDDED_DEFAULTS.seats, slots)
  return {
    seats,
    slots,
    slot_tokens_max,
    block_tokens,
    // llama.cpp gives every slot its own KV: the pool is all slots, and no call can use another's.
    capacity_blocks: slots * Math.ceil(slot_tokens_max / block_tokens),
    max_step_tokens: Math.max(seats, max_step_tokens, prefill_chunk_tokens),
    prefill_chunk_tokens,
  }
}
