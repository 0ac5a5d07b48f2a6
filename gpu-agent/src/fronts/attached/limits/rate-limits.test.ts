/**
 * The limiter against providers with real limit semantics, on a virtual clock: no refusals, nearly all of the quota, and what wrong
 * headers, refusals and other users of the key do to it.
 */
import { describe, expect, it } from 'vitest'
import { DAY_US, type LimitSpec, MINUTE_US } from '../../../../engine/queue/limits/limit-spec.ts'
import {
  type CallCost,
  ProviderAccount,
  type ProviderLimit as TheirLimit,
} from '../../../../engine/queue/limits/provider-account.ts'
import { RateLimits, type Reservation } from '../../../../engine/queue/limits/rate-limits.ts'
import { seeded } from '../../../../engine/queue/testing/seats-server.ts'
import { limitHeaders } from '../testing/provider/provider-headers.ts'
import { newsOf } from './limit-news.ts'

const STEP_US = 50_000
const REQUESTS: TheirLimit = { quantity: 'requests', amount: 60, per_s: 60 }
const TOKENS: TheirLimit = { quantity: 'tokens', amount: 200_000, per_s: 60 }

type Style = Parameters<typeof limitHeaders>[0]

interface Play {
  limits: readonly TheirLimit[]
  shape: 'bucket' | 'window'
  counts: 'reserved' | 'used'
  style: Style
  /** What the agents are told of the limits by their operators. */
  specs?: readonly LimitSpec[]
  agents?: number
  minutes: number
  seed?: number
  prompt_tokens?: () => number
  /** From a call to its refusal. */
  rtt_us?: number
}

interface Played {
  admitted: number[]
  refused: number[]
  agents: RateLimits[]
  account: ProviderAccount
  /** Of the last half: what the agents got of each limit. */
  share: Record<string, number>
}

interface OpenCall {
  reservation: Reservation
  ends_us: number
  cost: CallCost
  output: number
  headers: Record<string, string>
}

/** Agents with more work than the limits have room for. */
function play({
  limits,
  shape,
  counts,
  style,
  specs = [],
  agents: number = 1,
  minutes,
  seed = 1,
  prompt_tokens,
  rtt_us = 0,
}: Play): Played {
  const random = seeded(seed)
  const account = new ProviderAccount(limits, shape)
  const agents = Array.from({ length: number }, () => new RateLimits(specs))
  const open: OpenCall[][] = agents.map(() => [])
  const on_its_way: { at_us: number; tell: (now_us: number) => void }[] = []
  const later = (at_us: number, tell: (now_us: number) => void) => {
    on_its_way.push({ at_us, tell })
    on_its_way.sort((one, other) => one.at_us - other.at_us)
  }
  const played: Played = { admitted: agents.map(() => 0), refused: agents.map(() => 0), agents, account, share: {} }
  const half_us = (minutes * MINUTE_US) / 2
  let before = { ...account.taken }
  for (let now_us = 0; now_us < minutes * MINUTE_US; now_us += STEP_US) {
    if (now_us === half_us) before = { ...account.taken }
    const now_s = now_us / 1e6
    const told = (): Record<string, string> =>
      limitHeaders(style, account.states(now_s), { real_s: (span_s) => span_s, wall_ms: now_us / 1000 })
    while ((on_its_way[0]?.at_us ?? Number.POSITIVE_INFINITY) <= now_us) on_its_way.shift()?.tell(now_us)
    // None is always the first.
    const turns = [...agents.entries()].sort(() => random() - 0.5)
    for (const [index, agent] of turns) {
      const calls = open[index] as OpenCall[]
      for (const call of calls.filter(({ ends_us }) => ends_us <= now_us)) {
        calls.splice(calls.indexOf(call), 1)
        if (!call.reservation.heard) hear(agent, call.reservation, call.headers, now_us)
        if (counts === 'used') account.take({ requests: 0, input: 0, output: call.output }, now_s)
        agent.ended(call.reservation, { prompt_tokens: call.cost.input, output_tokens: call.output, cached_tokens: 0 })
      }
      for (;;) {
        const size = { prompt_tokens: prompt_tokens?.() ?? 1000, output_tokens_max: 500 }
        if (!agent.known && calls.length >= 4) break
        if (!agent.verdict(size, now_us).fits) break
        const reservation = agent.reserve(size, now_us)
        const cost = { requests: 1, input: size.prompt_tokens, output: counts === 'reserved' ? 500 : 0 }
        const admission = account.admit(cost, now_s)
        if (admission.ok) {
          ;(played.admitted[index] as number) += 1
          const output = 50 + Math.floor(random() * 100)
          const headers = told()
          calls.push({ reservation, cost, output, ends_us: now_us + 2_000_000 + random() * 2_000_000, headers })
          if (rtt_us > 0) later(now_us + rtt_us * (1 + random()), (at_us) => hear(agent, reservation, headers, at_us))
          continue
        }
        ;(played.refused[index] as number) += 1
        const { quantity, per_s } = admission.limit
        const after_us = style === 'none' ? null : admission.retry_after_s * 1e6
        const tell = (at_us: number) =>
          agent.refused(reservation, { quantity, window_us: per_s * 1e6, after_us }, 500_000, at_us)
        if (rtt_us === 0) tell(now_us)
        else later(now_us + rtt_us * (1 + random()), tell)
      }
    }
  }
  for (const { quantity, amount, per_s } of limits) {
    const span_s = (minutes * 60) / 2
    played.share[quantity] = (account.taken[quantity] - before[quantity]) / ((amount * span_s) / per_s)
  }
  return played
}

