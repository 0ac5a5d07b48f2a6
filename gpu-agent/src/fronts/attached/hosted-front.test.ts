/** The front of a hosted API with rate limits, over real HTTP: what clients see of limits, refusals and faults, and where the key is. */
import { describe, expect, it, onTestFinished } from 'vitest'
import type { LimitSpec } from '../../../engine/queue/limits/limit-spec.ts'
import { SharedServer } from './shared-server.ts'
import { type AttachedFront, attachFront } from './testing/attached-front.ts'
import { type ProviderOptions, ScriptedProvider } from './testing/provider/scripted-provider.ts'

const KEY = 'sk-secret-7f3a9c'
/** A minute of the provider lasts 2 s. */
const SCALE = 30
const MINUTE_US = 60_000_000 / SCALE
const A_MINUTE = { quantity: 'requests', amount: 5, per_s: 60 } as const
const usage = { stream_options: { include_usage: true } }

async function hosted(options: Partial<ProviderOptions>): Promise<ScriptedProvider> {
  const provider = await new ScriptedProvider({
    ...{ keys: [KEY], time_scale: SCALE, ttft_s: 1, words_per_s: 1000 },
    ...options,
  }).listen()
  onTestFinished(() => provider.close())
  return provider
}

function attached(provider: ScriptedProvider, limits: readonly LimitSpec[] = []): Promise<AttachedFront> {
  const server = { model: 'hosted', api_key: KEY, key_variable: 'HOSTED_KEY', limits }
  return attachFront(provider.url, {}, server)
}

async function ends(front: AttachedFront, calls: number, body = {}) {
  const sinks = Array.from({ length: calls }, () => front.serve({ max_tokens: 4, ...usage, ...body }).sink)
  await Promise.all(sinks.map((sink) => sink.over))
  return sinks
}

const statuses = (provider: ScriptedProvider): number[] => provider.calls.map(({ status }) => status)
const refusals = (provider: ScriptedProvider): number => statuses(provider).filter((status) => status === 429).length

describe('limits of each model', () => {
  it('hold for that model alone, and calls of another do not wait for them', async () => {
    const provider = await hosted({ models: ['one', 'two'], headers: 'none' })
    const shared = new SharedServer()
    const limits = [{ quantity: 'requests' as const, amount: 1, window_us: 600e6, model: 'one' }]
    const of = (model: string) => {
      const server = { model, api_key: KEY, key_variable: 'HOSTED_KEY', limits, limits_per: 'model' as const }
      return attachFront(provider.url, { id: `agent-${model}`, model_id: model }, server, shared)
    }
    const [one, two] = [await of('one'), await of('two')]
    const [first, waits] = [one.serve({ max_tokens: 2 }), one.serve({ max_tokens: 2 })]
    await Promise.all([first.sink.over, ...(await ends(two, 5)).map((sink) => sink.over)])
    expect(provider.calls.map(({ body }) => body.model).toSorted()).toEqual(['one', ...Array(5).fill('two')])
    one.front.cancel(waits.lease, null)
    await waits.sink.over
    expect(provider.calls).toHaveLength(6)
  })
})

describe('limits on requests', () => {
  it.each(['bucket', 'window'] as const)('by flag: a %s refuses nothing, and every call is served', async (shape) => {
    const provider = await hosted({ limits: [A_MINUTE], shape, headers: 'none' })
    const front = await attached(provider, [{ quantity: 'requests', amount: 5, window_us: MINUTE_US }])
    const sinks = await ends(front, 14)
    expect(sinks.map(({ end }) => end?.outcome)).toEqual(Array.from({ length: 14 }, () => 'completed'))
    expect(statuses(provider)).toEqual(Array.from({ length: 14 }, () => 200))
  })

  it('are learned from answers and told once, with how the provider counts', async () => {
    const limits = [{ ...A_MINUTE, amount: 600 }]
    const provider = await hosted({ limits, time_scale: 1, ttft_s: 0 })
    const front = await attached(provider)
    await ends(front, 6)
    const known = front.events.filter(({ event }) => event === 'limits_known')
    expect(known).toHaveLength(1)
    expect(known[0]).toMatchObject({ server: provider.url, limits: ['600 requests per minute'], counting: 'reserved' })
  })

  it('refusals that say when are waited for, and clients notice nothing', async () => {
    const provider = await hosted({ limits: [{ ...A_MINUTE, per_s: 1 }], time_scale: 1, ttft_s: 0, headers: 'none' })
    const front = await attached(provider)
    const sinks = await ends(front, 14)
    expect(sinks.map(({ end }) => end?.outcome)).toEqual(Array.from({ length: 14 }, () => 'completed'))
    expect(sinks.every(({ text }) => text === 'word word word word ')).toBe(true)
    expect(refusals(provider)).toBeGreaterThan(0)
    expect(refusals(provider)).toBeLessThan(20)
  })

  it('a day that is used up is said at once, with when it ends', async () => {
    const provider = await hosted({
      limits: [{ quantity: 'requests', amount: 2, per_s: 86_400 * SCALE }],
      shape: 'window',
    })
    const front = await attached(provider)
    const sinks = await ends(front, 5)
    const served = sinks.filter(({ end }) => end?.outcome === 'completed')
    const refused = sinks.flatMap(({ error }) => (error === null ? [] : [error]))
    expect([served.length, refused.length]).toEqual([2, 3])
    for (const error of refused) {
      expect(error).toMatchObject({ status: 429, retryable: true, error: { code: 'provider_quota_exhausted' } })
      expect(error.error.message).toMatch(/limit of 2 requests per day is used up: it has room again in (23|24) h/)
      expect(error.retry_after_s).toBeGreaterThan(80_000)
    }
    expect(statuses(provider).length, 'no retries').toBeLessThanOrEqual(5)
  })
})

