import { expect, it } from 'vitest'
import { CustomIds } from './custom-ids.ts'

it('finds the line of an id that was there, and no other', () => {
  const ids = new CustomIds()
  for (let line = 1; line <= 20_000; line += 1) expect(ids.add(`request-${line}`, line)).toBeNull()
  expect(ids.size).toBe(20_000)
  for (const line of [1, 777, 20_000]) expect(ids.add(`request-${line}`, 30_000)).toBe(line)
  expect(ids.size).toBe(20_000)
})

it('goes on from what was taken, piece by piece', () => {
  const first = new CustomIds()
  first.add('a', 1)
  first.add('b', 2)
  const one = first.take()
  first.add('a', 3)
  first.add('c', 4)
  const two = first.take()
  expect(first.take()).toHaveLength(0)
  const second = new CustomIds()
  second.restore(one)
  second.restore(two)
  expect(['a', 'b', 'c', 'd'].map((id) => second.add(id, 9))).toEqual([1, 2, 4, null])
})
