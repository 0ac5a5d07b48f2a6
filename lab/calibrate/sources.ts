/** What can be calibrated: the embedded engine in this process, and an OpenAI-compatible endpoint. */
import { fail } from '../../cli/flags.ts'
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { loadLlamaRuntime } from '../../gpu-agent/engine/backends/llama/llama-runtime.ts'
import type { SwapCosts } from '../../gpu-agent/engine/types.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import { BLOCK_TOKENS, CHUNK_TOKENS, STEP_TOKENS_MAX } from '../bench/real-engine.ts'
import { driveEndpoint } from './drive-endpoint.ts'
import { pointsOf } from './drive-engine.ts'
import { loadingS } from './loading-time.ts'
import { measureEmbedded } from './measure-embedded.ts'
import { openaiStream } from './openai-stream.ts'
import type { CalibrationFit, Span } from './span.ts'
import { TRIALS, type Trial, trialCalls } from './trial-run.ts'

const OUTPUT_TOKENS = 32
const VOCABULARY = [1000, 40_000] as const
/** Nothing outside an endpoint shows what its swaps cost: PCIe 4.0 x16 for an 8B model. */
const SWAP_ASSUMED: SwapCosts = { save_us_per_token: 5, restore_us_per_token: 5, base_us: 30 }

export interface Measured {
  spans: Span[]
  sizes: Omit<LatencyProfile, 'name' | 'provenance' | keyof CalibrationFit['costs']>
  /** Name of the model. */
  model: string
  /** What was measured, in the provenance. */
  what: string
  /** Between two steps; null: not to be seen from outside, where it is part of the base. */
  driver_us: number | null
  trials: readonly Trial[]
  /** Null: not to be seen from outside. */
  loading_s: number | null
}

export interface EmbeddedSource {
  model: string | undefined
  threads: number
  seats: number
  slots: number
  context_tokens: number
}

export async function embeddedSource({ model, ...sizes }: EmbeddedSource): Promise<Measured> {
  const { threads, seats, slots, context_tokens } = sizes
  const found = await findOrFetchModel(model === undefined ? {} : { model })
  const loading_s = await loadingS({ model_path: found.path, ...sizes })
  process.stderr.write(`loading took ${loading_s} s\n`)
  const runtime = await loadLlamaRuntime(found.path)
  const points = pointsOf(seats, context_tokens)
  const asked = Array.from({ length: TRIALS }, (_, number) => trialCalls(seats, context_tokens, number))
  const { spans, swap, driver_us, trials } = await measureEmbedded({
    ...{ runtime, threads, seats, slots, context_tokens, points, vocabulary: VOCABULARY, trials: asked },
    onPoint: (done) => process.stderr.write(`point ${done} of ${points.length}\n`),
  }).catch((error: unknown) => fail(`the engine broke: ${String(error)}`))
  return {
    ...{ spans, driver_us, model: found.id, trials, loading_s },
    what: `The embedded engine with ${found.id}, ${threads} thread${threads === 1 ? '' : 's'}`,
    sizes: {
      swap_costs: swap ?? SWAP_ASSUMED,
      ...{ seats, slots, slot_tokens_max: context_tokens, block_tokens: BLOCK_TOKENS },
      capacity_blocks: slots * Math.ceil(context_tokens / BLOCK_TOKENS),
      ...{ max_step_tokens: Math.max(seats, STEP_TOKENS_MAX), prefill_chunk_tokens: CHUNK_TOKENS },
    },
  }
}

export interface EndpointSource {
  url: string
  model: string
  api_key: string | null
  seats: number
  context_tokens: number
  kv_tokens: number
  chunk_tokens: number
  rounds: number
  clock: () => number
}

export async function endpointSource(source: EndpointSource): Promise<Measured> {
  const { url, model, api_key, seats, context_tokens: context, kv_tokens, chunk_tokens, rounds, clock } = source
  const concurrent = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].filter((calls) => calls <= seats)
  // A word may be more than a token: half of the context is left.
  const prompt_tokens = [16, 0.05, 0.12, 0.25, 0.45].map((share) => (share > 1 ? share : Math.round(share * context)))
  const stream = openaiStream({ url, model, api_key, clock })
  const broken = (error: Error): never =>
    fail(`${error.message}${error.cause === undefined ? '' : ` (${String(error.cause)})`}`)
  const spans = await driveEndpoint(
    stream,
    { concurrent, prompt_tokens, output_tokens: OUTPUT_TOKENS, chunk_tokens, rounds },
    (done, of) => process.stderr.write(`round ${done} of ${of}\n`),
  ).catch(broken)
  const trials: Trial[] = []
  for (let number = 0; number < TRIALS; number++) {
    const started_us = clock()
    const streamed = await Promise.all(
      trialCalls(seats, context, number).map((call) => stream(call.prompt_tokens, call.output_tokens)),
    ).catch(broken)
    const real_s = (clock() - started_us) / 1e6
    // As the endpoint counts them.
    const calls = streamed.map((call) => ({ prompt_tokens: call.prompt_tokens, output_tokens: call.output_tokens }))
    trials.push({ calls, real_s })
  }
  return {
    ...{ spans, driver_us: null, model, trials, loading_s: null },
    what: `${model} behind an OpenAI-compatible endpoint, by times of tokens; swap costs assumed, sizes as given`,
    sizes: {
      swap_costs: SWAP_ASSUMED,
      ...{ seats, slots: Math.min(1024, seats * 4), slot_tokens_max: context, block_tokens: 16 },
      ...{ capacity_blocks: Math.ceil(kv_tokens / 16) },
      ...{ max_step_tokens: Math.max(seats, chunk_tokens), prefill_chunk_tokens: chunk_tokens },
    },
  }
}
