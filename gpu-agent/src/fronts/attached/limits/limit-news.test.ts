/** Headers and refusals as providers write them, and as they should not. */
import { describe, expect, it } from 'vitest'
import { DAY_US, MINUTE_US } from '../../../../engine/queue/limits/limit-spec.ts'
import { newsOf, retryAfterUs } from './limit-news.ts'
import { refusalReason } from './refusal-reason.ts'

const WALL_MS = Date.UTC(2026, 0, 1)

describe('headers', () => {
  it('of OpenAI', () => {
    const headers = {
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': '59',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-limit-tokens': '150000',
      'x-ratelimit-remaining-tokens': '149984',
      'x-ratelimit-reset-tokens': '6m0.5s',
    }
    expect(newsOf(headers, WALL_MS)).toEqual({
      counting: 'reserved',
      limits: [
        { quantity: 'requests', amount: 60, remaining: 59, reset_us: 1_000_000, window_us: null },
        { quantity: 'tokens', amount: 150_000, remaining: 149_984, reset_us: 360_500_000, window_us: null },
      ],
    })
  })

  it('of Anthropic, whose instants are read with its own clock', () => {
    const headers = {
      date: new Date(WALL_MS + 3_600_000).toUTCString(),
      'anthropic-ratelimit-input-tokens-limit': '80000',
      'anthropic-ratelimit-input-tokens-remaining': '79000',
      'anthropic-ratelimit-input-tokens-reset': new Date(WALL_MS + 3_630_000).toISOString(),
    }
    expect(newsOf(headers, WALL_MS)).toEqual({
      counting: 'used',
      limits: [{ quantity: 'input', amount: 80_000, remaining: 79_000, reset_us: 30_000_000, window_us: MINUTE_US }],
    })
  })

  it('with the span in their names', () => {
    const headers = { 'x-ratelimit-limit-requests-day': '1000', 'x-ratelimit-remaining-requests-day': '999' }
    expect(newsOf(headers, WALL_MS).limits[0]).toMatchObject({ amount: 1000, remaining: 999, window_us: DAY_US })
  })

  it.each([
    ['-1', '-1', '-1s'],
    ['0', 'many', 'soon'],
    ['1e99', '', '2020-01-01T00:00:00Z'],
    ['99999999999999999', '1.5', '9999999d'],
  ])('that cannot be meant say nothing: limit %s, remaining %s, reset %s', (limit, remaining, reset) => {
    const headers = {
      'x-ratelimit-limit-requests': limit,
      'x-ratelimit-remaining-requests': remaining,
      'x-ratelimit-reset-requests': reset,
    }
    const nothing = { quantity: 'requests', amount: null, remaining: null, reset_us: null, window_us: null }
    expect(newsOf(headers, WALL_MS).limits).toEqual([nothing])
  })

  it.each([
    [{ 'retry-after-ms': '250', 'retry-after': '1' }, 250_000],
    [{ 'retry-after': '7' }, 7_000_000],
    [{ 'retry-after': new Date(WALL_MS + 9000).toUTCString() }, 9_000_000],
    [{ 'retry-after': new Date(WALL_MS - 9000).toUTCString() }, null],
    [{ 'retry-after': '-5' }, null],
    [{ 'retry-after': 'later' }, null],
    [{}, null],
  ])('retry-after: %j', (headers, after_us) => {
    expect(retryAfterUs(headers, WALL_MS)).toBe(after_us)
  })
})

describe('a refusal', () => {
  const refused = (status: number, message: string) =>
    refusalReason({ status, headers: { 'retry-after': '3' }, body: JSON.stringify({ error: { message } }) }, WALL_MS)

  it.each([
    ['Rate limit reached for m on requests per min (RPM): Limit 60, Used 60, Requested 1.', 'requests', MINUTE_US, 60],
    ['Rate limit reached for m on tokens per day (TPD): Limit 1000, Used 990, Requested 50.', 'tokens', DAY_US, 1000],
    ['This request would exceed your limit of 40,000 input tokens per minute.', 'input', MINUTE_US, null],
    ['You have exceeded the RPD quota', 'requests', DAY_US, null],
    ['Slow down', null, null, null],
  ])('%s', (message, quantity, window_us, amount) => {
    expect(refused(429, message)).toEqual({ kind: 'limit', quantity, window_us, amount, after_us: 3_000_000 })
  })

  it('of another kind', () => {
    expect(refused(529, 'Overloaded')).toEqual({ kind: 'busy', after_us: 3_000_000 })
    expect(refused(429, 'Number of concurrent connections has exceeded your limit')).toMatchObject({ kind: 'busy' })
    expect(refused(429, 'You exceeded your current quota, please check your plan')).toEqual({ kind: 'spent' })
    expect(refused(429, 'Request too large for m (TPM): Limit 10, Requested 12')).toEqual({ kind: 'too_large' })
  })
})
