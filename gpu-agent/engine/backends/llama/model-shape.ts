/** What a GGUF says of its context and of the KV cache that a token of it takes. */

export interface ModelShape {
  /** The longest context that the model was made for. */
  context_tokens: number
  /** K and V of all layers in 16 bits. */
  kv_bytes_per_token: number
}

/** Of the model that Switchyard fetches by itself (SmolLM2-135M): 30 layers of 3 heads of 64, K and V. */
export const DEFAULT_MODEL_SHAPE: ModelShape = { context_tokens: 8192, kv_bytes_per_token: 23_040 }

/** For a file that does not say: what llama.cpp assumes of a model, and a context that any model has. */
const UNKNOWN: ModelShape = { context_tokens: 4096, kv_bytes_per_token: 131_072 }
const BYTES_PER_VALUE = 2

/** Reads the head of the file. Rejects when it is no GGUF. */
export async function readModelShape(model_path: string): Promise<ModelShape> {
  // The library takes half a second to load.
  const { readGgufFileInfo } = await import('node-llama-cpp')
  const { metadata } = await readGgufFileInfo(model_path, { readTensorInfo: false, logWarnings: false })
  return modelShape(metadata)
}

export function modelShape(metadata: object): ModelShape {
  const architecture: unknown = field(field(metadata, 'general'), 'architecture')
  const own = typeof architecture === 'string' ? field(metadata, architecture) : undefined
  const attention = field(own, 'attention')
  const layers = count(field(own, 'block_count'))
  const heads = count(field(attention, 'head_count'))
  const width = count(field(own, 'embedding_length'))
  const kv_heads = largest(field(attention, 'head_count_kv')) ?? heads
  const head_width = width === null || heads === null ? null : width / heads
  const key = count(field(attention, 'key_length')) ?? head_width
  const value = count(field(attention, 'value_length')) ?? head_width
  const known = layers !== null && kv_heads !== null && key !== null && value !== null
  return {
    context_tokens: count(field(own, 'context_length')) ?? UNKNOWN.context_tokens,
    kv_bytes_per_token: known
      ? Math.ceil(layers * kv_heads * (key + value) * BYTES_PER_VALUE)
      : UNKNOWN.kv_bytes_per_token,
  }
}

export function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : null
}

/** Some models have heads by layer. */
function largest(value: unknown): number | null {
  if (!Array.isArray(value)) return count(value)
  const counts = value.map(count).filter((one) => one !== null)
  return counts.length === 0 ? null : Math.max(...counts)
}
