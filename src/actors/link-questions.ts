/**
 * A pool asks its agents. The answers come as frames of their own, so a question waits for the frame that names it. An agent
 * that does not answer in time has said nothing.
 */

/** Agents answer at once; this is the network, and a pool that is busy. */
const ANSWER_MS = 2_000
/** Questions that wait at a time. Past it a question counts as not answered. */
export const QUESTIONS_MAX = 256

interface Question<A> {
  agent: string
  answered(answer: A): void
}

export class LinkQuestions<A> {
  readonly #questions = new Map<number, Question<A>>()
  readonly #answer_ms: number
  #next = 1

  constructor(answer_ms = ANSWER_MS) {
    this.#answer_ms = answer_ms
  }

  /** `send` asks under the id that the answer must name. Null: the agent did not answer. */
  async ask(agent: string, send: (id: number) => void): Promise<A | null> {
    if (this.#questions.size >= QUESTIONS_MAX) return null
    const id = this.#next
    this.#next += 1
    const { promise, resolve } = Promise.withResolvers<A | null>()
    const timer = setTimeout(() => resolve(null), this.#answer_ms)
    this.#questions.set(id, { agent, answered: resolve })
    send(id)
    const answer = await promise
    clearTimeout(timer)
    this.#questions.delete(id)
    return answer
  }

  /** Only the agent that was asked answers. */
  answered(agent: string, id: number, answer: A): void {
    const question = this.#questions.get(id)
    if (question?.agent === agent) question.answered(answer)
  }
}
