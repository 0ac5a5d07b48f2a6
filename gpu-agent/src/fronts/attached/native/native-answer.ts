/**
 * The answer of a server that speaks its client's API. Every event reaches the client with the data that the server wrote. It is read
 * beside that for usage, finish and output. Events from the one that says how the answer ended are kept back, since they may reach
 * the client only after the record is on disk. The one of them that has the usage gets what was measured, under `switchyard`: it is
 * the only event whose data is written anew.
 */
import type { ChatPiece, EventReader } from '../../../../../src/core/wire/native/event-reading.ts'
import type { NativeApi } from '../../../../../src/protocol/index.ts'
import { type ChoiceFinish, ChunkFrame, type Usage } from '../../../openai/chunk-frame.ts'
import { NativeFrame } from '../../../openai/native-frame.ts'
import { type AnswerReading, AnswerStream } from '../../vllm/calls/answer-stream.ts'
import type { CallEndFrame } from '../../vllm/calls/call-end-frame.ts'
import { EventAnswer } from './event-answer.ts'

type Json = Record<string, unknown>

/** Behind the end of an answer there are one or two. */
export const KEPT_EVENTS_MAX = 16
const NO_CHOICES: ChatPiece['choices'] = []
/** Its chunks are read and not sent. */
const UNSEEN = {
  dialect: 'chat',
  call: '',
  model: '',
  created_s: 0,
  system_fingerprint: '',
  include_usage: false,
} as const

export class NativeAnswer extends EventAnswer implements CallEndFrame {
  readonly #api: NativeApi
  readonly #kept: { event: unknown; frame: NativeFrame }[] = []

  constructor(api: NativeApi, reader: EventReader) {
    super(new AnswerStream(new ChunkFrame(UNSEEN), 1), reader)
    this.#api = api
  }

  read(event: unknown, data: string): AnswerReading {
    const reading = this.reader.read(event)
    if (!reading.ok) return reading
    if (reading.piece !== null) {
      const read = this.chat.read(reading.piece, data)
      if (!read.ok) return read
    }
    const frame = new NativeFrame(data, reading.piece?.choices ?? NO_CHOICES)
    if (!this.chat.whole) return { ok: true, chunks: [frame] }
    if (this.#kept.length >= KEPT_EVENTS_MAX) return { ok: false, broken: 'events without an end behind its answer' }
    this.#kept.push({ event, frame })
    return { ok: true, chunks: [] }
  }

  last(_finishes: readonly ChoiceFinish[], { switchyard }: Usage): object[] {
    return this.#kept.map(({ event, frame }) => {
      const told = withMeasured(this.#api, event, switchyard)
      return told === null ? frame : new NativeFrame(JSON.stringify(told), frame.choices)
    })
  }
}

/** Null: the event has no usage. */
function withMeasured(api: NativeApi, event: unknown, switchyard: object): Json | null {
  const carrier = api === 'messages' ? event : (event as { response?: unknown }).response
  const { usage } = (carrier ?? {}) as { usage?: unknown }
  if (typeof usage !== 'object' || usage === null) return null
  const told = { ...(carrier as Json), usage: { ...usage, switchyard } }
  return api === 'messages' ? told : { ...(event as Json), response: told }
}
