import type { LlamaContext } from 'node-llama-cpp'
import { expect, test } from 'vitest'
import { sampleSerially } from './serial-sampling.ts'

/** Stands for the native context: read-only on its prototype, as the library's is. */
class NativeContext {
  running = 0
  most_running = 0
  readonly order: number[] = []
  async sampleToken(index: number): Promise<number> {
    this.running += 1
    this.most_running = Math.max(this.most_running, this.running)
    this.order.push(index)
    await new Promise((resolve) => setTimeout(resolve, 5 - index))
    this.running -= 1
    if (index === 1) throw new Error('no logits')
    return index * 10
  }
}
Object.defineProperty(NativeContext.prototype, 'sampleToken', { writable: false })

test('sequences of a batch are sampled one at a time, in order, and a failure stays its own', async () => {
  const native = new NativeContext()
  sampleSerially({ _ctx: native } as unknown as LlamaContext)
  const results = await Promise.allSettled([0, 1, 2, 3].map((index) => native.sampleToken(index)))
  expect(native.most_running).toBe(1)
  expect(native.order).toEqual([0, 1, 2, 3])
  expect(results.map((result) => (result.status === 'fulfilled' ? result.value : 'failed'))).toEqual([
    0,
    'failed',
    20,
    30,
  ])
})

test('a library that samples elsewhere is refused', () => {
  expect(() => sampleSerially({} as LlamaContext)).toThrow('unknown way')
  expect(() => sampleSerially({ _ctx: {} } as unknown as LlamaContext)).toThrow('unknown way')
})
