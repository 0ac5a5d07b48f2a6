/**
 * One tenant's calls without a seat. Those that hold their KV have a heap of their own, so that the best of them is found
 * without a scan. A change costs O(log calls), and a look at the best O(1).
 */
import { Heap, type HeapNode } from './heap.ts'

export interface WaitingCall extends HeapNode {
  /** Most of its prompt's KV is on the device. Its queue writes it while it waits. */
  holds_kv: boolean
}

export class WaitingCalls<C extends WaitingCall> {
  readonly #before: (a: C, b: C) => boolean
  readonly #holding: Heap<C>
  readonly #others: Heap<C>

  /** `before` must be a strict total order. */
  constructor(before: (a: C, b: C) => boolean) {
    this.#before = before
    this.#holding = new Heap<C>(before)
    this.#others = new Heap<C>(before)
  }

  get size(): number {
    return this.#holding.size + this.#others.size
  }

  peek(): C | undefined {
    const holding = this.#holding.peek()
    const other = this.#others.peek()
    if (holding === undefined || other === undefined) return holding ?? other
    return this.#before(holding, other) ? holding : other
  }

  /** The best of the calls that hold their KV. */
  peekHolding(): C | undefined {
    return this.#holding.peek()
  }

  push(call: C): void {
    this.#heapOf(call).push(call)
  }

  remove(call: C): void {
    this.#heapOf(call).remove(call)
  }

  /** The call's rank or sequence changed. */
  update(call: C): void {
    this.#heapOf(call).update(call)
  }

  /** The KV of a call that waits here came to the device, or left it. */
  setHoldsKv(call: C, holds_kv: boolean): void {
    this.remove(call)
    call.holds_kv = holds_kv
    this.push(call)
  }

  #heapOf({ holds_kv }: C): Heap<C> {
    return holds_kv ? this.#holding : this.#others
  }
}
