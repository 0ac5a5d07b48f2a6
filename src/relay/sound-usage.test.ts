import { expect, test, vi } from 'vitest'
import type { AnswerFacts, Json } from './dialects/dialect.ts'
import { DIALECTS } from './dialects/index.ts'
import { soundDataOf, soundUsage, withSoundUsage } from './sound-usage.ts'

const BOUNDS = { prompt_tokens_max: 100, output_tokens_max: 20, sequences_max: 1 }
const EXTENSION = {
  ...{ preemptions: 0, swapped_out_tokens: 0, swapped_in_tokens: 0, service_s: 1, service_wall_s: 2 },
  ...{ service_modelled_s: 1, wait_s: 0, ttft_s: null, tpot_s: 0.1, engine: 'e', region: 'r', emulated: true },
}
const USAGE = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120, switchyard: EXTENSION }

test('usage that can be true is the same object', () => {
  expect(soundUsage(USAGE, BOUNDS)).toBe(USAGE)
  const detailed = { ...USAGE, prompt_tokens_details: { cached_tokens: 7 }, completion_tokens_details: null, more: 'x' }
  expect(soundUsage(detailed, BOUNDS)).toBe(detailed)
})

test.each([
  'none',
  7,
  [],
  { ...USAGE, prompt_tokens: -1 },
  { ...USAGE, prompt_tokens: 1.5 },
  { ...USAGE, completion_tokens: 21 },
  { ...USAGE, prompt_tokens: 101 },
  { ...USAGE, total_tokens: 121 },
  { ...USAGE, completion_tokens: '20' },
  { ...USAGE, prompt_tokens_details: { cached_tokens: -5 } },
  { ...USAGE, completion_tokens_details: { reasoning_tokens: 1e9 } },
])('counts that cannot be: %j', (usage) => {
  expect(soundUsage(usage, BOUNDS)).toBeNull()
})

test.each([{ service_s: -1 }, { wait_s: 1e9 }, { ttft_s: 'soon' }, { preemptions: -1 }])(
  'an extension that cannot be: %j',
  (change) => {
    const { switchyard: _, ...counts } = USAGE
    expect(soundUsage({ ...USAGE, switchyard: { ...EXTENSION, ...change } }, BOUNDS)).toEqual(counts)
  },
)

test('an answer in one piece loses nonsense, and keeps its text', () => {
  const facts = { call: 'c', model: 'm', now_ms: 0, now: () => 0 } as AnswerFacts
  const parsed = DIALECTS.chat.parse({ model: 'm', messages: [{ role: 'user', content: 'x' }] }, new Headers(), null)
  if (parsed.status !== 'parsed') throw new Error(parsed.error.message)
  const nonsense = vi.fn()
  const answered = (usage: unknown): Json => {
    const builder = withSoundUsage(parsed.call.answer, soundDataOf(BOUNDS, nonsense)).whole(facts)
    builder.add(JSON.stringify({ choices: [{ index: 0, delta: { content: 'hello' } }], usage: null }))
    builder.add(JSON.stringify({ choices: [], usage }))
    return builder.finish()
  }
  expect(answered(USAGE)).toMatchObject({ usage: USAGE })
  expect(nonsense).not.toHaveBeenCalled()
  const lied = answered({ ...USAGE, completion_tokens: 2 ** 53 - 1 })
  expect(lied).toMatchObject({ choices: [{ message: { content: 'hello' } }] })
  expect(lied).not.toHaveProperty('usage')
  expect(nonsense).toHaveBeenCalledOnce()
  const builder = withSoundUsage(parsed.call.answer, soundDataOf(BOUNDS, nonsense)).whole(facts)
  builder.add('{"choices":[],"\\u0075sage":{"prompt_tokens":-1},"x":"\\"usage\\":null"}')
  expect(builder.finish()).not.toHaveProperty('usage')
})
