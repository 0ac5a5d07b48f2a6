import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ResultOrder } from './result-order.ts'

it('gives every result once and in order, in whatever order they come and however often', () => {
  const arrivals = fc
    .nat(30)
    .chain((count) => fc.shuffledSubarray(Array.from({ length: count * 2 }, (_, index) => index % Math.max(1, count))))
  fc.assert(
    fc.property(arrivals, fc.nat(3), (requests, first) => {
      const order = new ResultOrder<number>(first)
      const taken: number[] = []
      for (const request of requests) {
        order.add(request, request)
        taken.push(...order.take())
      }
      expect(taken).toEqual(taken.map((_, index) => first + index))
      const rest = [...order.takeAll()]
      expect([...taken, ...rest]).toEqual([...new Set(requests)].filter((one) => one >= first).sort((a, b) => a - b))
      expect(order.waiting).toBe(0)
    }),
  )
})
