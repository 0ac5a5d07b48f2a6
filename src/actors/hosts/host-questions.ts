/**
 * Questions to coordinators: a plan, or the next stage. An answer comes as a frame of its own that names the question, and only the agent that was
 * asked answers. An answer that comes too late, or after the stage has changed, finds no question and counts for nothing.
 */
import type { Chosen, Planned } from '../../protocol/host.ts'

/** Questions that wait at a time. Past it a question counts as not answered. */
export const QUESTIONS_MAX = 64

type Answer = Planned | Chosen
type Kind = 'plan' | 'choose'
type AnswerTo<K extends Kind> = K extends 'plan' ? Planned : Chosen

interface Question {
  agent: string
  kind: Kind
  /** Null: any. */
  epoch: number | null
  answered(answer: Answer | null): void
}

export class HostQuestions {
  readonly #questions = new Map<number, Question>()
  #next: number

  /** `first`: a number that no question of an earlier life of this object had. */
  constructor(first: number) {
    this.#next = first
  }

  /** Null: no answer in time, or the agent has left. */
  async ask<K extends Kind>(
    kind: K,
    agent: string,
    { epoch, wait_ms }: { epoch: number | null; wait_ms: number },
    send: (id: number) => void,
  ): Promise<AnswerTo<K>['outcome'] | null> {
    if (this.#questions.size >= QUESTIONS_MAX) return null
    const id = this.#next
    this.#next += 1
    const { promise, resolve } = Promise.withResolvers<Answer | null>()
    const timer = setTimeout(() => resolve(null), wait_ms)
    this.#questions.set(id, { agent, kind, epoch, answered: resolve })
    try {
      send(id)
      return ((await promise) as AnswerTo<K> | null)?.outcome ?? null
    } finally {
      clearTimeout(timer)
      this.#questions.delete(id)
    }
  }

  answered(agent: string, answer: Answer): void {
    const question = this.#questions.get(answer.id)
    if (question?.agent !== agent || question.kind !== (answer.type === 'planned' ? 'plan' : 'choose')) return
    if (answer.type === 'chosen' && answer.epoch !== question.epoch) return
    question.answered(answer)
  }

  /** The agent's link is gone: what it was asked has no answer. */
  left(agent: string): void {
    for (const question of this.#questions.values()) if (question.agent === agent) question.answered(null)
  }
}
