/**
 * Joins the events of a server that speaks the Messages API into one message, for a client that did not ask for a stream. Blocks
 * keep the fields that the server gave them, whatever their kind, and grow by their deltas.
 */
import { AggregateFault, ANSWER_BYTES_MAX, INDEX_MAX, parseChunk } from '../aggregate.ts'
import type { Json } from '../dialect.ts'
import { isObject } from './content.ts'

/** Fields of a delta that continue the block's field of the same name. */
const GROWING = ['text', 'thinking', 'signature'] as const

export class NativeMessage {
  #message: Json | null = null
  readonly #blocks: Json[] = []
  /** Input of calls, as it comes. */
  readonly #inputs = new Map<number, string>()
  #bytes = 0

  /** The data of one event. Throws as ResponseBuilder.add does. */
  add(data: string): void {
    this.#bytes += data.length
    if (this.#bytes > ANSWER_BYTES_MAX) throw new AggregateFault(`the answer is larger than ${ANSWER_BYTES_MAX} bytes`)
    const event = parseChunk(data)
    if (event.type === 'message_start' && isObject(event.message)) this.#message = { ...event.message }
    else if (event.type === 'content_block_start') this.#blocks[indexOf(event)] = { ...objectIn(event.content_block) }
    else if (event.type === 'content_block_delta') this.#grow(indexOf(event), objectIn(event.delta))
    else if (event.type === 'message_delta') this.#end(event)
  }

  finish(): Json {
    if (this.#message === null) throw new AggregateFault('the engine sent a message without a beginning')
    for (const [index, json] of this.#inputs) {
      const block = this.#blocks[index]
      if (block !== undefined) block.input = inputOf(json)
    }
    return { ...this.#message, content: this.#blocks.filter((block) => block !== undefined) }
  }

  #grow(index: number, delta: Json): void {
    const block = this.#blocks[index]
    if (block === undefined) throw new AggregateFault('the engine went on with a block that had not begun')
    for (const field of GROWING) {
      if (typeof delta[field] === 'string') block[field] = `${block[field] ?? ''}${delta[field]}`
    }
    if (typeof delta.partial_json === 'string') {
      this.#inputs.set(index, `${this.#inputs.get(index) ?? ''}${delta.partial_json}`)
    }
    if (isObject(delta.citation)) {
      block.citations = [...(Array.isArray(block.citations) ? block.citations : []), delta.citation]
    }
  }

  #end({ delta, usage }: Json): void {
    const message = this.#message ?? {}
    const counted = { ...objectIn(message.usage), ...objectIn(usage) }
    this.#message = { ...message, ...objectIn(delta), usage: counted }
  }
}

/** A call that the output limit cut has an input that is no JSON. */
function inputOf(json: string): unknown {
  try {
    return JSON.parse(json === '' ? '{}' : json)
  } catch (error) {
    if (error instanceof SyntaxError) return {}
    throw error
  }
}

function indexOf({ index }: Json): number {
  if (typeof index === 'number' && Number.isInteger(index) && index >= 0 && index <= INDEX_MAX) return index
  throw new AggregateFault('the engine sent a block with an index out of range')
}

function objectIn(value: unknown): Json {
  return isObject(value) ? value : {}
}
