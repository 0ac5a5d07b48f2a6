/**
 * Which models give embeddings here: those that write text, whose last token has read the whole prompt, and whose KV is all
 * in one cache of one stream per sequence (embedding-context.ts). Not encoders, models that pool otherwise, or models with
 * sliding windows or a recurrent state.
 */
import type { LlamaModel } from 'node-llama-cpp'
import { field } from './model-shape.ts'

/** `<architecture>.pooling_type` of a GGUF. */
const POOLING_NONE = 0
const POOLING_LAST = 3

/** Null: none are made of this model. */
export function embeddingDimensions({ fileInfo, fileInsights, embeddingVectorSize }: EmbeddingModel): number | null {
  const { metadata } = fileInfo
  const own = field(metadata, String(field(field(metadata, 'general'), 'architecture')))
  const attention = field(own, 'attention')
  const pooling = field(own, 'pooling_type') ?? POOLING_NONE
  if (fileInsights.hasEncoder || fileInsights.isRecurrent || field(attention, 'causal') === false) return null
  if (pooling !== POOLING_NONE && pooling !== POOLING_LAST) return null
  const window = field(attention, 'sliding_window')
  return typeof window === 'number' && window > 0 ? null : embeddingVectorSize
}

export type EmbeddingModel = {
  fileInfo: { metadata: object }
  fileInsights: Pick<LlamaModel['fileInsights'], 'hasEncoder' | 'isRecurrent'>
  embeddingVectorSize: number
}
