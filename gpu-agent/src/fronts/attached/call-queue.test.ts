import { describe, expect, it } from 'vitest'
import { createPolicy, type PolicyName } from '../../../engine/order/policies/index.ts'
import {
  CallQueue,
  type CallQueueConfig,
  PREFILLS,
  type QueueEntry,
  STOP_AGE_US,
  STOPS_MAX,
  TAKE_BACK_AGE_US,
  TAKE_BACKS_MAX,
} from '../../../engine/queue/call-queue.ts'
import { HOLD_US_MAX } from '../../../engine/queue/program-room.ts'
import { engineCall } from '../../../engine/testing/calls.ts'
import type { EngineCall } from '../../../engine/types.ts'
import { KeyLimits } from './limits/key-limits.ts'

type Given = Partial<Omit<CallQueueConfig, 'server'> & ReturnType<CallQueueConfig['server']>>

class PlayedQueue {
  readonly queue: CallQueue
  readonly sent: string[] = []
  readonly taken_back: string[] = []
  readonly refused: string[] = []
  /** Leases whose answer cannot go on. */
  readonly exact_only = new Set<string>()
  now_us = 0

  constructor(
    name: PolicyName,
    { kv_tokens = null, takes_back = true, stops = false, slots = 1, ...config }: Given = {},
  ) {
    const server = { kv_tokens, takes_back, stops, slots, prefill_us_per_token: 1000 }
    const policy = createPolicy({ name })
    this.queue = new CallQueue({ policy, ordering: 'modelled', seats: 1, server: () => server, ...config })
  }

  arrive(given: Partial<EngineCall> & { lease: string }, prompt_tokens = 10, choices = 1): QueueEntry {
    this.now_us += 1
    const { lease } = given
    const call = {
      send: () => this.sent.push(lease),
      takeBack: () => this.taken_back.push(lease),
      refuse: () => this.refused.push(lease),
      mayStop: () => !this.exact_only.has(lease),
    }
    const size = { prompt_tokens, output_tokens_max: 10, choices }
    const verdict = this.queue.arrive(engineCall(given), size, call, this.now_us)
    if (!verdict.ok) throw new Error(verdict.message)
    return verdict.entry
  }

  /** What is let through now. */
  decide(after_us = 1): string[] {
    this.now_us += after_us
    const before = this.sent.length
    this.queue.decide(this.now_us)
    return this.sent.slice(before)
  }

  output(entry: QueueEntry, tokens: number, wall_us = 1000): void {
    this.now_us += wall_us
    this.queue.answered(entry)
    const charged = { uncached_prompt_tokens: 0, cached_prompt_tokens: 0, output_tokens: tokens }
    this.queue.charge(entry, charged, wall_us, this.now_us)
  }

  end(entry: QueueEntry, context_tokens: number | null = 20, cached_tokens: number | null = null): void {
    this.now_us += 1
    const used = {
      prompt_tokens: entry.size.prompt_tokens,
      output_tokens: (context_tokens ?? 0) - entry.size.prompt_tokens,
      cached_tokens,
    }
    this.queue.ended(entry, context_tokens === null ? null : used, this.now_us)
  }
}

