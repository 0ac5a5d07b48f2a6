import { expect, it } from 'vitest'
import type { CallEntry, LeaseEntry } from '../program/program-state.ts'
import { onlineLengths } from './online-lengths.ts'
import { answersIn, lengthsOf } from './output-lengths.ts'

type Asked = Parameters<typeof onlineLengths>[0][number]

const lease = (output_tokens: number, change: Partial<LeaseEntry> = {}) =>
  ({ state: 'settled', output_tokens, resumed_tokens: 0, ...change }) as LeaseEntry
const call = (leases: LeaseEntry[], change: Partial<CallEntry> = {}): Asked => {
  return { model: 'm', outcome: 'completed', finish_reason: 'stop', leases, ...change }
}
const of = (...calls: Asked[]) => onlineLengths(calls, new Set(['m', 'n']))

it('answers count under their model, and cut ones as cut', () => {
  const found = of(call([lease(30)]), call([lease(30)], { model: 'n' }), call([lease(16)], { finish_reason: 'length' }))
  expect(found.map(({ model }) => model)).toEqual(['m', 'n'])
  const [m, n] = found.map((one) => one.lengths)
  expect([m?.ended.length, m?.cut.length, n?.ended.length, n?.cut.length]).toEqual([1, 1, 1, 0])
  expect(n && lengthsOf(n)?.mean_tokens).toBeCloseTo(30, 5)
})

it('an answer that another engine went on with counts once, as long as its client has it', () => {
  const [m] = of(call([lease(12, { state: 'lost' }), lease(20, { resumed_tokens: 12 })]))
  expect(m && answersIn(m.lengths)).toBe(1)
  expect(m && lengthsOf(m.lengths)?.mean_tokens).toBeCloseTo(32, 5)
})

it('calls that failed, clients that left, embeddings and other models teach nothing', () => {
  const failed = call([lease(5)], { outcome: 'failed' })
  const left = call([lease(5)], { outcome: 'cancelled' })
  const open = call([lease(0, { state: 'open' })], { outcome: null })
  expect(of(failed, left, open, call([lease(0)]), call([lease(5)], { model: 'other' }))).toEqual([])
})
