/**
 * A pool asks its agents which of some leases they have open. The answers come as frames of their own, so a question waits
 * for the frame that names it. An agent that does not answer in time says nothing about its leases.
 */
import type { DownMessage, OpenLeases } from '../protocol/index.ts'

/** Agents answer at once; this is the network, and a pool that is busy. */
const ANSWER_MS = 2_000
/** Questions that wait at a time. Past it a question counts as not answered. */
export const QUESTIONS_MAX = 256

interface Question {
  agent: string
  answered(open: readonly string[]): void
}

export class LeaseQuestions {
  readonly #questions = new Map<number, Question>()
  #next = 1

  /** The leases that are open at the agent. Null: it did not answer. */
  async ask(
    agent: string,
    leases: readonly string[],
    send: (question: DownMessage) => void,
  ): Promise<ReadonlySet<string> | null> {
    if (this.#questions.size >= QUESTIONS_MAX) return null
    const id = this.#next
    this.#next += 1
    const { promise, resolve } = Promise.withResolvers<ReadonlySet<string> | null>()
    const timer = setTimeout(() => resolve(null), ANSWER_MS)
    this.#questions.set(id, { agent, answered: (open) => resolve(new Set(open)) })
    send({ type: 'ask', id, leases: [...leases] })
    const open = await promise
    clearTimeout(timer)
    this.#questions.delete(id)
    return open
  }

  /** Only the agent that was asked answers. */
  answered(agent: string, { id, leases }: OpenLeases): void {
    const question = this.#questions.get(id)
    if (question?.agent === agent) question.answered(leases)
  }
}
