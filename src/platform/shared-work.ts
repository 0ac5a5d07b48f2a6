/**
 * One question for all requests of an isolate that need the same answer at the same time.
 *
 * Keeps true: per key at most one question is open. A request that comes meanwhile waits for its answer.
 *
 * workerd ends the promises of a request whose client leaves, so the one that asked may never be heard of again. A request
 * that has waited for the time limit takes the question over. Promises may be awaited across requests since the compatibility
 * date 2024-10-14 (`handle_cross_request_promise_resolution`). Each one here is made by the request that waits for it.
 */

type Outcome<V> = { status: 'answered'; value: V } | { status: 'failed'; error: unknown } | { status: 'late' }

interface Question<V> {
  waiting: Set<(outcome: Outcome<V>) => void>
}

export class SharedWork<V> {
  readonly #open = new Map<string, Question<V>>()

  /** Whether a question under this key is open. */
  isOpen(key: string): boolean {
    return this.#open.has(key)
  }

  /** Requests that wait for the answer under this key, the one that asked left out. */
  waiting(key: string): number {
    return this.#open.get(key)?.waiting.size ?? 0
  }

  /** The answer of the open question, or of `ask` if none is open. Rejects as the question does. */
  async run(key: string, ask: () => Promise<V>, limit_ms: number): Promise<V> {
    let open = this.#open.get(key)
    while (open !== undefined) {
      const outcome = await answerTo(open, limit_ms)
      if (outcome.status === 'answered') return outcome.value
      if (outcome.status === 'failed') throw outcome.error
      if (this.#open.get(key) === open) this.#open.delete(key)
      open = this.#open.get(key)
    }
    return this.#ask(key, ask)
  }

  async #ask(key: string, ask: () => Promise<V>): Promise<V> {
    const question: Question<V> = { waiting: new Set() }
    this.#open.set(key, question)
    try {
      const value = await ask()
      this.#close(key, question, { status: 'answered', value })
      return value
    } catch (error) {
      this.#close(key, question, { status: 'failed', error })
      throw error
    }
  }

  #close(key: string, question: Question<V>, outcome: Outcome<V>): void {
    if (this.#open.get(key) === question) this.#open.delete(key)
    for (const tell of question.waiting) tell(outcome)
  }
}

async function answerTo<V>({ waiting }: Question<V>, limit_ms: number): Promise<Outcome<V>> {
  const { promise, resolve } = Promise.withResolvers<Outcome<V>>()
  const timer = setTimeout(() => resolve({ status: 'late' }), limit_ms)
  waiting.add(resolve)
  const outcome = await promise
  clearTimeout(timer)
  waiting.delete(resolve)
  return outcome
}