describe('the queue in front of a server', () => {
  it('gives a call of several answers as many seats, and one of more than there are all of them', () => {
    const played = new PlayedQueue('fcfs', { seats: 4, slots: 4 })
    const [three, two, one] = [3, 2, 1].map((choices) => played.arrive({ lease: `${choices}` }, 10, choices))
    const many = played.arrive({ lease: 'many' }, 10, 9)
    expect(played.decide()).toEqual(['3'])
    expect(played.queue).toMatchObject({ sent: 3, unanswered: 3, waiting: 3 })
    played.end(three as QueueEntry)
    expect(played.decide()).toEqual(['2', '1'])
    for (const entry of [two, one]) played.end(entry as QueueEntry)
    expect(played.decide()).toEqual(['many'])
    played.end(many)
    expect(played.queue).toMatchObject({ sent: 0, unanswered: 0, waiting: 0 })
  })

  it('lets as many calls through as there are seats, and the next of the order when one ends', () => {
    const played = new PlayedQueue('fcfs', { seats: 2, slots: 2 })
    const entries = ['a', 'b', 'c', 'd'].map((lease) => played.arrive({ lease }))
    expect(played.decide()).toEqual(['a', 'b'])
    expect(played.decide()).toEqual([])
    expect([played.queue.waiting, played.queue.sent]).toEqual([2, 2])
    played.end(entries[1] as QueueEntry)
    expect(played.decide()).toEqual(['c'])
  })

  it('orders by what programs have received: least attained service first', () => {
    const played = new PlayedQueue('plas')
    const running = played.arrive({ lease: 'running' })
    played.decide()
    played.output(running, 1)
    played.arrive({ lease: 'much', settled_service_us: 60_000_000 })
    played.arrive({ lease: 'little', settled_service_us: 1000 })
    played.end(running)
    expect(played.decide()).toEqual(['little'])
  })

  it('charges of open calls count for calls of the same program that wait', () => {
    const played = new PlayedQueue('plas', { seats: 2, slots: 2 })
    const first = played.arrive({ lease: 'first', program: 'long', sequence: [1, 0] })
    const other = played.arrive({ lease: 'other', program: 'other', sequence: [2, 0] })
    played.decide()
    played.arrive({ lease: 'second', program: 'long', sequence: [1, 0] })
    played.arrive({ lease: 'fresh', program: 'fresh', sequence: [3, 0] })
    played.output(first, 5000)
    played.output(other, 1)
    played.end(other)
    expect(played.decide()).toEqual(['fresh'])
  })

  it('never takes back a call with output; the better one goes next', () => {
    const played = new PlayedQueue('plas')
    const running = played.arrive({ lease: 'running', settled_service_us: 90_000_000 })
    played.decide()
    played.output(running, 1)
    played.arrive({ lease: 'better' })
    expect(played.decide(TAKE_BACK_AGE_US)).toEqual([])
    expect(played.taken_back).toEqual([])
    played.end(running)
    expect(played.decide()).toEqual(['better'])
  })

  it('takes back a call without output for a better one, a bounded number of times', () => {
    const played = new PlayedQueue('plas')
    const slow = played.arrive({ lease: 'slow', settled_service_us: 90_000_000 })
    expect(played.decide()).toEqual(['slow'])
    for (let time = 1; time <= TAKE_BACKS_MAX; time++) {
      const better = played.arrive({ lease: `better ${time}` })
      expect(played.decide(), 'its first output may be on its way').toEqual([])
      expect(played.decide(TAKE_BACK_AGE_US)).toEqual([`better ${time}`])
      expect(played.taken_back).toHaveLength(time)
      played.end(better)
      expect(played.decide()).toEqual(['slow'])
    }
    played.arrive({ lease: 'too late' })
    expect(played.decide(TAKE_BACK_AGE_US)).toEqual([])
    expect(slow.state.preemptions).toBe(TAKE_BACKS_MAX)
    expect(slow.waitedUs(played.now_us)).toBeLessThan(played.now_us - (slow.sent_us ?? 0) + TAKE_BACK_AGE_US)
  })

  it('takes nothing back that the server says it computes, and nothing from a server that does not stop', () => {
    for (const [reported, takes_back] of [
      [0, true],
      [null, false],
    ] as const) {
      const played = new PlayedQueue('plas', { takes_back })
      played.arrive({ lease: 'slow', settled_service_us: 90_000_000 })
      played.decide()
      played.queue.serverWaiting(reported)
      played.arrive({ lease: 'better' })
      expect(played.decide(TAKE_BACK_AGE_US)).toEqual([])
    }
  })

  it('does not take a long prompt back that is probably being computed', () => {
    const played = new PlayedQueue('plas')
    played.arrive({ lease: 'long', settled_service_us: 90_000_000 }, 1000)
    played.decide()
    played.arrive({ lease: 'better' })
    expect(played.decide(TAKE_BACK_AGE_US)).toEqual([])
    expect(played.decide(PREFILLS * 1000 * 1000)).toEqual(['better'])
  })

  it('has as many seats as it is told, from the next decision on', () => {
    const played = new PlayedQueue('fcfs', { seats: 3, slots: 3 })
    const [a, b] = ['a', 'b', 'c', 'd', 'e'].map((lease) => played.arrive({ lease }))
    played.decide()
    played.queue.resize(1)
    played.end(a as QueueEntry)
    played.end(b as QueueEntry)
    expect(played.decide(), 'one runs').toEqual([])
    played.queue.resize(3)
    expect(played.decide()).toEqual(['d', 'e'])
  })

  it('shares seats between tenants before it orders their programs', () => {
    const played = new PlayedQueue('fcfs', { seats: 2, slots: 2 })
    const many = Array.from({ length: 6 }, (_, index) => played.arrive({ lease: `a${index}`, tenant: 'a' }))
    played.decide()
    for (const entry of many.slice(0, 2)) played.output(entry, 10)
    played.arrive({ lease: 'b0', tenant: 'b' })
    played.end(many[0] as QueueEntry)
    expect(played.decide()).toEqual(['b0'])
  })

  it('refuses what would wait beyond its bounds, by tenant and in all', () => {
    const bounds = { waiting_calls_max: 3, waiting_calls_per_tenant_max: 2 }
    const played = new PlayedQueue('fcfs', bounds)
    for (const lease of ['a', 'b']) played.arrive({ lease, tenant: 'a' })
    expect(() => played.arrive({ lease: 'c', tenant: 'a' })).toThrow('2 calls of this tenant wait')
    played.arrive({ lease: 'd', tenant: 'd' })
    expect(() => played.arrive({ lease: 'e', tenant: 'e' })).toThrow('3 calls wait')
  })

  it('after a refusal of the server a call waits in its place, and nothing goes for a while', () => {
    const played = new PlayedQueue('fcfs')
    const first = played.arrive({ lease: 'first' })
    played.arrive({ lease: 'second' })
    played.decide()
    played.queue.refused(first, 1000, played.now_us)
    expect(played.decide(10)).toEqual([])
    expect(played.decide(1000)).toEqual(['first'])
  })
})