function hear(agent: RateLimits, reservation: Reservation, headers: Record<string, string>, now_us: number): void {
  const news = newsOf(headers, now_us / 1000)
  agent.heard(reservation, news.limits, news.counting, now_us)
}

const FLAGS: LimitSpec[] = [
  { quantity: 'requests', amount: 60, window_us: MINUTE_US },
  { quantity: 'tokens', amount: 200_000, window_us: MINUTE_US },
]

describe('with limits by flag and without headers', () => {
  it.each(['bucket', 'window'] as const)('a %s never refuses, and nearly all of its requests are used', (shape) => {
    const played = play({
      limits: [REQUESTS, TOKENS],
      shape,
      counts: 'reserved',
      style: 'none',
      specs: FLAGS,
      minutes: 10,
    })
    expect(played.refused).toEqual([0])
    expect(played.share.requests).toBeGreaterThan(0.97)
  })

  it('tokens are the limit: nearly all are used', () => {
    const random = seeded(3)
    const played = play({
      ...{
        limits: [REQUESTS, TOKENS],
        shape: 'bucket',
        counts: 'reserved',
        style: 'openai',
        specs: FLAGS,
        minutes: 10,
      },
      prompt_tokens: () => 4000 + Math.floor(random() * 4000),
    })
    expect(played.refused).toEqual([0])
    expect(played.share.tokens).toBeGreaterThan(0.97)
  })
})

describe('with limits that answers tell', () => {
  it.each([
    ['openai', 'bucket', 'reserved'],
    ['anthropic', 'bucket', 'used'],
    ['openai', 'window', 'reserved'],
  ] as const)('%s, %s: found, used, and hardly refused', (style, shape, counts) => {
    const played = play({ limits: [REQUESTS, TOKENS], shape, counts, style, minutes: 10 })
    const [agent] = played.agents
    expect(agent?.limits.map(({ spec }) => [spec.quantity, spec.amount, spec.window_us])).toEqual([
      ['requests', 60, MINUTE_US],
      ['tokens', 200_000, MINUTE_US],
    ])
    expect(agent?.limits[0]?.isBucket).toBe(shape === 'bucket')
    expect(played.refused[0]).toBeLessThanOrEqual(2)
    expect(played.share.requests).toBeGreaterThan(0.97)
  })

  it('a limit a day of small accounts is told from one a minute by its reset', () => {
    const limits = [{ quantity: 'requests', amount: 1440, per_s: 86_400 } as const]
    const { agents } = play({ limits, shape: 'bucket', counts: 'reserved', style: 'openai', minutes: 1 })
    expect(agents[0]?.limits[0]?.spec).toMatchObject({ amount: 1440, window_us: DAY_US })
  })

  it.each(['minus-one', 'zero'] as const)('wrong headers (%s) stop nothing for long', (style) => {
    const played = play({ limits: [REQUESTS], shape: 'bucket', counts: 'used', style, specs: FLAGS, minutes: 10 })
    expect(played.share.requests).toBeGreaterThan(0.97)
    expect(played.refused[0]).toBeLessThanOrEqual(2)
  })

  it('a header that says 0 is not read any more after two calls went through', () => {
    const { agents } = play({ limits: [REQUESTS], shape: 'bucket', counts: 'used', style: 'zero', minutes: 2 })
    expect(agents[0]?.limits[0]?.distrusted).toBe(true)
  })
})

