/**
 * Samples the sequences of one batch one after another. node-llama-cpp 3.22.1 samples them on several threads at once, and
 * each of those threads may run llama.cpp's lazy reordering of the batch's outputs (`llama_get_logits` → `output_reorder`)
 * without a lock. When sequences bring different numbers of tokens into a batch, that race hands a sequence the logits of
 * another: measured, 55 of 150 batches of six short prompts gave a call another call's token. One at a time gave 0 of 150
 * and costs nothing measurable on a small machine.
 *
 * The library has no option for it, so this wraps its native context's `sampleToken`, and refuses to start when that is
 * not where it is expected.
 */
import type { LlamaContext } from 'node-llama-cpp'

type Sample = (...parameters: unknown[]) => Promise<unknown>

export function sampleSerially(context: LlamaContext): void {
  const native: unknown = Reflect.get(context, '_ctx')
  const sample: unknown = typeof native === 'object' && native !== null ? Reflect.get(native, 'sampleToken') : undefined
  if (typeof sample !== 'function') throw new Error('this version of node-llama-cpp samples in an unknown way')
  const original = sample as Sample
  let last: Promise<unknown> = Promise.resolve()
  const value: Sample = (...parameters) => {
    const result = last.then(() => original.apply(native, parameters))
    // A failure is the caller's; it must not keep the next sequence from being sampled.
    last = result.catch(() => undefined)
    return result
  }
  Object.defineProperty(native, 'sampleToken', { value })
}
