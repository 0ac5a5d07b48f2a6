/**
 * Writes a response from an engine's chat chunks, as one object and as OpenAI's stream events: created and in progress,
 * the output items, then completed, incomplete or failed. Each event has the next sequence number.
 *
 * Events of a server that speaks this API pass on as they came.
 */
import { responseId, storedKey } from '../../../core/call/response-ids.ts'
import { isNativeEvent } from '../../../core/wire/native/event-reading.ts'
import type { ErrorBody } from '../../../protocol/index.ts'
import { AggregateFault, ANSWER_BYTES_MAX, parseChunk } from '../aggregate.ts'
import type { Json } from '../dialect.ts'
import { eventOf } from '../sse-event.ts'
import { ChatChunk, type ChatUsage } from './chat-chunk.ts'
import { OutputItems } from './output-items.ts'
import { clientParam, type TranslatedRequest } from './request.ts'
import type { ErrorCode, ResponseObject, ResponseUsage, StreamEvent } from './types.ts'

export interface WriterFacts {
  /** Id of the call. */
  call: string
  /** Of the stored chain that the response goes on; null: any. */
  shard: number | null
  now(): number
}

export class ResponseWriter {
  /** What the ids of the response and its items are made of. */
  readonly key: string
  readonly #request: TranslatedRequest
  readonly #facts: WriterFacts
  readonly #items: OutputItems
  #response: ResponseObject
  #bytes = 0
  #sequence = 0
  #begun = false
  #is_native = false
  #finish_reason: string | null = null

  constructor(request: TranslatedRequest, facts: WriterFacts) {
    this.#request = request
    this.#facts = facts
    this.key = storedKey(facts.call, facts.shard)
    const { tools, encrypted_reasoning } = request
    this.#items = new OutputItems({ key: this.key, tools: tools.byName, encrypted_reasoning })
    this.#response = {
      ...request.echo,
      ...{ id: responseId(this.key), object: 'response', access_programs: null, background: false },
      ...{ created_at: seconds(facts.now()), completed_at: null, error: null, incomplete_details: null },
      ...{ output: this.#items.items, service_tier: 'default', status: 'in_progress', usage: null },
    }
  }

  /** The response as it stands. */
  get response(): ResponseObject {
    return this.#response
  }

  /** Adds the data of one chunk. Throws AggregateFault if it is no chunk or too large, StatedFault if it is an error. */
  add(data: string): string {
    this.#bytes += data.length
    if (this.#bytes > ANSWER_BYTES_MAX) throw new AggregateFault(`the answer is larger than ${ANSWER_BYTES_MAX} bytes`)
    const chunk = parseChunk(data)
    if (isNativeEvent(chunk)) return this.#passedOn(chunk, data)
    const checked = ChatChunk.safeParse(chunk)
    if (!checked.success) throw new AggregateFault('the engine sent a chunk that is no chat chunk')
    const { choices, usage } = checked.data
    if (usage != null) this.#response.usage = usageOf(usage)
    const begin = this.#begin()
    const [choice] = choices ?? []
    if (choice === undefined) return begin
    this.#finish_reason = choice.finish_reason ?? this.#finish_reason
    return begin + this.#written(this.#items.add(choice.delta ?? {}, choice.logprobs?.content ?? []))
  }

  /** What follows the engine's [DONE]. */
  finish(): string {
    if (this.#is_native) return ''
    const begin = this.#begin()
    const reason = incompleteReason(this.#finish_reason)
    const status = reason === null ? 'completed' : 'incomplete'
    const items = this.#written(this.#items.finish(status))
    Object.assign(this.#response, { status, incomplete_details: reason === null ? null : { reason } })
    if (status === 'completed') this.#response.completed_at = seconds(this.#facts.now())
    return begin + items + this.#written([{ type: `response.${status}`, response: this.#response }])
  }

  /** Ends a stream that has begun. SDKs raise on the `error` event, Codex reads `response.failed`. */
  fail(error: ErrorBody): string {
    const begin = this.#begin()
    this.#items.abandon()
    const { code, message } = error
    const param = error.param === null ? null : clientParam(error.param, this.#request.origins)
    this.#response.status = 'failed'
    this.#response.error = { code: errorCode(error), message }
    return (
      begin +
      this.#written([
        { type: 'error', code, message, param },
        { type: 'response.failed', response: this.#response },
      ])
    )
  }

  #passedOn({ type, response, sequence_number }: Json & { type: string }, data: string): string {
    this.#is_native = true
    this.#begun = true
    if (typeof sequence_number === 'number') this.#sequence = sequence_number + 1
    if (typeof response === 'object' && response !== null) this.#response = response as ResponseObject
    return eventOf(type, data)
  }

  #begin(): string {
    if (this.#begun) return ''
    this.#begun = true
    const response = { ...this.#response, usage: null, output: [] }
    return this.#written([
      { type: 'response.created', response },
      { type: 'response.in_progress', response },
    ])
  }

  #written(events: readonly StreamEvent[]): string {
    let text = ''
    for (const event of events) {
      text += sseEvent(event, this.#sequence)
      this.#sequence += 1
    }
    return text
  }
}

export function sseEvent(event: StreamEvent, sequence_number: number): string {
  const { type, ...fields } = event
  return eventOf(type, JSON.stringify({ type, sequence_number, ...fields }))
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000)
}

function incompleteReason(finish_reason: string | null): 'max_output_tokens' | 'content_filter' | null {
  if (finish_reason === 'length') return 'max_output_tokens'
  return finish_reason === 'content_filter' ? 'content_filter' : null
}

function usageOf({ prompt_tokens, completion_tokens, ...usage }: ChatUsage): ResponseUsage {
  const { cached_tokens } = usage.prompt_tokens_details ?? {}
  const { reasoning_tokens } = usage.completion_tokens_details ?? {}
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: { cached_tokens: cached_tokens ?? 0, cache_write_tokens: 0 },
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens: reasoning_tokens ?? 0 },
    total_tokens: usage.total_tokens ?? prompt_tokens + completion_tokens,
    ...(usage.switchyard === undefined ? {} : { switchyard: usage.switchyard }),
  }
}

/** OpenAI's few codes for a failed response. `context_length_exceeded` is the one more that Codex acts on. */
function errorCode({ code, type }: ErrorBody): ErrorCode {
  if (code === 'context_length_exceeded') return code
  if (type === 'rate_limit_error') return 'rate_limit_exceeded'
  return type === 'invalid_request_error' ? 'invalid_prompt' : 'server_error'
}

/**
 * The stream of a stored response again, without deltas. `after`: the sequence number of the last event that the client has.
 */
export function replay(stored: Json, after: number): string {
  const response = stored as unknown as ResponseObject
  const open: ResponseObject = { ...response, status: 'in_progress', completed_at: null, output: [], usage: null }
  const events: StreamEvent[] = [
    { type: 'response.created', response: open },
    { type: 'response.in_progress', response: open },
  ]
  for (const [output_index, item] of response.output.entries()) {
    events.push({ type: 'response.output_item.added', output_index, item })
    events.push({ type: 'response.output_item.done', output_index, item })
  }
  events.push({ type: response.status === 'incomplete' ? 'response.incomplete' : 'response.completed', response })
  return events.map((event, index) => (index > after ? sseEvent(event, index) : '')).join('')
}
