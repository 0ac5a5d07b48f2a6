/**
 * Profiles of engines that were not logged: step times by transfer from logged ones, memory and swap by arithmetic. The basis of
 * each figure is in the provenance, which travels with the profile.
 */
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { mean } from '../statistics.ts'
import { type LoggedEngine, loggedEngines } from './logged-engines.ts'
import {
  FALCON_180B,
  kvBytesPerToken,
  LLAMA_31_8B,
  LLAMA_31_70B,
  type ModelShape,
  weightBytes,
} from './model-shapes.ts'
import { transfer } from './transfer.ts'

/** What CUDA reports of an A100-SXM4-80GB. */
const GPU_BYTES = 79.15 * 2 ** 30
/** vLLM's default share of it. */
const MEMORY_SHARE = 0.9
const ACTIVATION_BYTES = 4 * 2 ** 30
/** LAMPS §6.1: "we manually limited the maximum memory usage of each GPU to 40 GB", of 80. */
const LIMITED_SHARE = 0.5
/** A prompt of 2,048 tokens at once in a model of up to 13 billion parameters. */
const LIMITED_ACTIVATION_BYTES = 2 * 2 ** 30
/** PCIe 4.0 x16 at 80 % of 31.5 GB/s, for each GPU its own. */
const PCIE_BYTES_PER_S = 25.2e9
const SWAP_BASE_US = 30
export const BLOCK_TOKENS = 16
/** vLLM's default max_num_seqs. */
const SEATS = 256
const SLOTS = 1024
const CONTEXT_TOKENS = 32_768
/** vLLM's default token budget of a step with chunked prefill. */
const STEP_TOKENS = 2048

interface Target {
  name: string
  model: string
  shape: ModelShape
  tp: number
  /** What the reader must know beyond the common text. */
  caution?: string
}

const TARGETS: readonly Target[] = [
  { name: 'a100-8b', model: 'Llama-3.1-8B', shape: LLAMA_31_8B, tp: 1 },
  { name: 'a100-70b-tp4', model: 'Llama-3.1-70B', shape: LLAMA_31_70B, tp: 4 },
  {
    ...{ name: 'a100-180b-tp8', model: 'Falcon-180B', shape: FALCON_180B, tp: 8 },
    caution:
      ' Eight GPUs and 80 layers of this width are beyond the logs (1, 2 and 4 GPUs, at most 44 layers), so its step times are an extrapolation. ' +
      'The context is kept equal to the other profiles so that they play the same programs; the model itself was trained for 2,048 tokens.',
  },
]

/** Models of LAMPS' evaluation, which were logged themselves. */
const LOGGED_TARGETS = [
  { name: 'gpt-j-6b-40gb', model: 'gpt-j-6b' },
  { name: 'vicuna-13b-40gb', model: 'vicuna-13b-v1.5' },
] as const

export function derivedProfiles(): LatencyProfile[] {
  const logged = loggedEngines()
  const source = sourceOf(logged)
  return [
    ...TARGETS.map((target) => profileOf(target, logged, source)),
    ...LOGGED_TARGETS.map((target) => limitedProfile(target, logged)),
  ]
}

/** A model at the fit of its own log, with the memory that LAMPS left it. Moves run beside the forward pass, as InferCept's do. */
function limitedProfile(
  { name, model }: { name: string; model: string },
  logged: readonly LoggedEngine[],
): LatencyProfile {
  const engine = logged.find((one) => one.model === model && one.tp === 1)
  if (engine === undefined) throw new RangeError(`there is no fit of ${model} on one GPU`)
  const { shape, constants } = engine
  const kv_bytes = kvBytesPerToken(shape)
  const free_bytes = LIMITED_SHARE * GPU_BYTES - LIMITED_ACTIVATION_BYTES - weightBytes(shape)
  const capacity_blocks = Math.floor(free_bytes / kv_bytes / BLOCK_TOKENS)
  return {
    name,
    provenance:
      `${model} in 16 bits on 1 A100-SXM4-80GB of whose memory half is used (LAMPS §6.1: 40 GB). Step times: fitted to its log by the SamuLLM authors ` +
      '(A100-80GB, vLLM; puddingfjz/vllm @ de1677dc, benchmarks/Cost_Model_per_iter, Apache-2.0; simulator/engines/a100-fits.json). Memory: ' +
      `${LIMITED_SHARE * 100} % of 79.15 GiB, less ${(weightBytes(shape) / 1e9).toFixed(1)} GB of weights and 2 GiB of activations, at ${kv_bytes} bytes of KV a token: ` +
      `${capacity_blocks * BLOCK_TOKENS} tokens. Swap: over PCIe 4.0 x16 at 25.2 GB/s, in one batched copy of ${SWAP_BASE_US} us, beside the forward pass. ` +
      "Seats and step budget: vLLM's defaults.",
    ...stepTimes(constants),
    moves_overlap: true,
    kv_bytes_per_token: kv_bytes,
    ...sizesOf(kv_bytes, 1, capacity_blocks),
    // Prompts of more than 2,048 tokens are played too, although the models were trained for that length.
    slot_tokens_max: Math.min(CONTEXT_TOKENS, capacity_blocks * BLOCK_TOKENS),
  }
}

