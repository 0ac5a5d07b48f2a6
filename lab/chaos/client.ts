/**
 * A client that judges what it gets, in any of the APIs. Under every fault, a call ends in one of four honest ways: whole,
 * with an error event, with a broken connection, or refused with an error body. Everything else is a violation: an answer that
 * looks whole and is not, one with a word that an unbroken answer would not have, or one that is no answer at all.
 */

import { SseSplitter } from '../../src/core/wire/sse.ts'
import { DONE } from '../../src/protocol/stream.ts'
import { type Api, bodyOf, codeOf, PATHS, readAnswer, readEvent, type Usage } from './apis.ts'
import { expectedAnswer } from './expected-text.ts'

export interface ClientCall {
  url: string
  api_key: string
  model: string
  /** Default: chat. */
  api?: Api
  program: string | null
  prompt: string
  /** Exact: an emulated engine writes so many tokens where it is asked for fewer than a default answer. */
  output_tokens: number
  /** A budget may cut it to fewer. */
  may_be_cut?: boolean
  /** What an unbroken answer says. Default: as an emulated engine answers. */
  expected?: string
  stream: boolean
  signal?: AbortSignal
  headers?: Readonly<Record<string, string>>
  /** Told of every piece of the body. */
  onBytes?: (bytes: Uint8Array) => void | Promise<void>
}

/** What a client sees of a stream while it flows. */
export interface Flow {
  /** With text. */
  events: number
  /** Between two of them. */
  longest_gap_ms: number
}

interface Seen {
  call: string | null
  engine: string | null
  region: string | null
  flow: Flow
}

export type ClientEnd = Seen &
  (
    | { end: 'completed'; usage: Usage }
    | { end: 'error_event'; code: string | null }
    | { end: 'broken'; reason: string }
    | { end: 'refused'; status: number; code: string | null; retry_after_s: number | null }
    | { end: 'left' }
    | { end: 'half_truth'; reason: string; text: string }
  )

const TEXT_SHOWN_CHARS = 600

export async function clientCall(call: ClientCall): Promise<ClientEnd> {
  const { api = 'chat' } = call
  let seen: Seen = { call: null, engine: null, region: null, flow: { events: 0, longest_gap_ms: 0 } }
  try {
    const response = await fetch(`${call.url}${PATHS[api]}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${call.api_key}`,
        'content-type': 'application/json',
        ...(call.program === null ? {} : { 'x-program-id': call.program }),
        ...call.headers,
      },
      body: JSON.stringify(bodyOf(api, call)),
      ...(call.signal === undefined ? {} : { signal: call.signal }),
    })
    const header = (name: string): string | null => response.headers.get(name)
    const stream = call.stream && response.status === 200 ? new StreamJudge(api, call) : null
    const flow = stream?.flow ?? seen.flow
    seen = { call: header('x-call-id'), engine: header('x-engine-id'), region: header('x-region'), flow }
    const text = await textOf(response, call, stream)
    if (stream !== null) return { ...seen, ...stream.judged(text) }
    return { ...seen, ...(response.status === 200 ? judgeWhole(text, api, call) : refusal(response, text)) }
  } catch (error) {
    if (call.signal?.aborted === true) return { ...seen, end: 'left' }
    return { ...seen, end: 'broken', reason: reasonOf(error) }
  }
}

async function textOf(response: Response, call: ClientCall, stream: StreamJudge | null): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  if (response.body === null) return text
  for await (const bytes of response.body) {
    text += decoder.decode(bytes, { stream: true })
    stream?.add(bytes)
    await call.onBytes?.(bytes)
  }
  return text
}

type Judged = ClientEnd extends infer End ? (End extends Seen ? Omit<End, keyof Seen> : never) : never

function halfTruth(reason: string, text: string): Judged {
  const shown = text.length > TEXT_SHOWN_CHARS ? `… ${text.slice(-TEXT_SHOWN_CHARS)}` : text
  return { end: 'half_truth', reason, text: shown }
}

function refusal(response: Response, text: string): Judged {
  const retry_after = response.headers.get('retry-after')
  try {
    const { error } = JSON.parse(text) as { error: { message: unknown; code: string | null } }
    if (typeof error.message !== 'string') return halfTruth('a refusal without a message', text)
    const retry_after_s = retry_after === null ? null : Number(retry_after)
    return { end: 'refused', status: response.status, code: codeOf(error), retry_after_s }
  } catch {
    return halfTruth(`${response.status} whose body is no error`, text)
  }
}

