/** A streamed completion of an OpenAI-compatible endpoint, timed piece by piece. */
import { z } from 'zod'
import { SseSplitter } from '../../src/core/wire/sse.ts'
import { Usage } from '../../src/protocol/openai.ts'
import { DONE } from '../../src/protocol/stream.ts'
import type { StreamCall, StreamedCall } from './drive-endpoint.ts'

export interface EndpointOptions {
  /** Ends in /v1. */
  url: string
  model: string
  api_key: string | null
  clock: () => number
}

const CALL_TIMEOUT_MS = 300_000
/** Prompts that are tried for one call: some models have nothing to say to some, and what was not said cannot be timed. */
export const PROMPTS_MAX = 5

const chunkSchema = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().nullish() }) })).optional(),
  usage: Usage.pick({ completion_tokens: true })
    .extend({ prompt_tokens: Usage.shape.prompt_tokens.min(1) })
    .nullish(),
  error: z.object({ message: z.string() }).optional(),
})

/** Words of about one token each; the number first, so that no prompt starts as another. */
const WORDS = ['time', 'year', 'people', 'way', 'day', 'man', 'thing', 'woman', 'life', 'child', 'world', 'school']

export function openaiStream({ url, model, api_key, clock }: EndpointOptions): StreamCall {
  let number = Math.floor(clock())
  const ask: StreamCall = async (prompt_tokens, output_tokens) => {
    number += 1
    const seed = number
    const words = Array.from(
      { length: Math.max(1, prompt_tokens - 8) },
      (_, i) => WORDS[(seed * 7 + i * i + i) % WORDS.length],
    )
    const started_us = clock()
    const response = await fetch(`${url.replace(/\/$/, '')}/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(api_key === null ? {} : { authorization: `Bearer ${api_key}` }),
      },
      body: JSON.stringify({
        model,
        messages: [{ role: 'user', content: `${seed} ${words.join(' ')}` }],
        max_tokens: output_tokens,
        temperature: 0,
        stream: true,
        stream_options: { include_usage: true },
      }),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    })
    if (!response.ok || response.body === null) {
      throw new Error(`${url} answered ${response.status}: ${(await response.text()).slice(0, 300)}`)
    }
    return await readStream(response.body, started_us, clock)
  }
  return async (prompt_tokens, output_tokens) => {
    for (let tries = 1; tries <= PROMPTS_MAX; tries += 1) {
      const call = await ask(prompt_tokens, output_tokens)
      if (call.pieces_us.length > 0) return call
    }
    throw new Error(`the answers to ${PROMPTS_MAX} prompts had no text`)
  }
}

export async function readStream(
  body: ReadableStream<Uint8Array>,
  started_us: number,
  clock: () => number,
): Promise<StreamedCall> {
  const pieces_us: number[] = []
  let usage: { prompt_tokens: number; completion_tokens: number } | null = null
  const splitter = new SseSplitter()
  for await (const bytes of body) {
    const at_us = clock()
    for (const frame of splitter.frames(bytes)) {
      if (frame.kind === 'comment' || frame.data === DONE) continue
      const chunk = chunkSchema.parse(JSON.parse(frame.data))
      if (chunk.error !== undefined) throw new Error(chunk.error.message)
      if (chunk.choices?.some(({ delta }) => (delta.content ?? '') !== '')) pieces_us.push(at_us)
      if (chunk.usage !== null && chunk.usage !== undefined) usage = chunk.usage
    }
  }
  if (usage === null) throw new Error('the stream had no usage: the endpoint must honour stream_options.include_usage')
  return { started_us, pieces_us, prompt_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens }
}
