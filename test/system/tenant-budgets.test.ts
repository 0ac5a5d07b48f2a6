/** 200 calls at once over every API and a batch, under one tenant's budget, with a real model: what was spent never exceeds it. */
import { randomUUID } from 'node:crypto'
import OpenAI, { APIError, toFile } from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { eventually, System } from './support/system.ts'

const LIMIT_TOKENS = 2_400
const CALLS = 200
const LINES = 20

let system: System
beforeAll(async () => {
  system = await System.start({ engine: 'embedded' })
})
afterAll(async () => {
  await system.remove()
})

const Made = z.object({ key: z.string(), id: z.string() })
const Spent = z.object({
  data: z.array(z.object({ calls: z.number(), prompt_tokens: z.number(), output_tokens: z.number() })),
})

async function admin(method: string, path: string, body: unknown): Promise<unknown> {
  const response = await fetch(`${system.dev.url}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${system.dev.adminKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(response.status).toBeLessThan(300)
  return response.json()
}

const KNOWN = [
  ...['served', 'cut', '402 tenant_budget_exceeded', '429 tenant_budget_reserved', '429 too_many_open_calls'],
  ...['402 null', '429 null', '503 budget_unknown'],
]

it('holds over every API, streams that are cut, and a batch', async () => {
  const { url, model } = system.dev
  const tenant = `limited-${randomUUID().slice(0, 8)}`
  await admin('POST', '/tenants', { id: tenant, name: tenant, budget: { day: { tokens: LIMIT_TOKENS } } })
  const { key } = Made.parse(await admin('POST', `/tenants/${tenant}/keys`, {}))
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 })
  const spent = async () => {
    const response = await fetch(`${url}/v1/spend`, { headers: { authorization: `Bearer ${key}` } })
    const [sum = { calls: 0, prompt_tokens: 0, output_tokens: 0 }] = Spent.parse(await response.json()).data
    return { calls: sum.calls, tokens: sum.prompt_tokens + sum.output_tokens }
  }
  const messages = [{ role: 'user' as const, content: 'Tell me about the sea.' }]
  const apis: ((at: number) => Promise<unknown>)[] = [
    (at) =>
      client.chat.completions.create(
        { model, messages, max_tokens: 40 },
        { headers: { 'X-Program-Id': `p-${at % 5}` } },
      ),
    () => client.completions.create({ model, prompt: 'The sea is', max_tokens: 40 }),
    () => client.responses.create({ model, input: 'Tell me about the sea.', max_output_tokens: 40, store: false }),
    () => client.post('/messages', { body: { model, messages, max_tokens: 40 } }),
    async () => {
      const stream = await client.chat.completions.create({ model, messages, max_tokens: 40, stream: true })
      for await (const _chunk of stream) return 'cut'
      return 'cut'
    },
  ]
  const line = (at: number) =>
    JSON.stringify({
      custom_id: `l-${at}`,
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model, messages, max_tokens: 20 },
    })
  const lines = Array.from({ length: LINES }, (_, at) => line(at)).join('\n')
  const input = await client.files.create({ file: await toFile(Buffer.from(lines), 'lines.jsonl'), purpose: 'batch' })
  const batch = await client.batches.create({
    ...{ input_file_id: input.id, endpoint: '/v1/chat/completions', completion_window: '24h' },
  })
  const ends = await Promise.all(
    Array.from({ length: CALLS }, async (_, at) => {
      try {
        return (await apis[at % apis.length]?.(at)) === 'cut' ? 'cut' : 'served'
      } catch (error) {
        if (!(error instanceof APIError)) throw error
        return `${error.status} ${error.code ?? null}`
      }
    }),
  )
  expect(ends.filter((end) => !KNOWN.includes(end))).toEqual([])
  expect(ends.filter((end) => end === 'served').length).toBeGreaterThan(10)
  // Clients that go on until nothing is left.
  await eventually(
    'the budget is used up',
    async () => {
      expect((await spent()).tokens).toBeLessThanOrEqual(LIMIT_TOKENS)
      const end = await client.chat.completions.create({ model, messages, max_tokens: 400 }).then(
        () => 'served',
        (error: APIError) => error.code,
      )
      return end === 'tenant_budget_exceeded' ? true : undefined
    },
    240_000,
  )
  await eventually('the batch has ended', async () =>
    (await client.batches.retrieve(batch.id)).status === 'completed' ? true : undefined,
  )
  const total = await spent()
  expect(total.tokens).toBeLessThanOrEqual(LIMIT_TOKENS)
  expect(total.tokens).toBeGreaterThan(0.9 * LIMIT_TOKENS)
})