class StreamJudge {
  readonly flow: Flow = { events: 0, longest_gap_ms: 0 }
  readonly #api: Api
  readonly #call: ClientCall
  readonly #splitter = new SseSplitter()
  #said = ''
  #begins = 0
  #finishes = 0
  #usage: Usage | null = null
  #state: 'open' | 'done' | 'failed' = 'open'
  #code: string | null = null
  #last_ms: number | null = null
  /** The first one. */
  #fault: string | null = null

  constructor(api: Api, call: ClientCall) {
    this.#api = api
    this.#call = call
  }

  add(bytes: Uint8Array): void {
    for (const frame of this.#splitter.frames(bytes)) {
      if (frame.kind === 'event') this.#fault ??= this.#read(frame.data)
    }
  }

  /** `text`: all of the body. */
  judged(text: string): Judged {
    if (this.#splitter.rest().length > 0) return halfTruth('ends inside a frame', text)
    if (this.#fault !== null) return halfTruth(this.#fault, text)
    if (this.#state === 'failed') return { end: 'error_event', code: this.#code }
    if (this.#state === 'open') return halfTruth('ends without a mark of its end or an error', text)
    if (this.#finishes !== 1) return halfTruth(`finished ${this.#finishes} times`, text)
    if (this.#begins !== 1 && this.#api !== 'completions') return halfTruth(`began ${this.#begins} times`, text)
    return judgeSaid(this.#said, this.#usage, this.#api, this.#call, text)
  }

  /** What is wrong with it. */
  #read(data: string): string | null {
    const [api, was] = [this.#api, this.#state]
    // Clients of this API read the error twice, in an event and in the response.
    const is_told_again = api === 'responses' && was === 'failed' && data.startsWith('{"type":"response.failed"')
    if (was !== 'open' && !is_told_again) return 'goes on after its end'
    if (data === DONE) {
      this.#state = 'done'
      return null
    }
    const event = parsed(data)
    if (event === null) return 'has an event that is no JSON'
    const { text, begins, finishes, usage, error, ends } = readEvent(api, event)
    if (this.#finishes > 0 && (text !== '' || finishes > 0)) return 'has a choice after its finish'
    this.#said += text
    this.#begins += begins
    this.#finishes += finishes
    if (usage !== null && this.#usage !== null) return 'has a second usage'
    this.#usage = usage ?? this.#usage
    if (ends && was === 'open') this.#state = 'done'
    if (error !== null) {
      this.#state = 'failed'
      this.#code = error.code
    }
    if (text !== '') this.#flowed()
    return null
  }

  #flowed(): void {
    const now_ms = performance.now()
    if (this.#last_ms !== null) this.flow.longest_gap_ms = Math.max(this.flow.longest_gap_ms, now_ms - this.#last_ms)
    this.#last_ms = now_ms
    this.flow.events += 1
  }
}

function judgeWhole(text: string, api: Api, call: ClientCall): Judged {
  const answer = parsed(text)
  if (answer === null) return halfTruth('is not JSON', text)
  const read = readAnswer(api, answer)
  if (read === null) return halfTruth('has no finished answer', text)
  return judgeSaid(read.text, read.usage, api, call, text)
}

/** Whole, if an unbroken answer says the same. */
function judgeSaid(said: string, usage: Usage | null, api: Api, call: ClientCall, text: string): Judged {
  if (usage === null) return halfTruth('has no usage', text)
  const { completion_tokens: billed } = usage
  const { output_tokens: due, may_be_cut = false } = call
  if (billed > due || (billed < due && !may_be_cut)) return halfTruth(`${billed} tokens billed, ${due} due`, text)
  if (said !== (call.expected ?? expectedAnswer(api, call.prompt, billed)))
    return halfTruth('does not say what it should', text)
  return { end: 'completed', usage }
}

function parsed(json: string): object | null {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { code?: string; message?: string } }
  return [message, cause?.code ?? cause?.message].filter((part) => part !== undefined).join(': ')
}
