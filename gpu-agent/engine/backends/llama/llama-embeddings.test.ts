import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { BARREN_STEPS_MAX, LlamaBackend } from './llama-backend.ts'
import type { LlamaRuntime } from './llama-runtime.ts'
import { engineCall, type HandCall, HandPlans, output } from './testing/hand-plans.ts'
import { describeWithModel, loadRealModel } from './testing/real-model.ts'

const SLOTS = 4
const CONTEXT_TOKENS = 512
const GREEDY = { temperature: 0, top_p: 1, seed: 1 }

describeWithModel('embeddings of the real model', () => {
  let runtime: LlamaRuntime
  let backend: LlamaBackend
  let plans: HandPlans

  beforeAll(async () => {
    runtime = await loadRealModel()
    backend = await create()
  })
  afterAll(async () => {
    await backend.dispose()
    await runtime.dispose()
  })
  beforeEach(async () => {
    plans = new HandPlans(backend)
    for (let slot = 0; slot < SLOTS; slot++) await plans.clear(slot)
  })

  const create = () =>
    LlamaBackend.create({ model: runtime.model, threads: 1, slots: SLOTS, context_tokens: CONTEXT_TOKENS })
  const tokens = (text: string): number[] => [...runtime.model.tokenize(text, false)]
  const embeds = (slot: number, text: string): HandCall => plans.admit(slot, tokens(text), GREEDY, { embeds: true })

  async function vectorOf(call: HandCall, chunk?: number): Promise<number[]> {
    while (!call.ended) await plans.step([call], chunk)
    return [...(call.embedding ?? [])]
  }

  function cosine(a: readonly number[], b: readonly number[]): number {
    const dot = (x: readonly number[], y: readonly number[]) => x.reduce((sum, one, at) => sum + one * (y[at] ?? 0), 0)
    return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))
  }

  const TEXTS = ['Rail', 'The cat sat on the mat.', 'The quick brown fox jumps over the lazy dog. '.repeat(30)]

  test('are those of the library’s own embedding context, from any slot', async () => {
    const own = await runtime.model.createEmbeddingContext({ contextSize: CONTEXT_TOKENS, threads: 1 })
    for (const [slot, text] of TEXTS.entries()) {
      const vector = await vectorOf(embeds(slot + 1, text))
      expect(vector).toHaveLength(backend.embedding_dimensions ?? -1)
      const { vector: reference } = await own.getEmbeddingFor(runtime.model.tokenize(text, false))
      expect(cosine(vector, [...reference])).toBeGreaterThan(0.999)
    }
    await own.dispose()
  })

  test('of other texts are others', async () => {
    const [a, b] = [await vectorOf(embeds(0, TEXTS[1] ?? '')), await vectorOf(embeds(1, TEXTS[2] ?? ''))]
    expect(cosine(a, b)).toBeLessThan(0.99)
  })

  test('are the same, bit by bit, in any chunks, in company, and from a prefix that is in KV', async () => {
    const text = TEXTS[2] ?? ''
    const alone = await vectorOf(embeds(0, text))
    const [call, other] = [embeds(1, text), plans.admit(2, tokens('Once upon a time'))]
    while (!call.ended) await plans.step([call, other], 17)
    expect([...(call.embedding ?? [])]).toEqual(alone)
    const again = embeds(1, text)
    again.computed = call.tokens.length - 9
    await plans.operate([{ op: 'truncate', slot: 1, tokens: again.computed }])
    expect(await vectorOf(again)).toEqual(alone)
  })

  test('leave what others say as it is, and their slot as the plan has it', async () => {
    const prompt = tokens('One, two, three,')
    const alone = await plans.run(plans.admit(0, prompt), 8)
    await plans.clear(0)
    const [text, first, second] = [plans.admit(0, prompt), embeds(1, TEXTS[1] ?? ''), embeds(3, TEXTS[0] ?? '')]
    for (let step = 0; step < 8; step++) await plans.step([text, first, second].filter(({ ended }) => !ended))
    expect(output(text)).toEqual(alone)
    expect([first, second].map(({ embedding }) => embedding?.length)).toEqual([576, 576])
    expect(backend.slotTokens(1)).toEqual(tokens(TEXTS[1] ?? ''))
  })

  test('that cannot be read fail their call alone, and the next is read', async () => {
    const isolated = await create()
    plans = new HandPlans(isolated)
    const refused = vi.spyOn(runtime.model, 'createContext').mockRejectedValue(new Error('no memory'))
    const prompt = tokens('Rail')
    // More often than a damaged context may fail in a row.
    for (let step = 0; step <= BARREN_STEPS_MAX; step++) {
      const lease = `refused-${step}`
      isolated.admit({ ...engineCall(lease, prompt, GREEDY), embeds: true })
      const { failed } = await isolated.execute({
        step,
        operations: [{ op: 'truncate', slot: 0, tokens: 0 }],
        work: [{ lease, slot: 0, from: 0, to: prompt.length, samples: true }],
      })
      expect(failed?.get(lease)).toMatchObject({ message: 'no memory' })
    }
    refused.mockRestore()
    expect(await vectorOf(embeds(2, 'Rail'))).toHaveLength(576)
    await isolated.dispose()
  })
})
