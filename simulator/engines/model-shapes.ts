/** Shapes of the models, from their published configurations; sizes that a step's duration depends on follow from them. */

export interface ModelShape {
  /** Checkpoints of one shape are one model to the clock. */
  family: string
  layers: number
  hidden: number
  intermediate: number
  /** Matrices of the feed-forward part: 3 with a gate, 2 without. */
  feed_forward_matrices: 2 | 3
  vocabulary: number
  query_heads: number
  kv_heads: number
  head: number
  experts: { total: number; active: number }
  /** ALiBi, which ran on another attention kernel: fitted by itself, of no use for other models. */
  alibi: boolean
}

const dense = { experts: { total: 1, active: 1 }, alibi: false }
const LLAMA_7B: ModelShape = {
  ...dense,
  family: 'llama-7b',
  layers: 32,
  hidden: 4096,
  intermediate: 11_008,
  feed_forward_matrices: 3,
  vocabulary: 32_000,
  query_heads: 32,
  kv_heads: 32,
  head: 128,
}
const LLAMA_13B: ModelShape = {
  ...LLAMA_7B,
  family: 'llama-13b',
  layers: 40,
  hidden: 5120,
  intermediate: 13_824,
  query_heads: 40,
  kv_heads: 40,
}
const PYTHIA_12B: ModelShape = {
  ...dense,
  family: 'pythia-12b',
  layers: 36,
  hidden: 5120,
  intermediate: 20_480,
  feed_forward_matrices: 2,
  vocabulary: 50_688,
  query_heads: 40,
  kv_heads: 40,
  head: 128,
}

/** By the log's name. */
export const LOGGED_MODELS: Readonly<Record<string, ModelShape>> = {
  'Llama-2-7b-hf': LLAMA_7B,
  'Llama-2-7b-chat-hf': LLAMA_7B,
  'Baichuan-7B': { ...LLAMA_7B, vocabulary: 64_000 },
  'Llama-2-13b-hf': LLAMA_13B,
  'vicuna-13b-v1.5': LLAMA_13B,
  'alpaca-13b': LLAMA_13B,
  'baize-v2-13b': LLAMA_13B,
  'koala-13B-HF': LLAMA_13B,
  'Baichuan2-13B-Chat': {
    ...LLAMA_13B,
    family: 'baichuan2-13b',
    intermediate: 13_696,
    vocabulary: 125_696,
    alibi: true,
  },
  'dolly-v2-12b': PYTHIA_12B,
  'oasst-sft-4-pythia-12b-epoch-3.5': PYTHIA_12B,
  'gpt-j-6b': {
    ...PYTHIA_12B,
    family: 'gpt-j-6b',
    layers: 28,
    hidden: 4096,
    intermediate: 16_384,
    vocabulary: 50_400,
    query_heads: 16,
    kv_heads: 16,
    head: 256,
  },
  'gpt-neox-20b': {
    ...PYTHIA_12B,
    family: 'gpt-neox-20b',
    layers: 44,
    hidden: 6144,
    intermediate: 24_576,
    vocabulary: 50_432,
    query_heads: 64,
    kv_heads: 64,
    head: 96,
  },
  'mpt-7b-chat': {
    ...PYTHIA_12B,
    family: 'mpt-7b',
    layers: 32,
    hidden: 4096,
    intermediate: 16_384,
    vocabulary: 50_432,
    query_heads: 32,
    kv_heads: 32,
    alibi: true,
  },
  'chatglm3-6b': {
    ...LLAMA_7B,
    family: 'chatglm3-6b',
    layers: 28,
    intermediate: 13_696,
    vocabulary: 65_024,
    kv_heads: 2,
  },
  'Mixtral-8x7B-v0.1': {
    ...LLAMA_7B,
    family: 'mixtral-8x7b',
    intermediate: 14_336,
    kv_heads: 8,
    experts: { total: 8, active: 2 },
  },
}

export const LLAMA_31_8B: ModelShape = {
  ...LLAMA_7B,
  family: 'llama-3.1-8b',
  intermediate: 14_336,
  vocabulary: 128_256,
  kv_heads: 8,
}
export const LLAMA_31_70B: ModelShape = {
  ...LLAMA_31_8B,
  family: 'llama-3.1-70b',
  layers: 80,
  hidden: 8192,
  intermediate: 28_672,
  query_heads: 64,
}

export const LLAMA_2_70B: ModelShape = { ...LLAMA_31_70B, family: 'llama-2-70b', vocabulary: 32_000 }
export const CODELLAMA_34B: ModelShape = {
  ...LLAMA_2_70B,
  family: 'codellama-34b',
  layers: 48,
  intermediate: 22_016,
}
export const MISTRAL_7B: ModelShape = { ...LLAMA_7B, family: 'mistral-7b', intermediate: 14_336, kv_heads: 8 }
export const STABLELM_7B: ModelShape = {
  ...PYTHIA_12B,
  family: 'stablelm-7b',
  layers: 16,
  hidden: 6144,
  intermediate: 24_576,
  vocabulary: 50_432,
  query_heads: 48,
  kv_heads: 48,
}

/** Its 232 query heads share 8 KV heads; the feed-forward part has no gate. */
export const FALCON_180B: ModelShape = {
  ...PYTHIA_12B,
  family: 'falcon-180b',
  layers: 80,
  hidden: 14_848,
  intermediate: 59_392,
  vocabulary: 65_024,
  query_heads: 232,
  kv_heads: 8,
  head: 64,
}

const BYTES_PER_VALUE = 2

/** Elements of the weight matrices that one token is multiplied with. */
export function activeElements(shape: ModelShape): number {
  return (
    shape.layers * (attentionElements(shape) + shape.experts.active * feedForwardElements(shape)) + headElements(shape)
  )
}

/** All weights, the embedding included. */
export function weightBytes(shape: ModelShape): number {
  const layer = attentionElements(shape) + shape.experts.total * feedForwardElements(shape)
  return BYTES_PER_VALUE * (shape.layers * layer + 2 * headElements(shape))
}

export function kvBytesPerToken({ layers, kv_heads, head }: ModelShape): number {
  return 2 * layers * kv_heads * head * BYTES_PER_VALUE
}

function attentionElements({ hidden, query_heads, kv_heads, head }: ModelShape): number {
  return hidden * head * (2 * query_heads + 2 * kv_heads)
}

function feedForwardElements({ hidden, intermediate, feed_forward_matrices }: ModelShape): number {
  return feed_forward_matrices * hidden * intermediate
}

function headElements({ hidden, vocabulary }: ModelShape): number {
  return hidden * vocabulary
}
