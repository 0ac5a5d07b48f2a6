import { expect, it } from 'vitest'
import { remainingMs } from './estimate.ts'

it('is not known before anything is done', () => {
  expect(remainingMs([{ requests: 10, done: 0, spans: [] }])).toBeNull()
})

it('goes on at each node’s pace, side by side as so far', () => {
  // 10 s for 5 of 10.
  expect(remainingMs([{ requests: 10, done: 5, spans: [[0, 10_000]] }])).toBe(10_000)
  const two = [
    { requests: 10, done: 5, spans: [[0, 10_000]] as [number, number][] },
    { requests: 20, done: 5, spans: [[0, 10_000]] as [number, number][] },
  ]
  expect(remainingMs(two)).toBe((10_000 + 30_000) / 2)
})

it('takes a node without results for an average one', () => {
  const nodes = [
    { requests: 4, done: 4, spans: [[0, 8_000]] as [number, number][] },
    { requests: 3, done: 0, spans: [] as [number, number][] },
  ]
  expect(remainingMs(nodes)).toBe(6_000)
})