it('a header that says 0 of a day is not read any more after two calls went through', () => {
  const limits = new RateLimits([{ quantity: 'requests', amount: 1000, window_us: DAY_US }])
  const call = { prompt_tokens: 1, output_tokens_max: 1 }
  const told = { quantity: 'requests', amount: 1000, remaining: 0, window_us: DAY_US, reset_us: null } as const
  let now_us = 0
  for (let served = 0; served < 3; served += 1) {
    const verdict = limits.verdict(call, now_us)
    if (!verdict.fits) {
      now_us += DAY_US / 60
      expect(limits.verdict(call, now_us)).toEqual({ fits: true })
    }
    limits.heard(limits.reserve(call, now_us), [told], null, now_us)
  }
  expect(limits.limits[0]?.distrusted).toBe(true)
})

describe('refusals', () => {
  const answered = (limits: RateLimits, now_us: number) =>
    limits.reserve({ prompt_tokens: 1, output_tokens_max: 1 }, now_us)

  it('without a limit: nothing goes until the provider said so', () => {
    const limits = new RateLimits(FLAGS)
    const why = { quantity: null, window_us: null, after_us: 7_000_000 }
    limits.refused(answered(limits, 0), why, 0, 0)
    expect(limits.requestsNow(6_999_999)).toBe(0)
    expect(limits.requestsNow(7_000_000)).toBe(60)
    expect(limits.verdict({ prompt_tokens: 1, output_tokens_max: 1 }, 0)).toMatchObject({
      fits: false,
      wait_us: 7_000_000,
    })
  })

  it('of a day: the wait is told as it is', () => {
    const limits = new RateLimits([{ quantity: 'requests', amount: 3, window_us: DAY_US }])
    for (let call = 0; call < 3; call++) answered(limits, 0)
    const why = { quantity: 'requests', window_us: DAY_US, after_us: 5 * 3600e6 } as const
    limits.refused(answered(limits, 0), why, 0, 0)
    const verdict = limits.verdict({ prompt_tokens: 1, output_tokens_max: 1 }, 0)
    expect(verdict).toMatchObject({ fits: false, limit: { quantity: 'requests', window_us: DAY_US } })
    expect(verdict).toHaveProperty('wait_us', expect.closeTo(5 * 3600e6, -6))
  })

  it('a prompt that is larger than a limit never fits', () => {
    const limits = new RateLimits(FLAGS)
    const verdict = limits.verdict({ prompt_tokens: 300_000, output_tokens_max: 1 }, 0)
    expect(verdict).toMatchObject({ fits: false, wait_us: Number.POSITIVE_INFINITY, needed: 300_001 })
  })

  it('of many calls at once: they go again as a bucket has room, and not all when the first one has', () => {
    const limits = new RateLimits([{ quantity: 'requests', amount: 20, window_us: 2_000_000 }])
    const sent = Array.from({ length: 20 }, () => answered(limits, 0))
    const why = { quantity: 'requests', window_us: 2_000_000, after_us: 100_000 } as const
    for (const call of sent) limits.refused(call, why, 0, 50_000)
    expect([149_999, 150_000, 270_000].map((now_us) => limits.requestsNow(now_us))).toEqual([0, 1, 2])
  })

  it('of a fixed window: the next one may have a little more than this one had', () => {
    const limits = new RateLimits([{ quantity: 'requests', amount: 50, window_us: 10_000_000 }])
    const sent = Array.from({ length: 50 }, () => answered(limits, 0))
    const why = { quantity: 'requests', window_us: 10_000_000, after_us: 9_000_000 } as const
    for (const call of sent.slice(8)) limits.refused(call, why, 0, 1_000_000)
    // 8, and the 12 % of a limit by which a share grows in a window.
    expect(limits.requestsNow(10_000_000)).toBe(14)
  })

  it('of many calls at once, without a limit: one goes again, and one more for each that is served', () => {
    const limits = new RateLimits()
    const size = { prompt_tokens: 1, output_tokens_max: 1 }
    const sent = Array.from({ length: 30 }, () => answered(limits, 0))
    const why = { quantity: null, window_us: null, after_us: 1_000_000 }
    for (const call of sent.slice(1)) limits.refused(call, why, 0, 0)
    const served = (now_us: number) => {
      const went: Reservation[] = []
      while (went.length < 100 && limits.verdict(size, now_us).fits) went.push(answered(limits, now_us))
      for (const call of went) limits.heard(call, [], null, now_us + 100_000)
      return went.length
    }
    const times_s = [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4]
    expect(times_s.map((now_s) => served(now_s * 1e6))).toEqual([1, 2, 4, 8, 16, 32, 64, 100])
  })

  it('take nothing from a limit', () => {
    const limits = new RateLimits(FLAGS)
    limits.released(answered(limits, 0))
    expect(limits.requestsNow(0)).toBe(60)
  })
})

