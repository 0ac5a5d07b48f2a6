/**
 * A client that judges what it gets. Under every fault, a call ends in one of four honest ways: whole, with an
 * error event, with a broken connection, or refused with an error body. Everything else is a violation: an answer that
 * looks whole and is not, or one that is no answer at all.
 */

import { SseSplitter } from '../../src/core/wire/sse.ts'
import { DONE } from '../../src/protocol/stream.ts'
import { expectedText } from './expected-text.ts'

export interface ClientCall {
  url: string
  api_key: string
  model: string
  program: string | null
  prompt: string
  /** Exact: an emulated engine writes so many tokens where it is asked for fewer than a default answer. */
  output_tokens: number
  stream: boolean
  signal?: AbortSignal
  headers?: Readonly<Record<string, string>>
  /** Told of every piece of the body. */
  onBytes?: (bytes: Uint8Array) => void | Promise<void>
}

export interface Usage {
  completion_tokens: number
  prompt_tokens_details: { cached_tokens: number }
  switchyard: { service_s: number; wait_s: number; engine: string; region: string }
}

interface Seen {
  call: string | null
  engine: string | null
  region: string | null
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
  let seen: Seen = { call: null, engine: null, region: null }
  let text = ''
  try {
    const response = await fetch(`${call.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${call.api_key}`,
        'content-type': 'application/json',
        ...(call.program === null ? {} : { 'x-program-id': call.program }),
        ...call.headers,
      },
      body: JSON.stringify({
        model: call.model,
        messages: [{ role: 'user', content: call.prompt }],
        max_tokens: call.output_tokens,
        stream: call.stream,
        temperature: 0,
        ...(call.stream ? { stream_options: { include_usage: true } } : {}),
      }),
      ...(call.signal === undefined ? {} : { signal: call.signal }),
    })
    const header = (name: string): string | null => response.headers.get(name)
    seen = { call: header('x-call-id'), engine: header('x-engine-id'), region: header('x-region') }
    text = await bodyOf(response, call)
    if (response.status !== 200) return { ...seen, ...refusal(response, text) }
    return { ...seen, ...(call.stream ? judgeStream(text, call) : judgeWhole(text, call)) }
  } catch (error) {
    if (call.signal?.aborted === true) return { ...seen, end: 'left' }
    return { ...seen, end: 'broken', reason: reasonOf(error) }
  }
}

async function bodyOf(response: Response, call: ClientCall): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  if (response.body === null) return text
  for await (const bytes of response.body) {
    text += decoder.decode(bytes, { stream: true })
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
    return { end: 'refused', status: response.status, code: error.code, retry_after_s }
  } catch {
    return halfTruth(`${response.status} whose body is no error`, text)
  }
}

interface Chunk {
  error?: { message: string; code: string | null }
  choices?: { delta: { content?: string | null }; finish_reason: string | null }[]
  usage?: Usage | null
}

function judgeStream(text: string, call: ClientCall): Judged {
  let said = ''
  let finishes = 0
  let usage: Usage | null = null
  let state: 'open' | 'done' | 'failed' = 'open'
  let code: string | null = null
  const splitter = new SseSplitter()
  const frames = [...splitter.frames(Buffer.from(text))]
  if (splitter.rest().length > 0) return halfTruth('ends inside a frame', text)
  for (const frame of frames) {
    if (frame.kind === 'comment') continue
    if (state !== 'open') return halfTruth('goes on after its end', text)
    if (frame.data === DONE) {
      state = 'done'
      continue
    }
    const chunk = parsed(frame.data)
    if (chunk === null) return halfTruth('has an event that is no JSON', text)
    if (chunk.error !== undefined) {
      state = 'failed'
      code = chunk.error.code
    }
    for (const choice of chunk.choices ?? []) {
      if (finishes > 0) return halfTruth('has a choice after its finish', text)
      said += choice.delta.content ?? ''
      if (choice.finish_reason !== null) finishes += 1
    }
    usage = chunk.usage ?? usage
  }
  if (state === 'failed') return { end: 'error_event', code }
  if (state === 'open') return halfTruth('ends without [DONE] or an error', text)
  if (finishes !== 1) return halfTruth(`finished ${finishes} times`, text)
  if (usage === null) return halfTruth('has no usage', text)
  return usage.completion_tokens === call.output_tokens
    ? saying(said, call, { end: 'completed', usage }, text)
    : halfTruth(`${usage.completion_tokens} tokens billed, ${call.output_tokens} due`, text)
}

/** `judged`, if an unbroken answer says the same. */
function saying(said: string, call: ClientCall, judged: Judged, text: string): Judged {
  return said === expectedText(call.prompt, call.output_tokens)
    ? judged
    : halfTruth('does not say what it should', text)
}

function parsed(json: string): Chunk | null {
  try {
    return JSON.parse(json) as Chunk
  } catch {
    return null
  }
}

interface WholeChoice {
  message?: { content?: string | null }
  finish_reason: string | null
}

function judgeWhole(text: string, call: ClientCall): Judged {
  const answer = parsed(text) as { choices?: WholeChoice[]; usage?: Usage } | null
  if (answer === null) return halfTruth('is not JSON', text)
  const { choices, usage } = answer
  if (choices?.length !== 1 || choices[0]?.finish_reason == null) return halfTruth('has no finished choice', text)
  if (usage?.completion_tokens !== call.output_tokens) return halfTruth('has other tokens than it should', text)
  return saying(choices[0].message?.content ?? '', call, { end: 'completed', usage }, text)
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { code?: string; message?: string } }
  return [message, cause?.code ?? cause?.message].filter((part) => part !== undefined).join(': ')
}
