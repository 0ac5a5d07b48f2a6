import { expect, test } from 'vitest'
import { engineCall } from '../testing/calls.ts'
import { PROVIDER_CACHE_US, ProgramRoom } from './program-room.ts'

const LIMITS = { kv_tokens: 1000, slots: 4, prefill_us_per_token: 1000 }
const SIZE = { prompt_tokens: 500, output_tokens_max: 1 }

function callOf(program: string, tenant = 'a') {
  return engineCall({ lease: `${program}-lease`, program, tenant, class: 'chat', sequence: [1, 0] })
}

/** A program of `a` ran, and the server found 400 tokens of its prompt cached. */
function roomWithShared(): ProgramRoom {
  const room = new ProgramRoom(() => LIMITS)
  room.sent(callOf('first'), SIZE)
  room.ended(callOf('first'), 500, { prompt_tokens: 500, output_tokens: 1, cached_tokens: 400 }, 0)
  return room
}

test('what a class of programs shares is counted once', () => {
  const room = roomWithShared()
  expect(room.fits(callOf('second'), SIZE)).toBe(true)
  room.sent(callOf('second'), SIZE)
  expect(room.used_tokens).toBe(400 + 101 + 101)
})

test('a class of another tenant shares nothing, whatever its name is', () => {
  const room = roomWithShared()
  expect(room.fits(callOf('stranger', 'b'), SIZE)).toBe(false)
})

test('a program keeps its place for a bounded time after its call, and no longer', () => {
  const room = roomWithShared()
  expect(room.isIn('first')).toBe(true)
  room.expire(20_000_000)
  expect([room.isIn('first'), room.used_tokens]).toEqual([false, 0])
})

test("a provider's cache forgets a program that was away for longer than it lives", () => {
  const room = new ProgramRoom(() => ({ ...LIMITS, cache_life_us: PROVIDER_CACHE_US }))
  room.sent(callOf('first'), SIZE)
  room.ended(callOf('first'), 500, { prompt_tokens: 500, output_tokens: 1, cached_tokens: 400 }, 0)
  expect(room.residentTokens('first', PROVIDER_CACHE_US)).toBe(501)
  expect(room.residentTokens('first', PROVIDER_CACHE_US + 1)).toBe(0)
})
