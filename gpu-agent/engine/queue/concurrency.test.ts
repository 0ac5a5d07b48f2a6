import { describe, expect, it } from 'vitest'
import { Concurrency, type ConcurrencyConfig, LIMIT_FIRST, WAITING_THERE_MAX } from './concurrency.ts'
import { SeatsServer, type SeatsServerConfig, seeded } from './testing/seats-server.ts'

const LOOK_US = 250_000
const CALL_WORK_US = 500
const LEARNED: ConcurrencyConfig = { seats: null, server_seats: null }
const SERVERS: SeatsServerConfig[] = [
  { seats: 1, base_us: 20_000, call_us: 1000 },
  { seats: 4, base_us: 20_000, call_us: 3000 },
  { seats: 16, base_us: 15_000, call_us: 1500 },
  { seats: 64, base_us: 15_000, call_us: 300 },
]

interface Played {
  /** Tokens a second after the first minute. */
  tokens_per_s: number
  limits: number[]
  /** When each look was. */
  at_s: number[]
}

/** Calls wait all the time. `limit`: fixed, in place of the controller. */
function play(
  server: SeatsServer,
  how: { reports: boolean; seconds: number; seed: number; limit?: number; at?: (now_s: number) => void },
): Played {
  const random = seeded(how.seed)
  const control = new Concurrency(LEARNED)
  const played: Played = { tokens_per_s: 0, limits: [], at_s: [] }
  let [looked_us, tokens_looked, tokens_minute] = [0, 0, 0]
  while (server.now_us < how.seconds * 1e6) {
    while (server.sent < (how.limit ?? control.limit)) {
      server.send(5000 + random() * 40_000, 10 + Math.floor(random() * 60))
    }
    server.step()
    if (server.now_us < 60e6) tokens_minute = server.tokens
    if (server.now_us - looked_us < LOOK_US) continue
    how.at?.(server.now_us / 1e6)
    looked_us = server.now_us
    control.look({
      ...{ now_us: server.now_us, sent: server.sent, unanswered: server.unanswered, waiting: 100 },
      waiting_there: how.reports ? server.waiting : null,
      work_us: (server.tokens - tokens_looked) * CALL_WORK_US,
      ttft_us: server.ttft_us.splice(0),
    })
    tokens_looked = server.tokens
    played.limits.push(control.limit)
    played.at_s.push(server.now_us / 1e6)
  }
  played.tokens_per_s = (server.tokens - tokens_minute) / (how.seconds - 60)
  return played
}

describe.each(SERVERS)('a server of $seats seats', (config) => {
  const best = Math.max(
    ...[1, 1.5, 2].map((factor) => {
      const limit = Math.ceil(config.seats * factor)
      return play(new SeatsServer(config), { reports: true, seconds: 180, seed: 7, limit }).tokens_per_s
    }),
  )

  it.each([1, 2, 3])('that reports its queue is full, with one or two that wait there (seed %i)', (seed) => {
    const { tokens_per_s, limits, at_s } = play(new SeatsServer(config), { reports: true, seconds: 240, seed })
    expect(tokens_per_s / best).toBeGreaterThanOrEqual(0.98)
    const settled = limits.filter((_, index) => (at_s[index] ?? 0) > 60)
    expect(Math.max(...settled)).toBeLessThanOrEqual(config.seats + WAITING_THERE_MAX + Math.ceil(config.seats / 4))
    expect(changes(settled), 'it does not swing').toBeLessThan(40)
  })

  it.each([1, 2, 3])('that reports nothing is found within a minute, and held (seed %i)', (seed) => {
    const { tokens_per_s, limits, at_s } = play(new SeatsServer(config), { reports: false, seconds: 300, seed })
    const settled = limits.filter((_, index) => (at_s[index] ?? 0) > 60)
    const middle = settled.toSorted((a, b) => a - b)[settled.length >> 1] ?? 0
    expect(middle).toBeLessThanOrEqual(Math.max(2, config.seats * 1.6))
    expect(tokens_per_s / best).toBeGreaterThanOrEqual(0.98)
    expect(changes(settled), 'it does not swing').toBeLessThan(25)
  })
})

