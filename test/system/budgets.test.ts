/** Budgets of programs, as a client meets them, with an engine on a real model. What agents report never exceeds one. */
import { randomUUID } from 'node:crypto'
import OpenAI, { APIError } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually, System } from './support/system.ts'

let system: System
let client: OpenAI

beforeAll(async () => {
  system = await System.start({ engine: 'embedded' })
  const { url, apiKey } = system.dev
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })
})
afterAll(async () => {
  await system.remove()
})

interface Standing {
  limit: number
  used: number
  reserved: number
}
interface Program {
  output_tokens: number
  prompt_tokens: number
  open_calls: number
  budget: { calls: Standing | null; tokens: Standing | null; deadline: string | null } | null
}

async function programOf(id: string): Promise<Program> {
  const response = await system.fetch(`/v1/programs/${id}`)
  expect(response.status).toBe(200)
  return (await response.json()) as Program
}

/** Once every record is here: a client sees the end of its call before. */
function settled(id: string): Promise<Program> {
  return eventually(`all of ${id} is settled`, async () => {
    const program = await programOf(id)
    return program.open_calls === 0 && program.budget?.tokens?.reserved === 0 ? program : undefined
  })
}

const ask = (program: string, content: string, max_tokens: number, headers: Record<string, string> = {}) =>
  client.chat.completions
    .create(
      { model: system.dev.model, messages: [{ role: 'user', content }], max_tokens, temperature: 0 },
      { headers: { 'X-Program-Id': program, ...headers } },
    )
    .withResponse()

async function refusalOf(asked: Promise<unknown>): Promise<[number | undefined, string | null | undefined]> {
  const error = await asked.then(
    () => expect.fail('the call was served'),
    (reason: unknown) => reason,
  )
  if (!(error instanceof APIError)) throw error
  return [error.status, error.code]
}

describe('a budget of tokens', () => {
  it('is stated with the first call, cuts the last answer to what is left, and then refuses for good', async () => {
    const program = `tokens-${randomUUID()}`
    const headers = { 'X-Program-Budget': 'tokens=120' }
    const first = await ask(program, 'Name a colour.', 10, headers)
    expect(first.response.headers.get('x-program-budget-left')).toMatch(/^tokens=\d+$/)
    const { budget } = await settled(program)
    const left = 120 - (budget?.tokens?.used ?? 0)
    expect(budget?.tokens?.used).toBe(first.data.usage?.total_tokens)
    const second = await ask(program, 'Tell me a very long story about the sea.', 500, headers)
    expect(second.data.choices[0]?.finish_reason).toBe('length')
    expect(second.data.usage?.total_tokens).toBe(left)
    expect((await settled(program)).budget?.tokens).toEqual({ limit: 120, used: 120, reserved: 0 })
    expect(await refusalOf(ask(program, 'And then?', 10, headers))).toEqual([402, 'program_budget_exceeded'])
  })

  it('holds against many calls at once, streams that are cut, and clients that leave', async () => {
    const program = `crowd-${randomUUID()}`
    const started = await system.fetch('/v1/programs', {
      method: 'POST',
      body: JSON.stringify({ id: program, budget: { tokens: 600 } }),
    })
    expect(started.status).toBe(201)
    const outcomes = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const left = new AbortController()
        try {
          const stream = await client.chat.completions.create(
            {
              ...{ model: system.dev.model, max_tokens: 30, stream: true },
              messages: [{ role: 'user', content: `Say ${index}.` }],
            },
            { headers: { 'X-Program-Id': program }, signal: left.signal },
          )
          let events = 0
          for await (const _chunk of stream) {
            events += 1
            if (index % 3 === 0 && events === 3) left.abort()
          }
          return 'served'
        } catch (error) {
          if (left.signal.aborted) return 'left'
          return error instanceof APIError ? `${error.status} ${error.code}` : `${error}`
        }
      }),
    )
    const kinds = new Set(outcomes)
    expect(outcomes.some((outcome) => outcome === 'served' || outcome === 'left')).toBe(true)
    expect([...kinds].filter((kind) => !KNOWN.has(kind))).toEqual([])
    const { budget, prompt_tokens, output_tokens } = await settled(program)
    expect(budget?.tokens?.used).toBeLessThanOrEqual(600)
    expect(prompt_tokens + output_tokens).toBe(budget?.tokens?.used)
  })

  it('refuses a prompt that it does not cover, and takes a shorter one', async () => {
    const program = `long-${randomUUID()}`
    const headers = { 'X-Program-Budget': 'tokens=60' }
    expect(await refusalOf(ask(program, 'word '.repeat(200), 10, headers))).toEqual([402, 'program_budget_exceeded'])
    const short = await ask(program, 'Hi.', 5, headers)
    expect(short.data.usage?.completion_tokens).toBeGreaterThan(0)
  })
})

