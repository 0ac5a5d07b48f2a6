/** The answer of a server that speaks another API than its client: its events as chunks of chat, which one reader makes the client's. */
import type { EventReader } from '../../../../../src/core/wire/native/event-reading.ts'
import type { ChoiceFinish } from '../../../openai/chunk-frame.ts'
import type { AnswerReading, CallAnswer, CountedUsage } from '../../vllm/calls/answer-stream.ts'

export class TranslatedAnswer implements CallAnswer {
  readonly #chat: CallAnswer
  readonly #reader: EventReader

  constructor(chat: CallAnswer, reader: EventReader) {
    this.#chat = chat
    this.#reader = reader
  }

  get usage(): CountedUsage | null {
    return this.#chat.usage
  }

  get pieces(): number {
    return this.#chat.pieces
  }

  get finishes(): readonly ChoiceFinish[] {
    return this.#chat.finishes
  }

  /** It has said how it ended, and that nothing follows. */
  get whole(): boolean {
    return this.#reader.stopped && this.#chat.whole
  }

  read(value: unknown, data: string): AnswerReading {
    const reading = this.#reader.read(value)
    if (!reading.ok) return reading
    return reading.piece === null ? { ok: true, chunks: [] } : this.#chat.read(reading.piece, data)
  }
}