function stepTimes(constants: LoggedEngine['constants']) {
  return {
    base_us: Math.round(constants.base_us),
    per_sequence_us: Math.round(constants.per_sequence_us),
    per_kv_token_ns: Math.round(constants.per_kv_token_ns),
    per_prefill_token_us: Math.round(constants.per_prefill_token_us),
    per_prefill_pair_ps: Math.round(constants.per_prefill_pair_ps),
    shadow_tokens: constants.shadow_tokens,
  }
}

function sizesOf(kv_bytes: number, tp: number, capacity_blocks: number) {
  const swap_us = Math.round((kv_bytes / tp / PCIE_BYTES_PER_S) * 1e8) / 100
  return {
    swap_costs: { save_us_per_token: swap_us, restore_us_per_token: swap_us, base_us: SWAP_BASE_US },
    seats: SEATS,
    slots: SLOTS,
    slot_tokens_max: CONTEXT_TOKENS,
    block_tokens: BLOCK_TOKENS,
    capacity_blocks,
    max_step_tokens: STEP_TOKENS,
    prefill_chunk_tokens: STEP_TOKENS,
  }
}

function sourceOf(logged: readonly LoggedEngine[]): string {
  const transferable = logged.filter(({ shape }) => !shape.alibi && shape.experts.total === 1)
  const error = (phase: 'prefill' | 'decode') =>
    mean(transferable.map(({ model_left_out }) => model_left_out[phase].mean_abs_percent)).toFixed(1)
  return (
    `fitted to ${logged.length} logs of the SamuLLM authors (A100-80GB, vLLM; puddingfjz/vllm @ de1677dc, ` +
    'benchmarks/Cost_Model_per_iter, Apache-2.0; 900 iterations each) and carried to this model by bytes of weights and of KV, FLOPs, layers and ' +
    `GPUs (simulator/engines/transfer.ts). The same procedure predicts a dense model left out of it with a mean error of ${error('prefill')} % ` +
    `of a prefill step and ${error('decode')} % of a decode step.`
  )
}

/** Blocks of KV beside the weights of a model in 16 bits on `tp` A100s. Not positive: the weights do not fit. */
export function capacityBlocks(shape: ModelShape, tp: number): number {
  const free_bytes = tp * (MEMORY_SHARE * GPU_BYTES - ACTIVATION_BYTES) - weightBytes(shape)
  return Math.floor(free_bytes / kvBytesPerToken(shape) / BLOCK_TOKENS)
}

function profileOf(target: Target, logged: readonly LoggedEngine[], source: string): LatencyProfile {
  const { name, model, shape, tp, caution = '' } = target
  const constants = transfer(logged, shape, tp)
  const kv_bytes = kvBytesPerToken(shape)
  const capacity_blocks = capacityBlocks(shape, tp)
  return {
    name,
    provenance:
      `${model} in 16 bits on ${tp} A100-SXM4-80GB. Step times: ${source} Memory: ${MEMORY_SHARE * 100} % of ${tp} x 79.15 GiB, less ` +
      `${(weightBytes(shape) / 1e9).toFixed(1)} GB of weights and 4 GiB of activations a GPU, at ${kv_bytes} bytes of KV a token: ` +
      `${capacity_blocks * BLOCK_TOKENS} tokens. Swap: ${kv_bytes / tp} bytes a token and GPU over PCIe 4.0 x16 at 25.2 GB/s, in one batched ` +
      `copy (Autellix §5) of ${SWAP_BASE_US} us. Seats and step budget: vLLM's defaults.${caution}`,
    ...(tp === 1 ? {} : { gpus: tp }),
    ...stepTimes(constants),
    ...sizesOf(kv_bytes, tp, capacity_blocks),
  }
}
