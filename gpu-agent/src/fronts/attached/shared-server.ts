/** What the engines of one server have in common: each model is an engine, and all wait in one queue. */
import type { Behaviour } from './behaviour.ts'
import type { ServerQueue } from './server-queue.ts'

export class SharedServer {
  #queue: ServerQueue | null = null
  #behaviour: Promise<Behaviour> | null = null

  queue(make: () => ServerQueue): ServerQueue {
    this.#queue ??= make()
    return this.#queue
  }

  /** Found out once. */
  behaviour(probe: () => Promise<Behaviour>): Promise<Behaviour> {
    this.#behaviour ??= probe()
    return this.#behaviour
  }
}
