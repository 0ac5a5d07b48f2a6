import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { A100_COSTS } from '../../planner/costs/a100.ts'
import { engineCosts } from '../../planner/costs/engine-costs.ts'
import { WrongFlag } from '../flag-values.ts'
import { temporaryFolder } from '../testing/harness.ts'
import { readStartable } from './startable-file.ts'

const EMULATED = { model: 'e', engine: 'emulated', plans: [{ gpus: 1, profile: 'tiny', loading_s: 3 }] }

const MEASURED = engineCosts(
  { model: 'g', tp: 2, loading_s: 1.5 },
  {
    prefill: { base_us: 900, per_sequence_us: 9, per_prefill_token_us: 70, per_prefill_pair_ps: 5 },
    decode: {
      base_us: [
        [1, 1000],
        [4, 1300],
      ],
      per_kv_token_ns: 90,
    },
  },
  { seats: 4, context_tokens: 1024, kv_tokens: 4096, block_tokens: 16, step_tokens: 128 },
)

function read(content: unknown) {
  const folder = temporaryFolder()
  const file = join(folder, 'startable.json')
  writeFileSync(join(folder, 'costs.json'), JSON.stringify(A100_COSTS))
  writeFileSync(join(folder, 'own.json'), JSON.stringify({ provenance: 'a test', models: [MEASURED] }))
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
  return { folder, models: readStartable(file, {}) }
}

function fault(content: unknown): string {
  try {
    read(content)
    return 'none'
  } catch (error) {
    if (!(error instanceof WrongFlag)) throw error
    return error.message
  }
}

test('takes the flags of the agent, and what the planner should expect from a profile or a table', () => {
  const { folder, models } = read({
    models: [
      { ...EMULATED, flags: { seats: 2, 'context-tokens': 1000 } },
      { ...EMULATED, model: 'g', engine: 'embedded', flags: { 'model-path': 'x.gguf' } },
      { model: 'v', engine: 'vllm', flags: { model: 'org/v' }, costs: 'costs.json', costs_model: 'chatglm3-6b' },
    ],
  })
  const [emulated, embedded, vllm] = models
  expect(emulated?.costs.get(1)).toMatchObject({
    ...{ model: 'e', tp: 1, loading_s: 3, max_model_tokens: 1000, engine: { seats: 2 } },
  })
  expect(emulated?.emulated.get(1)).toEqual({ profile: 'tiny', loading_s: 3 })
  expect(embedded?.front.model_path).toBe(join(folder, 'x.gguf'))
  expect(vllm?.front.vllm).toMatchObject({ mode: 'process', model: 'org/v' })
  expect([...(vllm?.costs.values() ?? [])].map(({ model }) => model)).toEqual(['v', 'v', 'v', 'v'])
})

test('a table that was measured here gives its sizes, and flags make them smaller', () => {
  const measured = (flags: object) =>
    read({
      models: [{ model: 'g', engine: 'embedded', flags: { 'model-path': 'x', ...flags }, costs: 'own.json' }],
    }).models[0]?.costs.get(2)
  expect(measured({})).toMatchObject({ max_model_tokens: 1024, engine: { seats: 4, padding_tokens_max: null } })
  expect(measured({ seats: 2, 'context-tokens': 512 })).toMatchObject({ max_model_tokens: 512, engine: { seats: 2 } })
  expect(() => measured({ seats: 8, slots: 8 })).toThrow(/measured with at most 4. Measure again with --seats 8/)
})

test.each([
  ['no JSON', '{', /is not JSON/],
  ['no models', { models: [] }, /models: /],
  ['a model twice', { models: [EMULATED, EMULATED] }, /the model e is there twice/],
  ['an unknown engine', { models: [{ ...EMULATED, engine: 'openai' }] }, /models.0.engine/],
  [
    'an unknown flag',
    { models: [{ ...EMULATED, flags: { gpus: '0' } }] },
    /model e: "flags" has gpus; it may have model-path/,
  ],
  [
    'a flag of another engine',
    { models: [{ ...EMULATED, flags: { 'model-path': 'x' } }] },
    /--model-path goes with --engine embedded/,
  ],
  [
    'a degree that the plan chooses',
    { models: [{ model: 'v', engine: 'vllm', flags: { model: 'v', 'vllm-args': '-tp 2' }, costs: 'costs.json' }] },
    /over how many GPUs an engine is spread/,
  ],
  ['no model file', { models: [{ ...EMULATED, engine: 'embedded' }] }, /--model-path is required/],
  ['neither plans nor costs', { models: [{ model: 'e', engine: 'emulated' }] }, /either "plans"/],
  [
    'an emulated engine by a table',
    { models: [{ model: 'e', engine: 'emulated', costs: 'costs.json' }] },
    /keeps to the profile/,
  ],
  [
    'a profile that is not there',
    { models: [{ ...EMULATED, plans: [{ gpus: 1, profile: 'nope', loading_s: 1 }] }] },
    /no profile .*nope/,
  ],
  [
    'a table without the model',
    { models: [{ model: 'v', engine: 'vllm', flags: { model: 'v' }, costs: 'costs.json' }] },
    /has no table of v; it has .*costs_model/,
  ],
])('says what is wrong: %s', (_, content, message) => {
  expect(fault(content)).toMatch(message)
})

test('a file that is not there', () => {
  expect(() => readStartable('/nowhere.json', {})).toThrow(/--startable|cannot be read/)
})
