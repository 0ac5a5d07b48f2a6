import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { testFolder } from '../../../ops/system/test-folder.ts'
import { kvBytesOfToken } from './kv-bytes.ts'
import { WORDS } from './play-programs.ts'
import { randomModel } from './random-model.ts'
import { GPU_KV_TOKENS } from './settings.ts'

const Tokenizer = z.object({ model: z.object({ vocab: z.record(z.string(), z.number()) }) })

test('the model of random weights has 8B’s shape, whose KV of 5 GiB is what the workloads are played with', () => {
  const { path: made } = randomModel(testFolder())
  expect(kvBytesOfToken(made) * GPU_KV_TOKENS).toBe(5 * 2 ** 30)
})

test('every word that programs say is one token, and no two words are the same', () => {
  const { path: made } = randomModel(testFolder())
  const { vocab } = Tokenizer.parse(JSON.parse(readFileSync(path.join(made, 'tokenizer.json'), 'utf8'))).model
  const config = z
    .object({ vocab_size: z.number() })
    .parse(JSON.parse(readFileSync(path.join(made, 'config.json'), 'utf8')))
  expect(new Set(Object.values(vocab)).size).toBe(config.vocab_size)
  for (const word of WORDS) expect(vocab[`▁${word}`]).toBeGreaterThan(0)
})
