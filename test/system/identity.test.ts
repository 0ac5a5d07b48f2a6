/** Coding agents’ calls against the running system: whose program they are, and what their prompts cost the second time. */
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AGENT_REQUESTS } from '../../src/core/testing/agent-requests.ts'
import { eventually, System } from './support/system.ts'

let system: System

beforeAll(async () => {
  system = await System.start({ engine: 'embedded' })
})
afterAll(async () => {
  await system.remove()
})

const ask = (
  headers: Readonly<Record<string, string>>,
  messages: OpenAI.ChatCompletionMessageParam[],
  max_tokens = 1,
) =>
  system
    .client({ headers: { ...headers } })
    .chat.completions.create({ model: system.dev.model, messages, max_tokens, temperature: 0 })

describe('the headers of coding agents', () => {
  it('make the calls of an agent and its sub-agents one program, and each sub-agent a thread of it', async () => {
    const programs = Map.groupBy(AGENT_REQUESTS, ({ program }) => program)
    for (const { headers, program } of AGENT_REQUESTS) {
      const { response } = await system
        .client({ headers: { ...headers } })
        .chat.completions.create({
          model: system.dev.model,
          messages: [{ role: 'user', content: 'Hi' }],
          max_tokens: 1,
        })
        .withResponse()
      expect(response.headers.get('x-program-id')).toBe(program)
    }
    for (const [program, requests] of programs) {
      const calls = await eventually(`the calls of ${program}`, async () => {
        const page = await system.fetch(`/v1/programs/${encodeURIComponent(program)}/calls?limit=100`)
        const { data } = (await page.json()) as { data?: { thread: string }[] }
        return data?.length === requests.length ? data : undefined
      })
      const threads = requests.flatMap(({ thread }) => thread ?? [])
      expect(calls.map(({ thread }) => thread)).toEqual(expect.arrayContaining(threads))
      expect(new Set(calls.map(({ thread }) => thread)).size).toBe(new Set(requests.map(({ thread }) => thread)).size)
    }
  })
})

describe('a nonce at the head of the prompt', () => {
  const RULES = Array.from({ length: 40 }, (_, rule) => `Rule ${rule}: be brief and name the file.`).join('\n')
  const head = (cch: string) => `x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=${cch};`
  const messages = (cch: string): OpenAI.ChatCompletionMessageParam[] => [
    { role: 'system', content: `${head(cch)}\nYou are a coding agent.\n${RULES}` },
    { role: 'user', content: 'Which rule is first?' },
  ]

  async function secondCall(headers: Record<string, string>) {
    await ask(headers, messages('36ee5'))
    const { usage } = await ask(headers, messages('0aaa9'))
    const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0
    return { cached, prompt: usage?.prompt_tokens ?? 0 }
  }

  it('does not keep the engine from finding the rest of it in its cache', async () => {
    const { cached, prompt } = await secondCall({ 'X-Program-Id': 'nonce-stripped' })
    expect(prompt).toBeGreaterThan(300)
    expect(cached).toBeGreaterThan(0.9 * prompt)
  })

  it('does where the client keeps it', async () => {
    const { cached, prompt } = await secondCall({ 'X-Program-Id': 'nonce-kept', 'X-Prompt-Head': 'keep' })
    expect(cached).toBeLessThan(0.5 * prompt)
  })
})

/** The SDK sends the header only where it is told to, and retries 409 by itself, after Retry-After. */
describe('a client’s retries under an Idempotency-Key', () => {
  const request = (content = 'Name a colour.', max_tokens = 8) => ({
    model: system.dev.model,
    messages: [{ role: 'user' as const, content }],
    max_tokens,
    temperature: 0,
  })
  const callsOf = async (program: string) => {
    const page = await system.fetch(`/v1/programs/${program}/calls`)
    return ((await page.json()) as { data?: { outcome: string | null }[] }).data ?? []
  }
  const client = (program: string) => system.client({ headers: { 'X-Program-Id': program } })
  const key = (name: string) => ({ headers: { 'Idempotency-Key': name } })

  it('are one call: side by side the second gets the first’s answer', async () => {
    const ask = (maxRetries: number) =>
      client('retry-at-once')
        .chat.completions.create(request('Write a story about the sea.', 64), { ...key('story'), maxRetries })
        .withResponse()
    const [one, other] = await Promise.all([ask(30), ask(30)])
    expect(other.data).toEqual(one.data)
    const replayed = [one, other].filter(({ response }) => response.headers.get('idempotent-replayed') === 'true')
    expect(replayed).toHaveLength(1)
    expect(other.response.headers.get('x-call-id')).toBe(one.response.headers.get('x-call-id'))
    expect(await callsOf('retry-at-once')).toHaveLength(1)
  })

  it('are one call after the control plane has forgotten all it had in memory', async () => {
    const ask = () => client('retry-later').chat.completions.create(request(), key('colour'))
    const first = await ask()
    await system.down()
    await system.up()
    expect(await ask()).toEqual(first)
    expect(await callsOf('retry-later')).toHaveLength(1)
  })

  it('of a stream that was read to its end are told so, and the SDK gives up at once', async () => {
    const ask = () =>
      client('retry-stream').chat.completions.create(
        { ...request(), stream: true },
        { ...key('stream'), maxRetries: 5 },
      )
    for await (const _ of await ask());
    const refused = await eventually('the key to be settled', async () => {
      const error = (await ask().catch((thrown: unknown) => thrown)) as { status?: number; code?: string }
      return error.code === 'idempotency_answer_not_kept' ? error : undefined
    })
    expect(refused.status).toBe(409)
    expect(await callsOf('retry-stream')).toHaveLength(1)
  })

  it('with another body are refused', async () => {
    await client('retry-other').chat.completions.create(request(), key('other'))
    const other = client('retry-other').chat.completions.create(request('Name a river.'), key('other'))
    await expect(other).rejects.toMatchObject({ status: 422, code: 'idempotency_key_reused' })
  })

  it('of a client that left in the middle are served', async () => {
    const leaving = new AbortController()
    const stream = await client('retry-left').chat.completions.create(
      { ...request('Count to one hundred.', 200), stream: true },
      { ...key('left'), signal: leaving.signal },
    )
    for await (const _ of stream) break
    leaving.abort()
    const answer = await client('retry-left').chat.completions.create(
      { ...request('Count to one hundred.', 200), stream: true },
      { ...key('left'), maxRetries: 30 },
    )
    let text = ''
    for await (const chunk of answer) text += chunk.choices[0]?.delta.content ?? ''
    expect(text).not.toBe('')
    expect((await callsOf('retry-left')).map(({ outcome }) => outcome)).toContain('cancelled')
  })
})
