import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { LlamaBackend } from './llama-backend.ts'
import { isReadable } from './llama-grammar.ts'
import type { LlamaRuntime } from './llama-runtime.ts'
import { LlamaTextModel } from './llama-text-model.ts'
import { HandPlans, output } from './testing/hand-plans.ts'
import { describeWithModel, loadRealModel } from './testing/real-model.ts'

const SLOTS = 3
const CONTEXT_TOKENS = 256
const LIST = String.raw`root ::= "[" word ("," word){4} "]"
word ::= "\"" [a-z]{3,8} "\""`

describeWithModel('grammars on the real model', () => {
  let runtime: LlamaRuntime
  let text: LlamaTextModel
  let backend: LlamaBackend
  let plans: HandPlans

  beforeAll(async () => {
    runtime = await loadRealModel()
    text = new LlamaTextModel(runtime.model, CONTEXT_TOKENS)
    backend = await LlamaBackend.create({
      model: runtime.model,
      threads: 1,
      slots: SLOTS,
      context_tokens: CONTEXT_TOKENS,
    })
  })
  afterAll(async () => {
    await backend.dispose()
    await runtime.dispose()
  })
  beforeEach(async () => {
    plans = new HandPlans(backend)
    for (let slot = 0; slot < SLOTS; slot++) await plans.clear(slot)
  })

  function prompt(question: string): number[] {
    const encoding = text.encodeChat([{ role: 'user', content: question }], () => undefined)
    if (!encoding.ok) throw new Error('prompt does not fit')
    return encoding.tokens
  }

  const written = (tokens: readonly number[]) => runtime.model.detokenize(tokens as never[])
  const greedy = { temperature: 0, top_p: 1, seed: 1 }

  test('constrained calls share batches with free ones, each with the tokens that it would get alone', async () => {
    const free = prompt('Tell me a short story about a small house in the woods.')
    const asked = prompt('Name five animals.')
    const alone = [
      await plans.run(plans.admit(0, free), 20),
      await plans.run(plans.admit(1, asked, { ...greedy, grammar: LIST }), 60),
    ]
    await plans.clear(0)
    await plans.clear(1)
    const before = backend.batches
    // The constrained call sits below the free one, and its prompt has another length: order in the batch matters.
    const calls = [plans.admit(1, free), plans.admit(0, asked, { ...greedy, grammar: LIST })]
    for (let step = 0; step < 20; step++) await plans.step(calls.filter(({ ended }) => !ended))
    expect(backend.batches - before).toBe(20)
    const [talk, list] = calls.map(output)
    expect(talk?.slice(0, 20)).toEqual(alone[0])
    expect(list?.slice(0, 20)).toEqual(alone[1]?.slice(0, 20))
    const words: unknown = JSON.parse(written(alone[1]?.slice(0, -1) ?? []))
    expect(words).toHaveLength(5)
  })

  test('the end token comes where the grammar ends and nothing follows it', async () => {
    const call = plans.admit(0, prompt('Yes or no?'), { ...greedy, grammar: 'root ::= "yes" | "no"' })
    const tokens = await plans.run(call, 10)
    expect(call.ended).toBe(true)
    expect(['yes', 'no']).toContain(written(tokens.slice(0, -1)))
  })

  test.each([0, 1])(
    'a discarded call goes on with its place in the grammar, at temperature %j',
    async (temperature) => {
      const sampling = { temperature, top_p: 1, seed: 7, grammar: LIST }
      const asked = prompt('Name five animals.')
      const alone = await plans.run(plans.admit(2, asked, sampling), 40)
      const call = plans.admit(0, asked, sampling)
      await plans.run(call, 6)
      await plans.step([call], 63, [{ op: 'truncate', slot: 0, tokens: 0 }])
      await plans.operate([{ op: 'save', slot: 0, image: 100 + temperature, tokens: call.computed }])
      await plans.operate([{ op: 'restore', slot: 1, image: 100 + temperature, tokens: call.computed }])
      call.slot = 1
      await plans.run(call, 40)
      expect(output(call)).toEqual(alone)
      expect(JSON.parse(written(alone.slice(0, -1)))).toHaveLength(5)
    },
  )

  test.each([0, 1])(
    'a call that another engine began goes on in its grammar, at temperature %j',
    async (temperature) => {
      const sampling = { temperature, top_p: 1, seed: 11, grammar: LIST }
      const asked = prompt('Name five animals.')
      const whole = await plans.run(plans.admit(0, asked, sampling), 40)
      for (const [slot, resumed_tokens] of [3, whole.length - 1].entries()) {
        await plans.clear(slot)
        const call = plans.admit(slot, [...asked, ...whole.slice(0, resumed_tokens)], sampling, { resumed_tokens })
        expect([...whole.slice(0, resumed_tokens), ...(await plans.run(call, 40))]).toEqual(whole)
      }
    },
  )

  test('a call whose earlier output its grammar does not allow ends, and no other', async () => {
    const asked = prompt('Name five animals.')
    const foreign = runtime.model.tokenize('Once upon')
    const sampling = { ...greedy, grammar: LIST }
    const dead = plans.admit(0, [...asked, ...foreign], sampling, { resumed_tokens: foreign.length })
    const alive = plans.admit(1, prompt('Count to five.'))
    expect(await plans.step([dead, alive])).toEqual([dead.lease])
    expect(output(alive)).toHaveLength(1)
  })

  test('a grammar that no token can continue ends its call and no other', async () => {
    const impossible = 'root ::= "a" [\\uE000] never\nnever ::= [^\\x00-\\U0010FFFF]'
    const [dead, alive] = [
      plans.admit(0, prompt('Say a.'), { ...greedy, grammar: impossible }),
      plans.admit(1, prompt('Count to five.')),
    ]
    for (let step = 0; step < 12 && !dead.ended; step++) await plans.step([dead, alive])
    expect(dead.ended).toBe(true)
    await plans.step([alive])
    expect(output(alive).length).toBeGreaterThan(1)
  })

  test('what does not parse is seen before a call is admitted', () => {
    expect(isReadable(runtime.model, LIST)).toBe(true)
    expect(isReadable(runtime.model, 'root ::= missing')).toBe(false)
    expect(isReadable(runtime.model, 'root ::= root "a" | "b"')).toBe(false)
  })
})