it.each([true, false])('a server that loses and wins seats is followed (reports: %s)', (reports) => {
  const server = new SeatsServer({ seats: 16, base_us: 15_000, call_us: 1500 })
  const { limits, at_s } = play(server, {
    ...{ reports, seconds: 500, seed: 5 },
    at: (now_s) => {
      if (now_s > 100) server.seats = 4
      if (now_s > 250) server.seats = 24
    },
  })
  const at = (from_s: number, to_s: number): number => {
    const part = limits.filter((_, index) => (at_s[index] ?? 0) > from_s && (at_s[index] ?? 0) < to_s)
    return part.toSorted((a, b) => a - b)[part.length >> 1] ?? 0
  }
  expect(at(170, 250)).toBeLessThanOrEqual(8)
  expect(at(400, 500)).toBeGreaterThanOrEqual(20)
})

it('a burst before a server with room is let through within seconds', () => {
  const control = new Concurrency(LEARNED)
  let waiting = 60
  for (let look = 1; look <= 12; look++) {
    const now_us = look * LOOK_US
    const sent = control.limit
    control.look({ now_us, sent, unanswered: 0, waiting, waiting_there: null, work_us: 1000, ttft_us: [] })
    waiting = Math.max(0, 64 - control.limit)
  }
  expect(control.limit).toBe(64)
})

it('a server that is full is seen to be so although no more calls wait here', () => {
  const control = new Concurrency(LEARNED)
  const idle = { waiting_there: null, work_us: 1000, ttft_us: [] }
  for (let look = 1; look <= 4; look++) {
    control.look({ ...idle, now_us: look * LOOK_US, sent: control.limit, unanswered: 0, waiting: 9 })
  }
  expect(control.limit).toBeGreaterThan(12)
  for (let look = 5; look <= 20; look++) {
    control.look({ ...idle, now_us: look * LOOK_US, sent: 12, unanswered: 4, waiting: 0 })
  }
  expect(control.limit).toBe(9)
})

it('nothing is learned of seats that the operator or the server names', () => {
  expect(new Concurrency({ seats: 7, server_seats: 3 }).limit).toBe(7)
  expect(new Concurrency({ seats: null, server_seats: 3 }).limit).toBe(4)
  expect(new Concurrency(LEARNED).limit).toBe(LIMIT_FIRST)
})

it('a server whose memory is full has fewer than it names, and never more', () => {
  const control = new Concurrency({ seats: null, server_seats: 48 })
  const look = { unanswered: 10, waiting: 50, work_us: 10, ttft_us: [] }
  const play = (from: number, waiting_there: number): void => {
    for (let index = from; index < from + 400; index++) {
      control.look({ ...look, now_us: index * LOOK_US, sent: control.limit, waiting_there })
    }
  }
  control.look({ ...look, now_us: 0, sent: 49, waiting_there: 9 })
  expect(control.limit).toBe(41)
  play(1, 0)
  expect(control.limit).toBe(49)
})

it('a server that answers in one piece is not taken for one that is full', () => {
  const control = new Concurrency(LEARNED)
  for (let look = 0; look < 240; look++) {
    const [sent, unanswered] = [control.limit, control.limit]
    const load = { now_us: look * LOOK_US, sent, unanswered, waiting: 9, waiting_there: null, ttft_us: [] }
    control.look({ ...load, work_us: Math.min(8, sent) * 1000 })
  }
  expect(control.limit).toBeGreaterThanOrEqual(8)
  expect(control.limit).toBeLessThanOrEqual(10)
})

it('what other clients have waiting there does not end ours', () => {
  const control = new Concurrency(LEARNED)
  for (let look = 1; look < 40; look++) {
    const now_us = look * LOOK_US
    control.look({ now_us, sent: 4, unanswered: 1, waiting: 5, waiting_there: 500, work_us: 10, ttft_us: [] })
  }
  expect(control.limit).toBe(LIMIT_FIRST)
})

function changes(limits: readonly number[]): number {
  return limits.filter((limit, index) => index > 0 && limit !== limits[index - 1]).length
}
