/**
 * An answer whose server does not speak chat: its events are read as chunks of chat. What is known of the answer is what was read of
 * those; it is whole once the server has said that nothing follows.
 */
import type { EventReader } from '../../../../../src/core/wire/native/event-reading.ts'
import type { ChoiceFinish } from '../../../openai/chunk-frame.ts'
import type { AnswerReading, CallAnswer, CountedUsage } from '../../vllm/calls/answer-stream.ts'

export abstract class EventAnswer implements CallAnswer {
  protected readonly chat: CallAnswer
  protected readonly reader: EventReader

  constructor(chat: CallAnswer, reader: EventReader) {
    this.chat = chat
    this.reader = reader
  }

  get usage(): CountedUsage | null {
    return this.chat.usage
  }

  get pieces(): number {
    return this.chat.pieces
  }

  get text_bytes(): number {
    return this.chat.text_bytes
  }

  get finishes(): readonly ChoiceFinish[] {
    return this.chat.finishes
  }

  get whole(): boolean {
    return this.reader.stopped && this.chat.whole
  }

  abstract read(event: unknown, data: string): AnswerReading
}