describe('limits on tokens', () => {
  it('calls are held to what they may take, and what they did not take is given back', async () => {
    const limits = [{ quantity: 'output', amount: 100, per_s: 60 }] as const
    const provider = await hosted({ limits, counts: 'used', headers: 'anthropic' })
    const front = await attached(provider, [{ quantity: 'output', amount: 100, window_us: MINUTE_US }])
    await ends(front, 12, { max_tokens: 25 })
    expect(provider.account().taken.output + provider.account(KEY).taken.output).toBe(300)
    expect(refusals(provider)).toBe(0)
  })

  it('a call that is larger than a limit is refused by name', async () => {
    const provider = await hosted({})
    const front = await attached(provider, [{ quantity: 'tokens', amount: 50, window_us: MINUTE_US }])
    const [sink] = await ends(front, 1, { messages: [{ role: 'user', content: 'x'.repeat(4000) }] })
    expect(sink?.error).toMatchObject({ status: 400, error: { code: 'call_exceeds_limit' } })
    expect(sink?.error?.error.message).toMatch(/the call needs 1\d{3}, and the provider's limit is 50 tokens per/)
    expect(provider.calls).toEqual([])
  })
})

describe('what a provider does wrong', () => {
  it('overload and refusals by chance cost its clients nothing', async () => {
    const provider = await hosted({
      faults: { overloaded: 0.2, refused: 0.2 },
      seed: 5,
      limits: [{ ...A_MINUTE, amount: 600 }],
    })
    const front = await attached(provider, [{ quantity: 'requests', amount: 600, window_us: MINUTE_US }])
    const sinks = await ends(front, 20)
    expect(sinks.map(({ end }) => end?.outcome)).toEqual(Array.from({ length: 20 }, () => 'completed'))
    expect(new Set(statuses(provider))).toEqual(new Set([200, 429, 529]))
  })

  it('a stream that breaks off is a failed call, and one without usage is counted by its chunks', async () => {
    const broken = await attached(await hosted({ faults: { breaks: 1 } }))
    const [sink] = await ends(broken, 1)
    expect(sink?.end).toMatchObject({ outcome: 'failed', error: { retryable: true } })
    const silent = await attached(await hosted({ faults: { without_usage: 1 } }))
    const [counted] = await ends(silent, 1)
    expect(counted?.end).toMatchObject({ outcome: 'completed', measurement: { output_tokens: 4 } })
  })

  it('a stream that stalls ends with its client', async () => {
    const provider = await hosted({ faults: { stalls: 1 } })
    const front = await attached(provider)
    const { sink, lease } = front.serve({ max_tokens: 4 })
    await expect.poll(() => provider.calls.length).toBe(1)
    front.front.cancel(lease, null)
    expect(await sink.over).toMatchObject({ outcome: 'cancelled' })
  })
})

describe('two agents with one key', () => {
  it('share its limits without a storm of refusals, and are told', async () => {
    const limits = [{ quantity: 'requests', amount: 20, per_s: 2 }] as const
    const provider = await hosted({ limits, time_scale: 1, ttft_s: 0.05, words_per_s: 1000 })
    const own = [{ quantity: 'requests', amount: 20, window_us: 2_000_000 }] as const
    const fronts = [await attached(provider, own), await attached(provider, own)]
    const sinks = fronts.map((front) => Array.from({ length: 60 }, () => front.serve({ max_tokens: 2, ...usage }).sink))
    await expect
      .poll(() => statuses(provider).filter((status) => status === 200).length, { timeout: 30_000 })
      .toBeGreaterThanOrEqual(60)
    const done = sinks.map((of) => of.filter(({ end }) => end !== null).length)
    await Promise.all(sinks.flat().map((sink) => sink.over))
    expect(sinks.flat().every(({ end }) => end?.outcome === 'completed')).toBe(true)
    // The virtual clock of limits/rate-limits.test.ts holds both to their shares. Here a busy machine only has to show no storm.
    expect(Math.min(...done), 'neither starves').toBeGreaterThan(5)
    expect(refusals(provider), 'no storm').toBeLessThan(60)
    expect(fronts.some(({ events }) => events.some(({ event }) => event === 'key_shared'))).toBe(true)
  })
})

describe('the key', () => {
  it('is in nothing that is told, and has a name that two agents share', async () => {
    const limits = [{ ...A_MINUTE, amount: 600 }]
    const provider = await hosted({ limits, time_scale: 1, ttft_s: 0, faults: { refused: 0.2 } })
    const [one, other] = [await attached(provider), await attached(provider)]
    const sinks = [...(await ends(one, 8)), ...(await ends(other, 8))]
    const told =
      JSON.stringify([one, other].map(({ events, reports, rows }) => [events, reports, rows])) + JSON.stringify(sinks)
    expect(told).not.toContain(KEY)
    expect(told).not.toContain(Buffer.from(KEY).toString('base64'))
    const names = [one, other].map(({ events }) =>
      events.flatMap((event) => (event.event === 'limits_known' ? [event.key] : [])).at(0),
    )
    expect(names[0]).toMatch(/^[0-9a-f]{16}$/)
    expect(names[0]).toBe(names[1])
  })
})
