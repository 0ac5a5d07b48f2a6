/** The answer of a server that speaks another API than its client: its events as chunks of chat, which one reader makes the client's. */
import type { AnswerReading } from '../../vllm/calls/answer-stream.ts'
import { EventAnswer } from './event-answer.ts'

export class TranslatedAnswer extends EventAnswer {
  read(event: unknown, data: string): AnswerReading {
    const reading = this.reader.read(event)
    if (!reading.ok) return reading
    return reading.piece === null ? { ok: true, chunks: [] } : this.chat.read(reading.piece, data)
  }
}
