/**
 * The whole system in front of a hosted API, as `npm run up` starts it, driven by the `openai` and `@anthropic-ai/sdk` packages: one
 * with limits and two keys, and one that speaks three APIs.
 */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ScriptedProvider } from '../../gpu-agent/src/fronts/attached/testing/provider/scripted-provider.ts'
import { reconciled } from './support/fleet-calls.ts'
import { System } from './support/system.ts'

const KEYS = ['sk-hosted-one-5b1e', 'sk-hosted-two-c88d']

describe('in front of a hosted API with limits', () => {
  let provider: ScriptedProvider
  let system: System

  beforeAll(async () => {
    provider = await new ScriptedProvider({
      ...{ keys: KEYS, shape: 'window', ttft_s: 0.05, words_per_s: 500, faults: { overloaded: 0.05 } },
      limits: [{ quantity: 'requests', amount: 5, per_s: 1 }],
    }).listen()
    const [HOSTED_ONE, HOSTED_TWO] = KEYS
    Object.assign(process.env, { HOSTED_ONE, HOSTED_TWO })
    const limits = ['--limit', 'requests=5/s,tokens=20k/min']
    const flags = ['--url', `${provider.url}/v1`, '--key-env', 'HOSTED_ONE,HOSTED_TWO', ...limits]
    system = await System.start({ engine: 'openai', flags })
  })
  afterAll(async () => {
    await system?.remove()
    await provider?.close()
  })

  const client = (program: string): OpenAI => system.client({ headers: { 'X-Program-Id': program } })
  const ask = (content: string) => ({
    ...{ model: 'hosted', max_tokens: 4 },
    messages: [{ role: 'user' as const, content }],
  })

  it('clients without retries are all served, by both keys, and every record is its ledger', async () => {
    const programs = Array.from({ length: 30 }, (_, index) => `hosted-${index}`)
    const run = async (program: string): Promise<void> => {
      for (const turn of ['one', 'two']) await client(program).chat.completions.create(ask(`${turn} ${program}`))
    }
    // `up` has made a call itself.
    const before = provider.calls.length
    await Promise.all(programs.map(run))
    const calls = provider.calls.slice(before)
    const served = KEYS.map((key) => calls.filter((call) => call.key === key && call.whole).length)
    expect(served.reduce((sum, of_key) => sum + of_key, 0)).toBe(60)
    expect(Math.min(...served), 'each key has a fair part').toBeGreaterThan(15)
    const refused = calls.filter(({ status }) => status === 429).length
    expect(refused, 'paced, not retried').toBeLessThan(10)
    const found = { agents: system.agents, fetch: system.fetch.bind(system) }
    await reconciled(found, [{ tenant: 'local', apiKey: system.dev.apiKey }], programs)
  })

  it('a call that no limit has room for is refused by name', async () => {
    const call = client('large').chat.completions.create(ask('x'.repeat(200_000)))
    await expect(call).rejects.toMatchObject({
      status: 400,
      code: expect.stringMatching(/call_exceeds_limit|context_length/),
    })
  })

  it('no key is in anything that was written: state, logs, records, errors', () => {
    const files = readdirSync(system.dataDir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
    expect(files.length).toBeGreaterThan(5)
    for (const file of files) {
      const bytes = readFileSync(path.join(file.parentPath, file.name))
      for (const key of KEYS) expect(bytes.includes(key), `${file.name} has a key of the provider`).toBe(false)
    }
    expect(system.agentLog().filter(({ event }) => event === 'limits_known').length).toBeGreaterThanOrEqual(2)
  })
})

describe('in front of a provider that speaks chat, Messages and Responses', () => {
  let provider: ScriptedProvider
  let system: System

  beforeAll(async () => {
    provider = await new ScriptedProvider({
      ...{ apis: ['chat', 'messages', 'responses'], ttft_s: 0.02, words_per_s: 500, cache_min_tokens: 16 },
    }).listen()
    system = await System.start({ engine: 'openai', flags: ['--url', `${provider.url}/v1`] })
  })
  afterAll(async () => {
    await system?.remove()
    await provider?.close()
  })

  const program = (name: string) => ({ 'X-Program-Id': name })
  const anthropic = (): Anthropic =>
    new Anthropic({
      baseURL: system.dev.url,
      apiKey: system.dev.apiKey,
      maxRetries: 0,
      defaultHeaders: program('native'),
    })

  it('is found out, and calls of each API reach it as their clients wrote them', async () => {
    expect(system.agentLog().find(({ event }) => event === 'server_attached')).toMatchObject({
      apis: ['chat', 'messages', 'responses'],
    })
    const before = provider.calls.length
    const marked = {
      type: 'text' as const,
      text: 'Be brief. '.repeat(400),
      cache_control: { type: 'ephemeral' as const },
    }
    const asked = { model: 'hosted', max_tokens: 4, messages: [{ role: 'user' as const, content: 'Hi' }] }
    const message = await anthropic().messages.create({ ...asked, system: [marked] })
    expect(message).toMatchObject({ id: 'msg_1', stop_reason: 'max_tokens', usage: { output_tokens: 4 } })
    const stream = anthropic().messages.stream({ ...asked, system: [marked] })
    expect(await stream.finalText()).toBe('word word word word ')
    const openai = system.client({ headers: program('native') })
    const body = {
      model: 'hosted',
      input: 'Hi',
      max_output_tokens: 4,
      store: false,
      reasoning: { effort: 'low' as const },
    }
    const response = await openai.responses.create(body)
    expect(response).toMatchObject({ id: 'resp_1', status: 'incomplete', output_text: 'word word word word ' })
    expect(response.usage).toMatchObject({ switchyard: { measured: 'outside' } })
    let text = ''
    for await (const event of await openai.responses.create({ ...body, stream: true })) {
      if (event.type === 'response.output_text.delta') text += event.delta
    }
    expect(text).toBe('word word word word ')
    const calls = provider.calls.slice(before)
    expect(calls.map(({ api }) => api)).toEqual(['messages', 'messages', 'responses', 'responses'])
    expect(calls[0]?.body).toMatchObject({ model: 'hosted', system: [marked], max_tokens: 4 })
    expect(calls[2]?.body).toMatchObject({ input: 'Hi', store: false, reasoning: { effort: 'low' } })
  })

  it('a response that is stored is translated, and can be continued', async () => {
    const openai = system.client({ headers: program('stored') })
    const first = await openai.responses.create({ model: 'hosted', input: 'Hi', max_output_tokens: 2 })
    const next = { model: 'hosted', input: 'On', max_output_tokens: 2, previous_response_id: first.id }
    expect(await openai.responses.create(next)).toMatchObject({ previous_response_id: first.id })
    expect(provider.calls.at(-1)?.api).toBe('chat')
  })

  it('every record is its ledger, and cached tokens count as the provider counts them', async () => {
    const found = { agents: system.agents, fetch: system.fetch.bind(system) }
    await reconciled(found, [{ tenant: 'local', apiKey: system.dev.apiKey }], ['native', 'stored'])
    const calls = await system.fetch('/v1/programs/native/calls')
    const { data } = (await calls.json()) as { data: { cached_tokens: number }[] }
    const cached = provider.calls.filter(({ api }) => api === 'messages').map(({ cached_tokens }) => cached_tokens)
    expect(cached[1]).toBeGreaterThan(0)
    expect(data.map(({ cached_tokens }) => cached_tokens)).toEqual(expect.arrayContaining(cached))
  })
})
