import { expect, it, vi } from 'vitest'
import { SharedWork } from './shared-work.ts'

const LONG_MS = 60_000

it('asks once for all who need the answer at the same time, and again for the next', async () => {
  const work = new SharedWork<number>()
  const { promise, resolve } = Promise.withResolvers<number>()
  let asked = 0
  const ask = () => {
    asked += 1
    return promise
  }
  const all = Promise.all(Array.from({ length: 64 }, () => work.run('key', ask, LONG_MS)))
  expect([asked, work.waiting('key'), work.isOpen('key'), work.isOpen('other')]).toEqual([1, 63, true, false])
  resolve(7)
  expect(new Set(await all)).toEqual(new Set([7]))
  expect(work.isOpen('key')).toBe(false)
  await work.run('key', ask, LONG_MS)
  expect(asked).toBe(2)
})

it('fails for all who wait, and remembers no failure', async () => {
  const work = new SharedWork<number>()
  const down = () => Promise.reject(new Error('down'))
  const results = await Promise.allSettled([work.run('key', down, LONG_MS), work.run('key', down, LONG_MS)])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await work.run('key', async () => 1, LONG_MS)).toBe(1)
})

it('a question whose request is gone is taken over by one that waits, for all others', async () => {
  const work = new SharedWork<number>()
  void work.run('key', () => new Promise<never>(() => undefined), LONG_MS)
  const { promise, resolve } = Promise.withResolvers<number>()
  let asked = 0
  const ask = () => {
    asked += 1
    return promise
  }
  const first = work.run('key', ask, 5)
  await vi.waitUntil(() => asked === 1, { timeout: 50_000 })
  const second = work.run('key', ask, LONG_MS)
  resolve(3)
  expect([await first, await second, asked]).toEqual([3, 3, 1])
  expect(work.isOpen('key')).toBe(false)
})
