import { expect, test } from 'vitest'
import type { CallEnded } from '../core/program/program-state.ts'
import { ENDED_CALLS_MAX, ENDED_KEPT_MS, ENDED_PROGRAMS_MAX, EndedCalls } from './ended-calls.ts'

const ended = (call: string, now_ms = 0): CallEnded => {
  return { run: 'r', call, outcome: 'completed', error_code: null, now_ms }
}

test('an end is kept for its program until the actor knows it, or its record must have come', () => {
  const calls = new EndedCalls()
  calls.remember('t', 'p', ended('a'))
  calls.remember('t', 'p', ended('b', 5))
  expect(calls.of('t', 'q', 5)).toEqual([])
  expect(calls.of('u', 'p', 5)).toEqual([])
  const told = calls.of('t', 'p', ENDED_KEPT_MS)
  expect(told.map(({ call }) => call)).toEqual(['b'])
  calls.remember('t', 'p', ended('c', 6))
  calls.told('t', 'p', told)
  expect(calls.of('t', 'p', 6).map(({ call }) => call)).toEqual(['a', 'c'])
})

test('forgets the oldest calls and programs past the bounds', () => {
  const calls = new EndedCalls()
  for (let n = 0; n <= ENDED_CALLS_MAX; n++) calls.remember('t', 'p', ended(`c${n}`))
  expect(calls.of('t', 'p', 0).map(({ call }) => call)[0]).toBe('c1')
  expect(calls.of('t', 'p', 0)).toHaveLength(ENDED_CALLS_MAX)
  for (let n = 1; n < ENDED_PROGRAMS_MAX; n++) calls.remember('t', `p${n}`, ended('c'))
  expect(calls.of('t', 'p', 0)).toHaveLength(ENDED_CALLS_MAX)
  calls.remember('t', 'one-more', ended('c'))
  expect(calls.of('t', 'p', 0)).toEqual([])
  expect(calls.size).toBe(ENDED_PROGRAMS_MAX)
})
