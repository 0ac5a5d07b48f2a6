/**
 * Finds out how a server behaves by calling it: whether it streams with usage, reuses prefixes, calls tools, keeps to JSON
 * schemas, gives log probabilities and several choices, goes on with a text, and whether it stops when its client leaves. At most PROBE_CALLS_MAX
 * calls and PROBE_TOKENS_MAX tokens of output, bounded in time. Each answer is yes, no, or null where it could not be seen:
 * a model that does not want to call a tool proves nothing about its server.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { type Asking, addressOf, ask, jsonOf, keyHeaders } from './ask-server.ts'
import type { Behaviour } from './behaviour.ts'
import type { Continuing } from './continuing/continuing.ts'
import { probeContinuing } from './continuing/probe-continuing.ts'
import { loadOfMetrics, METRICS_BYTES_MAX } from './server-metrics.ts'

export const PROBE_CALLS_MAX = 20
export const PROBE_TOKENS_MAX = 2000
const CALL_MS_MAX = 60_000
const SHORT_TOKENS = 8
const FORMAT_TOKENS = 96
const LEFT_TOKENS = 400
/** A server that has not stopped so long after its client left does not stop. */
const LEFT_MS_MAX = 1500
const PREFIX_WORDS = 300

const Answer = z.object({
  choices: z.array(
    z.object({
      logprobs: z.unknown().optional(),
      message: z.object({ content: z.string().nullish(), tool_calls: z.array(z.unknown()).nullish() }).nullish(),
    }),
  ),
  usage: z
    .object({
      prompt_tokens: z.number().nullish(),
      completion_tokens: z.number().nullish(),
      prompt_tokens_details: z.object({ cached_tokens: z.number().nullish() }).nullish(),
    })
    .nullish(),
})
type Answer = z.infer<typeof Answer>

const Chunk = z.object({
  choices: z.array(
    z.object({ delta: z.object({ content: z.string().nullish() }).nullish(), text: z.string().nullish() }),
  ),
  usage: Answer.shape.usage,
})
const CHAT = '/v1/chat/completions'
const COMPLETIONS = '/v1/completions'

