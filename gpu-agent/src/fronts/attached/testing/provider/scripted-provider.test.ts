/** The provider that limits are tested against: does it refuse, count and tell as providers do? */
import { describe, expect, it, onTestFinished } from 'vitest'
import { ProviderAccount } from '../../../../../engine/queue/limits/provider-account.ts'
import type { Json } from '../json-http.ts'
import { limitHeaders } from './provider-headers.ts'
import { type ProviderOptions, ScriptedProvider } from './scripted-provider.ts'

const ONE = { requests: 1, input: 0, output: 0 }
const A_MINUTE = { quantity: 'requests', amount: 60, per_s: 60 } as const
const FAST = { ttft_s: 0, words_per_s: 1e6 }

async function started(options: Partial<ProviderOptions>): Promise<ScriptedProvider> {
  const provider = await new ScriptedProvider({ ...FAST, ...options }).listen()
  onTestFinished(() => provider.close())
  return provider
}

function post(provider: ScriptedProvider, body: Json = {}, headers = {}, path = '/v1/chat/completions') {
  const messages = [{ role: 'user', content: 'Hi' }]
  return fetch(provider.url + path, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model: 'hosted', messages, max_tokens: 4, ...body }),
  })
}

describe('the limits of a provider', () => {
  it('a bucket starts full and is refilled evenly', () => {
    const account = new ProviderAccount([A_MINUTE], 'bucket')
    for (let call = 0; call < 60; call++) expect(account.admit(ONE, 0).ok).toBe(true)
    expect(account.admit(ONE, 0)).toMatchObject({ ok: false, retry_after_s: 1 })
    expect(account.admit(ONE, 1).ok).toBe(true)
    expect(account.admit(ONE, 1).ok).toBe(false)
    expect(account.states(1)[0]).toMatchObject({ remaining: 0, reset_s: 60 })
  })

  it('a fixed window is empty again at its end, and not before', () => {
    const account = new ProviderAccount([A_MINUTE], 'window')
    for (let call = 0; call < 60; call++) expect(account.admit(ONE, 50).ok).toBe(true)
    expect(account.admit(ONE, 59)).toMatchObject({ ok: false, retry_after_s: 1 })
    expect(account.admit(ONE, 60).ok).toBe(true)
    expect(account.states(60)[0]).toMatchObject({ remaining: 59, reset_s: 60 })
  })

  it('a call that one limit refuses takes nothing from the others', () => {
    const limits = [A_MINUTE, { quantity: 'tokens', amount: 100, per_s: 60 }] as const
    const account = new ProviderAccount(limits, 'bucket')
    expect(account.admit({ requests: 1, input: 80, output: 30 }, 0)).toMatchObject({ ok: false, limit: limits[1] })
    expect(account.taken).toEqual({ requests: 0, input: 0, output: 0, tokens: 0 })
  })
})

describe('headers', () => {
  const states = [{ ...A_MINUTE, remaining: 59, reset_s: 61.5 }]
  const clock = { real_s: (span_s: number) => span_s, wall_ms: Date.UTC(2026, 0, 1) }

  it('of each provider', () => {
    expect(limitHeaders('openai', states, clock)).toEqual({
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': '59',
      'x-ratelimit-reset-requests': '1m1.5s',
    })
    expect(limitHeaders('anthropic', states, clock)).toEqual({
      'anthropic-ratelimit-requests-limit': '60',
      'anthropic-ratelimit-requests-remaining': '59',
      'anthropic-ratelimit-requests-reset': '2026-01-01T00:01:01.500Z',
    })
    expect(limitHeaders('minus-one', states, clock)).toMatchObject({ 'x-ratelimit-remaining-requests': '-1' })
  })
})

describe('a scripted provider', () => {
  it('answers both APIs, in one piece and as streams', async () => {
    const provider = await started({})
    const chat = (await (await post(provider)).json()) as Json
    expect(chat).toMatchObject({ object: 'chat.completion', usage: { completion_tokens: 4 } })
    const stream = await (await post(provider, { stream: true, stream_options: { include_usage: true } })).text()
    expect(stream).toContain('"total_tokens":')
    expect(stream.endsWith('data: [DONE]\n\n')).toBe(true)
    const message = await (await post(provider, { stream: true }, {}, '/v1/messages')).text()
    expect(message).toMatch(/^event: message_start\n/)
    expect(message).toMatch(/event: message_delta\ndata: .*"output_tokens":4/)
  })

  it('refuses what a limit has no room for, and says until when', async () => {
    const provider = await started({ limits: [{ quantity: 'requests', amount: 2, per_s: 60 }] })
    expect((await post(provider)).headers.get('x-ratelimit-remaining-requests')).toBe('1')
    await post(provider)
    const refused = await post(provider)
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(25)
    expect(await refused.text()).toContain('requests per min (RPM): Limit 2, Used 2, Requested')
    expect(provider.calls.map(({ status }) => status)).toEqual([200, 200, 429])
  })

  it('keys have accounts of their own, and another key is refused', async () => {
    const limits = [{ quantity: 'requests', amount: 1, per_s: 60 }] as const
    const provider = await started({ limits, keys: ['one', 'two'] })
    const as = async (key: string): Promise<number> => (await post(provider, {}, { 'x-api-key': key })).status
    expect([await as('one'), await as('one'), await as('two'), await as('three')]).toEqual([200, 429, 200, 401])
  })

  it('a provider that counts what is used gives cached prompts for nothing', async () => {
    const provider = await started({
      ...{ counts: 'used', limits: [{ quantity: 'input', amount: 1e6, per_s: 60 }], cache_min_tokens: 128 },
    })
    const messages = [{ role: 'user', content: 'x'.repeat(4096) }]
    await post(provider, { messages })
    const first = provider.account().taken.input
    await post(provider, { messages })
    expect(provider.calls[1]?.cached_tokens).toBe(1024)
    expect(provider.account().taken.input - first).toBe(first - 1024)
  })

  it('equal seeds have equal faults, and a scaled clock passes faster', async () => {
    const faults = { refused: 0.3, overloaded: 0.3 }
    const statuses = async (): Promise<number[]> => {
      const provider = await started({ seed: 7, faults, time_scale: 100 })
      for (let call = 0; call < 12; call++) await post(provider)
      return provider.calls.map(({ status }) => status)
    }
    const first = await statuses()
    expect(new Set(first)).toEqual(new Set([200, 429, 529]))
    expect(await statuses()).toEqual(first)
    const scaled = await started({ limits: [A_MINUTE], time_scale: 100 })
    for (let call = 0; call < 60; call++) await post(scaled)
    await expect.poll(async () => (await post(scaled)).status).toBe(200)
  })

  it('breaks a stream off, and leaves usage out', async () => {
    const broken = await started({ faults: { breaks: 1 } })
    await expect(post(broken, { stream: true }).then((response) => response.text())).rejects.toThrow()
    const silent = await started({ faults: { without_usage: 1 } })
    expect(await (await post(silent)).json()).not.toHaveProperty('usage')
  })
})