describe('another user of the key', () => {
  it.each(['bucket', 'window'] as const)('two agents share a %s: hardly refused, and neither starves', (shape) => {
    const played = play({ limits: [REQUESTS], shape, counts: 'reserved', style: 'openai', agents: 2, minutes: 30 })
    const [one = 0, other = 0] = played.admitted
    const refused = played.refused.reduce((sum, times) => sum + times, 0)
    expect(refused / (one + other), 'no storm of refusals').toBeLessThan(0.05)
    expect(one / (one + other)).toBeGreaterThan(0.35)
    expect(one / (one + other)).toBeLessThan(0.65)
    expect(played.share.requests).toBeGreaterThan(0.8)
    expect(played.agents.every(({ limits }) => limits[0]?.others)).toBe(true)
  })

  it.each([
    ['bucket', 'openai', 0.25],
    ['window', 'openai', 0.5],
    ['bucket', 'none', 0.5],
    ['window', 'none', 0.5],
  ] as const)(
    'a %s, headers of %s, whose refusals come when all calls are on their way: no storm, and no header counts as wrong',
    (shape, style, most) => {
      const limits = [{ quantity: 'requests', amount: 20, per_s: 2 } as const]
      const specs: LimitSpec[] = [{ quantity: 'requests', amount: 20, window_us: 2_000_000 }]
      const given = { limits, shape, style, specs, counts: 'reserved', agents: 2, minutes: 1 } as const
      for (const rtt_us of [50_000, 100_000, 200_000, 400_000]) {
        for (const seed of [1, 2, 3, 4]) {
          const { admitted, refused, share, agents } = play({ ...given, seed, rtt_us })
          const [one = 0, other = 0] = admitted
          const [refused_one = 0, refused_other = 0] = refused
          const of = `${rtt_us} us, seed ${seed}`
          expect((refused_one + refused_other) / (one + other), of).toBeLessThan(most)
          expect(Math.min(one, other) / (one + other), of).toBeGreaterThan(0.3)
          expect(share.requests, of).toBeGreaterThan(0.97)
          expect(
            agents.some((agent) => agent.limits[0]?.distrusted),
            of,
          ).toBe(false)
        }
      }
    },
  )

  it.each([
    ['bucket', 'openai', 2, 0.1],
    ['bucket', 'openai', 4, 0.25],
    ['bucket', 'none', 2, 0.3],
    ['bucket', 'none', 4, 1],
    ['window', 'openai', 2, 0.4],
    ['window', 'openai', 4, 1],
    ['window', 'azure', 4, 0.8],
  ] as const)(
    'a %s of a minute, headers of %s, %i agents, refusals after 0.4 s and more: few of all calls',
    (shape, style, agents, most) => {
      const specs = FLAGS.filter(({ quantity }) => quantity === 'requests')
      const given = {
        limits: [REQUESTS],
        shape,
        style,
        specs,
        counts: 'reserved',
        agents,
        minutes: 30,
      } as const
      const { admitted, refused, share } = play({ ...given, rtt_us: 400_000 })
      const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)
      expect(sum(refused) / sum(admitted)).toBeLessThan(most)
      expect(Math.min(...admitted) / sum(admitted)).toBeGreaterThan(0.45 / agents)
      expect(share.requests).toBeGreaterThan(0.97)
    },
  )
})