describe('KV pressure', () => {
  const PRESSED = { seats: 4, slots: 4, kv_tokens: 2000 }

  it('whole programs wait while the contexts of those that are in fill the server', () => {
    const played = new PlayedQueue('fcfs', PRESSED)
    const one = played.arrive({ lease: 'one', program: 'one', sequence: [1, 0] }, 900)
    played.arrive({ lease: 'two', program: 'two', sequence: [2, 0] }, 900)
    played.arrive({ lease: 'three', program: 'three', sequence: [3, 0] }, 900)
    played.arrive({ lease: 'small', program: 'small', sequence: [4, 0] }, 20)
    expect(played.decide(), 'none passes the first that waits').toEqual(['one', 'two'])
    expect(played.queue.room.used_tokens).toBeGreaterThan(1800)
    played.arrive({ lease: 'more', program: 'one', sequence: [1, 0] }, 950)
    expect(played.decide(), 'a program that is in goes on').toEqual(['more'])
    played.end(one)
    expect(played.decide()).toEqual([])
  })

  it('a program whose tool runs keeps its place for a bounded time', () => {
    const played = new PlayedQueue('fcfs', PRESSED)
    const other = played.arrive({ lease: 'other', program: 'other', sequence: [0, 0] }, 100)
    const one = played.arrive({ lease: 'one', program: 'one', sequence: [1, 0] }, 1400)
    played.decide()
    played.output(one, 1)
    played.end(one, 1500)
    played.arrive({ lease: 'two', program: 'two', sequence: [2, 0] }, 900)
    expect(played.decide(), 'its tool runs').toEqual([])
    const again = played.arrive({ lease: 'again', program: 'one', sequence: [1, 0] }, 1600)
    expect(played.decide()).toEqual(['again'])
    played.output(again, 1)
    played.end(again, 1650)
    expect(played.decide()).toEqual([])
    expect(played.decide(HOLD_US_MAX)).toEqual(['two'])
    played.end(other)
  })

  it('a call longer than the whole cache goes when the server is empty', () => {
    const played = new PlayedQueue('fcfs', PRESSED)
    played.arrive({ lease: 'giant' }, 100_000)
    expect(played.decide()).toEqual(['giant'])
  })

  it('counts what programs of a class share once', () => {
    const played = new PlayedQueue('fcfs', PRESSED)
    const given = (program: string, opened: number) => ({ lease: program, program, sequence: [opened, 0] as const })
    for (const [program, cached] of [
      ['first', 0],
      ['second', 800],
    ] as const) {
      const entry = played.arrive(given(program, 1), 900)
      played.decide()
      played.output(entry, 1)
      played.end(entry, 910, cached)
      played.decide(25_000_000)
    }
    for (const [index, program] of ['a', 'b', 'c'].entries()) played.arrive(given(program, 10 + index), 900)
    expect(played.decide(), 'three times 900 tokens, of which 800 are the same').toEqual(['a', 'b', 'c'])
  })
})

describe('offline calls in front of a server that does not preempt', () => {
  it('leave places free for online calls, which go first', () => {
    const played = new PlayedQueue('fcfs', { seats: 4, slots: 4, takes_back: false })
    const offline = ['f1', 'f2', 'f3', 'f4', 'f5'].map((lease) => played.arrive({ lease, offline: true }))
    expect(played.decide()).toEqual(['f1', 'f2', 'f3'])
    // An online call finds a place at once, and its like find theirs kept.
    const first = played.arrive({ lease: 'online' })
    expect(played.decide()).toEqual(['online'])
    const second = played.arrive({ lease: 'second' })
    expect(played.decide()).toEqual([])
    played.end(first)
    expect(played.decide()).toEqual(['second'])
    played.end(second)
    played.end(offline[0] as QueueEntry)
    expect(played.decide()).toEqual([])
    // Once online calls stay away, offline ones take the places again, but for one.
    expect(played.decide(60_000_000)).toEqual(['f4'])
    expect(played.decide()).toEqual([])
  })

  it('use the only place of a server that nobody else uses', () => {
    const played = new PlayedQueue('fcfs', { seats: 1, slots: 1, takes_back: false })
    const offline = played.arrive({ lease: 'offline', offline: true })
    expect(played.decide()).toEqual(['offline'])
    played.arrive({ lease: 'next', offline: true })
    played.arrive({ lease: 'online', tenant: 'other' })
    played.end(offline)
    expect(played.decide()).toEqual(['online'])
  })
})