const TOOL = {
  type: 'function',
  function: {
    name: 'weather',
    description: 'Tells the weather of a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}
const SCHEMA = {
  type: 'object',
  properties: { colour: { enum: ['red', 'blue'] } },
  required: ['colour'],
  additionalProperties: false,
}

export async function probeServer(server: Asking, model: string, reports_queue: boolean): Promise<Behaviour> {
  const probe = new Probe(server, model)
  const behaviour = {
    ...(await probe.streams()),
    cached_tokens: await probe.cachedTokens(),
    tools: await probe.tools(),
    schemas: await probe.schemas(),
    logprobs: await probe.logprobs(),
    choices: await probe.choices(),
    continues: await probe.continues(),
    stops_when_left: reports_queue ? await probe.stopsWhenLeft() : null,
  }
  return { ...behaviour, calls: probe.calls, tokens: probe.tokens }
}

function chunksOf(stream: string): z.infer<typeof Chunk>[] {
  const lines = stream.split('\n').filter((line) => line.startsWith('data: {'))
  return lines.flatMap((line) => Chunk.safeParse(jsonOf(line.slice(6))).data ?? [])
}

class Probe {
  calls = 0
  tokens = 0
  readonly #server: Asking
  readonly #model: string

  constructor(server: Asking, model: string) {
    this.#server = server
    this.#model = model
  }

  async streams(): Promise<Pick<Behaviour, 'usage_in_streams' | 'token_chunks'>> {
    const text = await this.#text({ stream: true, stream_options: { include_usage: true } }, SHORT_TOKENS)
    if (text === null) return { usage_in_streams: null, token_chunks: null }
    const chunks = chunksOf(text)
    const output_tokens = chunks.findLast(({ usage }) => usage?.completion_tokens != null)?.usage?.completion_tokens
    if (output_tokens == null) return { usage_in_streams: false, token_chunks: null }
    const written = chunks.filter(({ choices: [choice] }) => (choice?.delta?.content ?? '') !== '').length
    // What ends an answer is a token without text.
    const token_chunks = written > 1 && (written === output_tokens || written === output_tokens - 1)
    return { usage_in_streams: true, token_chunks }
  }

  /** By streams, as calls are served: llama.cpp (build 11434) says a text again in some of its answers in one piece alone. */
  continues(): Promise<Continuing | null> {
    return probeContinuing(async (api, fields, max_tokens) => {
      const streamed = { ...fields, stream: true, stream_options: { include_usage: true } }
      const answered = await this.#call(streamed, max_tokens, api === 'chat' ? CHAT : COMPLETIONS)
      if (answered?.ok !== true) return null
      const chunks = chunksOf(answered.value)
      const text = chunks.map(({ choices: [choice] }) => choice?.delta?.content ?? choice?.text ?? '').join('')
      return { text, prompt_tokens: chunks.at(-1)?.usage?.prompt_tokens ?? null }
    })
  }

  async cachedTokens(): Promise<boolean | null> {
    const content = `${'one two three four five '.repeat(PREFIX_WORDS / 5)}Say yes.`
    const messages = [{ role: 'user', content }]
    await this.#answer({ messages }, SHORT_TOKENS)
    const second = await this.#answer({ messages }, SHORT_TOKENS)
    const cached = second.answer?.usage?.prompt_tokens_details?.cached_tokens
    return cached == null ? null : cached > 0
  }

  async tools(): Promise<boolean | null> {
    const messages = [{ role: 'user', content: 'What is the weather in Paris? Use the tool.' }]
    const { answer, refused } = await this.#answer({ messages, tools: [TOOL], tool_choice: 'required' }, FORMAT_TOKENS)
    if (refused) return false
    return (answer?.choices[0]?.message?.tool_calls?.length ?? 0) > 0 ? true : null
  }

  async schemas(): Promise<boolean | null> {
    const messages = [{ role: 'user', content: 'Tell me a short story about the sea.' }]
    const json_schema = { name: 'colour', schema: SCHEMA, strict: true }
    const { answer, refused } = await this.#answer(
      { messages, response_format: { type: 'json_schema', json_schema } },
      FORMAT_TOKENS,
    )
    if (refused) return false
    const content = answer?.choices[0]?.message?.content
    if (content == null) return null
    const value = jsonOf(content)
    if (value !== null) return typeof value === 'object' && 'colour' in (value as object)
    // White space without an end is allowed by some grammars; prose is not.
    return /^\s*(\{|$)/.test(content) ? null : false
  }

  async logprobs(): Promise<boolean | null> {
    const { answer, refused } = await this.#answer({ logprobs: true, top_logprobs: 1 }, SHORT_TOKENS)
    if (refused) return false
    return answer === null ? null : answer.choices[0]?.logprobs != null
  }

  async choices(): Promise<boolean | null> {
    const { answer, refused } = await this.#answer({ n: 2 }, SHORT_TOKENS)
    if (refused) return false
    return answer === null ? null : answer.choices.length === 2
  }

  /** Leaves a long answer at its first bytes, and looks whether a call still runs. Nobody else may be calling. */
  async stopsWhenLeft(): Promise<boolean | null> {
    if ((await this.#running()) !== 0 || !this.#may(LEFT_TOKENS)) return null
    const leaving = new AbortController()
    const headers = { ...keyHeaders(this.#server), 'content-type': 'application/json' }
    const messages = [{ role: 'user', content: 'Count from one to one thousand in words.' }]
    const body = JSON.stringify({ model: this.#model, messages, stream: true, max_tokens: LEFT_TOKENS })
    try {
      const signal = AbortSignal.any([leaving.signal, AbortSignal.timeout(CALL_MS_MAX)])
      const response = await fetch(addressOf(this.#server, CHAT), {
        method: 'POST',
        headers,
        body,
        signal,
        redirect: 'manual',
      })
      await response.body?.getReader().read()
    } catch {
      // Refused, reset or too late: nothing was seen.
      return null
    } finally {
      leaving.abort()
    }
    await sleep(LEFT_MS_MAX)
    const running = await this.#running()
    return running === null ? null : running === 0
  }

  async #running(): Promise<number | null> {
    const metrics = await ask(this.#server, '/metrics', { bytes_max: METRICS_BYTES_MAX })
    const load = metrics.ok ? loadOfMetrics(metrics.value, 0) : null
    return load === null ? null : load.running + load.waiting
  }

  /** Whether another call of so many tokens is within the bounds. */
  #may(tokens: number): boolean {
    if (this.calls >= PROBE_CALLS_MAX || this.tokens + tokens > PROBE_TOKENS_MAX) return false
    this.calls += 1
    this.tokens += tokens
    return true
  }

  async #text(fields: object, max_tokens: number): Promise<string | null> {
    const answered = await this.#call(fields, max_tokens)
    return answered?.ok === true ? answered.value : null
  }

  /** `refused`: the server does not take the field. */
  async #answer(fields: object, max_tokens: number): Promise<{ answer: Answer | null; refused: boolean }> {
    const answered = await this.#call(fields, max_tokens)
    if (answered === null) return { answer: null, refused: false }
    if (!answered.ok) return { answer: null, refused: answered.status === 400 || answered.status === 422 }
    return { answer: Answer.safeParse(jsonOf(answered.value)).data ?? null, refused: false }
  }

  async #call(fields: object, max_tokens: number, path = CHAT): Promise<Awaited<ReturnType<typeof ask>> | null> {
    const choices = 'n' in fields ? Number(fields.n) : 1
    if (!this.#may(max_tokens * choices)) return null
    const asked = path === CHAT ? { messages: [{ role: 'user', content: 'Say hello.' }] } : {}
    const body = { model: this.#model, ...asked, temperature: 0, max_tokens, ...fields }
    return ask(this.#server, path, { body, ms_max: CALL_MS_MAX })
  }
}
