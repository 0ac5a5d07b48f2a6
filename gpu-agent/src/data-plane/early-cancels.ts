/**
 * Leases that were to be cancelled before their calls had come. A program that ends names every lease that it asked for, and the
 * call of the last may still be on its way. A lease is used once, so one that has long ended does no harm here.
 */
import type { StreamError } from '../../../src/protocol/index.ts'

/** Past it the oldest is forgotten, and its call, should it come, runs for nothing. */
export const EARLY_CANCELS_MAX = 4096

export class EarlyCancels {
  readonly #errors = new Map<string, StreamError>()

  add(lease: string, error: StreamError): void {
    this.#errors.set(lease, error)
    if (this.#errors.size <= EARLY_CANCELS_MAX) return
    const oldest = this.#errors.keys().next()
    if (!oldest.done) this.#errors.delete(oldest.value)
  }

  /** Null: the call may run. */
  take(lease: string): StreamError | null {
    const error = this.#errors.get(lease) ?? null
    this.#errors.delete(lease)
    return error
  }
}