describe('before a hosted API', () => {
  const limits = (amount: number) =>
    new KeyLimits({
      ...{ server: 'http://h', key_id: null, report: () => undefined },
      specs: [{ quantity: 'requests', amount, window_us: 60_000_000 }],
    })

  it('lets through what the limits let through, and the next when they have room', () => {
    const played = new PlayedQueue('fcfs', { seats: 100, limits: limits(2) })
    for (const lease of ['a', 'b', 'c']) played.arrive({ lease })
    expect(played.decide()).toEqual(['a', 'b'])
    expect(played.decide(59_000_000)).toEqual([])
    expect(played.queue.limitWaitUs(played.now_us)).toBeGreaterThan(0)
    expect(played.decide(2_000_000)).toEqual(['c'])
  })

  it('a call costs its program its part of the limits, so the one with fewer calls goes first', () => {
    const played = new PlayedQueue('plas', { seats: 100, limits: limits(2) })
    const sequence: [number, number] = [1, 0]
    const first = played.arrive({ lease: 'a1', program: 'a', sequence })
    played.decide()
    played.end(first)
    const other = played.arrive({ lease: 'b1', program: 'b', sequence: [2, 0] })
    played.decide()
    played.end(other)
    played.arrive({ lease: 'a2', program: 'a', sequence })
    played.arrive({ lease: 'c1', program: 'c', sequence: [3, 0] })
    played.decide(61_000_000)
    expect(played.sent.slice(0, 3)).toEqual(['a1', 'b1', 'c1'])
  })

  it('a call whose turn cannot come while it may wait is given back with its wait', () => {
    const played = new PlayedQueue('fcfs', { seats: 100, limits: limits(1), wait_us_max: 1_000_000 })
    for (const lease of ['a', 'b']) played.arrive({ lease })
    played.decide()
    played.decide()
    expect([played.sent, played.refused]).toEqual([['a'], ['b']])
  })
})

describe('a call with output, before a server that goes on with texts', () => {
  const LONG = { lease: 'long', program: 'long', settled_service_us: 60_000_000 }
  const short = (nth: number) => ({ lease: `short-${nth}`, program: `short-${nth}` })

  it('is stopped for a better one, waits in its place, and is let through again, a few times', () => {
    const played = new PlayedQueue('plas', { stops: true })
    const long = played.arrive(LONG)
    expect(played.decide()).toEqual(['long'])
    for (let nth = 1; nth <= STOPS_MAX; nth++) {
      played.output(long, 1)
      const better = played.arrive(short(nth))
      expect(played.decide(), 'it gets on first').toEqual([])
      expect(played.decide(STOP_AGE_US)).toEqual([`short-${nth}`])
      expect(played.taken_back).toHaveLength(nth)
      expect(played.queue).toMatchObject({ sent: 1, waiting: 1, unanswered: 1 })
      played.output(better, 1)
      played.end(better)
      expect(played.decide()).toEqual(['long'])
    }
    played.output(long, 1)
    const last = played.arrive(short(STOPS_MAX + 1))
    expect(played.decide(STOP_AGE_US), 'it has been stopped often enough').toEqual([])
    played.end(long)
    expect(played.decide()).toEqual([`short-${STOPS_MAX + 1}`])
    played.end(last)
    expect(played.queue).toMatchObject({ sent: 0, unanswered: 0, waiting: 0 })
  })

  it.each([
    ['the operator did not ask for it', { stops: false }, false],
    ['the server works on when a client has left', { stops: true, takes_back: false }, false],
    ['its answer cannot go on', { stops: true }, true],
  ] as [string, Given, boolean][])('runs to its end where %s', (_, given, exact) => {
    const played = new PlayedQueue('plas', given)
    const long = played.arrive(LONG)
    if (exact) played.exact_only.add('long')
    played.decide()
    played.output(long, 1)
    played.arrive(short(1))
    expect(played.decide(2 * STOP_AGE_US)).toEqual([])
    expect(played.taken_back).toEqual([])
  })
})