const KNOWN = new Set(['served', 'left', '429 program_budget_reserved', '402 program_budget_exceeded'])

it('a budget of calls counts those that were answered', async () => {
  const program = `calls-${randomUUID()}`
  const headers = { 'X-Program-Budget': 'calls=2' }
  for (let i = 0; i < 2; i += 1) {
    await ask(program, 'Hi.', 2, headers)
    await eventually('its record is here', async () =>
      (await programOf(program)).budget?.calls?.used === i + 1 ? true : undefined,
    )
  }
  expect(await refusalOf(ask(program, 'Hi.', 2, headers))).toEqual([402, 'program_budget_exceeded'])
})

it('a budget of money needs a price, counts by it, and cuts the output to what is left', async () => {
  const { url, adminKey, model } = system.dev
  const program = `cost-${randomUUID()}`
  const headers = { 'X-Program-Budget': 'cost=0.0001' }
  expect(await refusalOf(ask(program, 'Hi.', 2, headers))).toEqual([400, 'model_without_price'])
  const priced = await fetch(`${url}/admin/v1/models/${encodeURIComponent(model)}`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ prompt_price: 1, cached_prompt_price: 1, output_price: 2 }),
  })
  expect(priced.status).toBe(200)
  // Isolates keep the catalogue for some seconds.
  const { data } = await eventually('the price holds', () =>
    ask(program, 'Tell me a very long story about the sea.', 500, headers).catch(() => undefined),
  )
  const { prompt_tokens = 0, completion_tokens = 0 } = data.usage ?? {}
  expect(data.choices[0]?.finish_reason).toBe('length')
  // 100 millionths; a token of the prompt costs one, of output two.
  expect(completion_tokens).toBe(Math.floor((100 - prompt_tokens) / 2))
  const cost = await eventually('its record is here', async () => {
    const { budget } = (await programOf(program)) as { budget: { cost: Standing | null } | null }
    return budget?.cost?.reserved === 0 ? budget.cost.used : undefined
  })
  expect(cost).toBeCloseTo((prompt_tokens + 2 * completion_tokens) / 1e6, 12)
})

it('a deadline ends a stream that is open, and refuses the next call', async () => {
  const program = `deadline-${randomUUID()}`
  const headers = { 'X-Program-Id': program, 'X-Program-Budget': 'deadline_s=3' }
  const stream = await client.chat.completions.create(
    {
      ...{ model: system.dev.model, max_tokens: 1_500, stream: true, ...{ ignore_eos: true } },
      messages: [{ role: 'user', content: 'Count to a million.' }],
    },
    { headers },
  )
  const read = async () => {
    for await (const _chunk of stream);
  }
  expect((await refusalOf(read()))[1]).toBe('program_deadline_exceeded')
  expect(await refusalOf(ask(program, 'Hi.', 2))).toEqual([402, 'program_deadline_exceeded'])
})

it('a call without a program can have a budget of its own', async () => {
  const { data } = await client.chat.completions
    .create(
      { model: system.dev.model, messages: [{ role: 'user', content: 'Tell me a long story.' }], max_tokens: 500 },
      { headers: { 'X-Program-Budget': 'tokens=60', 'X-Switchyard-Inference': 'off' } },
    )
    .withResponse()
  expect(data.usage?.total_tokens).toBeLessThanOrEqual(60)
})

it.each([
  ['X-Program-Budget', 'steps=3'],
  ['X-Program-Budget', 'tokens=none'],
])('refuses %s: %s', async (name, value) => {
  expect(await refusalOf(ask(`bad-${randomUUID()}`, 'Hi.', 2, { [name]: value }))).toEqual([400, 'invalid_value'])
})
