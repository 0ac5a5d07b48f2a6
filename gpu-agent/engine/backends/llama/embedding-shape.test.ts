import { expect, test } from 'vitest'
import { embeddingDimensions } from './embedding-shape.ts'

const model = (own: object, insights: { hasEncoder?: boolean; isRecurrent?: boolean } = {}) => ({
  fileInfo: { metadata: { general: { architecture: 'qwen3' }, qwen3: own } },
  fileInsights: { hasEncoder: false, isRecurrent: false, ...insights },
  embeddingVectorSize: 1024,
})

test.each([
  ['that says nothing of pooling', model({ attention: { head_count: 16 } })],
  ['that pools nothing', model({ pooling_type: 0 })],
  ['that takes the last token', model({ pooling_type: 3 })],
  ['without a window', model({ attention: { sliding_window: 0 } })],
])('a model %s has as many dimensions as its width', (_, given) => {
  expect(embeddingDimensions(given)).toBe(1024)
})

test.each([
  ['that takes the mean', model({ pooling_type: 1 })],
  ['that takes a class token', model({ pooling_type: 2 })],
  ['that ranks', model({ pooling_type: 4 })],
  ['that reads in both directions', model({ attention: { causal: false } })],
  ['with sliding windows', model({ attention: { sliding_window: 4096 } })],
  ['with an encoder', model({}, { hasEncoder: true })],
  ['with a recurrent state', model({}, { isRecurrent: true })],
])('a model %s gives none here', (_, given) => {
  expect(embeddingDimensions(given)).toBeNull()
})
