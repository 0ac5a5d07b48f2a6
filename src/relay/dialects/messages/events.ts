/**
 * OpenAI's chunks → the named events of Anthropic's stream, in its order: message_start, ping, then per block
 * content_block_start, content_block_delta…, content_block_stop, then message_delta with the stop reason and the usage, and
 * message_stop. One block is open at a time.
 *
 * A stream that waits for its engine has begun already: message_start goes out with the estimate of the prompt, then pings.
 * The engine's counts are in message_delta.
 *
 * Events of a server that speaks this API pass on as they came, but for a second message_start.
 */

import { isNativeEvent } from '../../../core/wire/native/event-reading.ts'
import type { ErrorBody } from '../../../protocol/index.ts'
import { AggregateFault, INDEX_MAX, parseChunk } from '../aggregate.ts'
import type { AnswerFacts, Json, StreamFormat, StreamTranslator } from '../dialect.ts'
import { eventOf } from '../sse-event.ts'
import {
  emptyMessage,
  reasoningOf,
  stopOf,
  textBlock,
  toolUseBlock,
  toolUseId,
  usageEstimate,
  usageOf,
} from './answer.ts'
import { isObject } from './content.ts'
import { anthropicError, requestId } from './errors.ts'

/** Chunks of thinking that the client does not see, per ping. */
const HIDDEN_CHUNKS_PER_PING = 16

interface OpenBlock {
  type: 'text' | 'thinking' | 'tool_use'
  /** Of a tool call: the engine's index. */
  call: number
}

export class MessageEvents implements StreamFormat, StreamTranslator {
  readonly translator = this
  readonly #facts: AnswerFacts
  readonly #shows_thinking: boolean
  #has_begun = false
  #is_native = false
  #open: OpenBlock | null = null
  #blocks = 0
  readonly #calls = new Set<number>()
  #choice: Json = {}
  #usage: Json | null = null
  #hidden_chunks = 0

  constructor(facts: AnswerFacts, shows_thinking: boolean) {
    this.#facts = facts
    this.#shows_thinking = shows_thinking
  }

  waiting(): string {
    return this.#has_begun ? PING : this.#begin()
  }

  fail(status: number, error: ErrorBody): string {
    return event('error', anthropicError(status, error, requestId(this.#facts.call)))
  }

  add(data: string): string {
    const chunk = parseChunk(data)
    if (isNativeEvent(chunk)) return this.#passedOn(chunk.type, data)
    let text = this.#has_begun ? '' : this.#begin()
    if (isObject(chunk.usage)) this.#usage = chunk.usage
    const choices = Array.isArray(chunk.choices) ? (chunk.choices as unknown[]) : []
    for (const choice of choices) if (isObject(choice)) text += this.#take(choice)
    return text
  }

  finish(): string {
    if (this.#is_native) return ''
    const begun = this.#has_begun ? '' : this.#begin()
    const stop = { ...stopOf(this.#choice, this.#calls.size > 0), stop_details: null, container: null }
    const usage = this.#usage === null ? usageEstimate(this.#facts) : usageOf(this.#usage)
    const delta = event('message_delta', { type: 'message_delta', delta: stop, usage })
    return begun + this.#close() + delta + event('message_stop', { type: 'message_stop' })
  }

  #passedOn(type: string, data: string): string {
    this.#is_native = true
    const is_second = type === 'message_start' && this.#has_begun
    this.#has_begun = true
    return is_second ? '' : eventOf(type, data)
  }

  #begin(): string {
    this.#has_begun = true
    const message = { ...emptyMessage(this.#facts), usage: usageEstimate(this.#facts) }
    return event('message_start', { type: 'message_start', message }) + PING
  }

  #take(choice: Json): string {
    const { finish_reason, stop_reason } = choice
    if (finish_reason !== undefined && finish_reason !== null) this.#choice = { finish_reason, stop_reason }
    const delta = isObject(choice.delta) ? choice.delta : {}
    let text = this.#thought(reasoningOf(delta))
    if (typeof delta.content === 'string' && delta.content !== '') {
      text += this.#inBlock('text', 0, () => textBlock(''))
      text += this.#delta({ type: 'text_delta', text: delta.content })
    }
    const calls = Array.isArray(delta.tool_calls) ? (delta.tool_calls as unknown[]) : []
    for (const call of calls) if (isObject(call)) text += this.#called(call)
    return text
  }

  #thought(thinking: string): string {
    if (thinking === '') return ''
    if (this.#shows_thinking) {
      const opened = this.#inBlock('thinking', 0, () => ({ type: 'thinking', thinking: '', signature: '' }))
      return opened + this.#delta({ type: 'thinking_delta', thinking })
    }
    this.#hidden_chunks += 1
    return this.#hidden_chunks % HIDDEN_CHUNKS_PER_PING === 0 ? PING : ''
  }

  #called(piece: Json): string {
    const index = piece.index ?? 0
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index > INDEX_MAX) {
      throw new AggregateFault('the engine sent a tool call with an index out of range')
    }
    const called = isObject(piece.function) ? piece.function : {}
    const text = this.#inBlock('tool_use', index, () => {
      if (this.#calls.has(index)) throw new AggregateFault('the engine went on with a tool call after another one')
      if (typeof called.name !== 'string') throw new AggregateFault('the engine sent a tool call without a name')
      this.#calls.add(index)
      const id = typeof piece.id === 'string' ? piece.id : toolUseId(this.#facts, index)
      return toolUseBlock(id, called.name, {})
    })
    const { arguments: json } = called
    if (typeof json !== 'string' || json === '') return text
    return text + this.#delta({ type: 'input_json_delta', partial_json: json })
  }

  /** Opens the block if it is not the open one. */
  #inBlock(type: OpenBlock['type'], call: number, begin: () => Json): string {
    if (this.#open?.type === type && this.#open.call === call) return ''
    const content_block = begin()
    const closed = this.#close()
    this.#open = { type, call }
    return closed + event('content_block_start', { type: 'content_block_start', index: this.#blocks, content_block })
  }

  #delta(delta: Json): string {
    return event('content_block_delta', { type: 'content_block_delta', index: this.#blocks, delta })
  }

  #close(): string {
    if (this.#open === null) return ''
    const index = this.#blocks
    this.#open = null
    this.#blocks += 1
    return event('content_block_stop', { type: 'content_block_stop', index })
  }
}

const PING = event('ping', { type: 'ping' })

function event(name: string, data: object): string {
  return eventOf(name, JSON.stringify(data))
}
