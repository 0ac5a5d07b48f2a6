/**
 * What a client already has of an answer that another engine began, taken off what this one says when it goes through the
 * same tokens again. Counted in characters, since a client may have part of what a token became.
 */
import type { Resume } from '../../../src/protocol/index.ts'
import type { AnswerEvent } from './answer-parser.ts'

export type DeliveredEvent = AnswerEvent | { type: 'reasoning'; text: string }

export class Delivered {
  readonly #content: string
  #text: number
  #reasoning: number
  readonly #calls: number[]
  /** Calls of tools that were met. */
  #met = 0
  /** Text that was said again was another one. */
  differs = false

  constructor({ content, reasoning, tool_calls }: Pick<Resume, 'content' | 'reasoning' | 'tool_calls'>) {
    this.#content = content
    this.#text = content.length
    this.#reasoning = reasoning.length
    this.#calls = tool_calls.map((call) => call.arguments.length)
  }

  /** Whether all text that the client has was said again. */
  get isOver(): boolean {
    return this.#text === 0 && this.#reasoning === 0
  }

  /** What the client lacks of it. Null: nothing. */
  rest<E extends DeliveredEvent>(event: E): E | null {
    switch (event.type) {
      case 'reasoning': {
        const text = event.text.slice(this.#reasoning)
        this.#reasoning -= event.text.length - text.length
        return left(event, event.text, text)
      }
      case 'text': {
        const text = event.text.slice(this.#text)
        const again = event.text.length - text.length
        if (!this.#content.startsWith(event.text.slice(0, again), this.#content.length - this.#text))
          this.differs = true
        this.#text -= again
        return left(event, event.text, text)
      }
      case 'call':
        this.#met += 1
        return this.#met > this.#calls.length ? event : null
      case 'arguments': {
        const at = this.#met - 1
        const had = this.#calls[at] ?? 0
        const text = event.text.slice(had)
        if (had > 0) this.#calls[at] = had - (event.text.length - text.length)
        return left(event, event.text, text)
      }
    }
  }
}

function left<E>(event: E, all: string, text: string): E | null {
  return text === '' && all !== '' ? null : { ...event, text }
}
