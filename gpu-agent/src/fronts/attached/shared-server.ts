/**
 * What the engines of one server have in common: each model is an engine. All wait in one queue, but where each model has limits of
 * its own, and a queue with them.
 */
import type { Behaviour } from './behaviour.ts'
import type { ServerQueue } from './server-queue.ts'

export class SharedServer {
  readonly #queues = new Map<string | null, ServerQueue>()
  #behaviour: Promise<Behaviour> | null = null

  /** `model`: null: of all. */
  queue(model: string | null, make: () => ServerQueue): ServerQueue {
    const queue = this.#queues.get(model) ?? make()
    this.#queues.set(model, queue)
    return queue
  }

  /** Found out once. */
  behaviour(probe: () => Promise<Behaviour>): Promise<Behaviour> {
    this.#behaviour ??= probe()
    return this.#behaviour
  }
}
