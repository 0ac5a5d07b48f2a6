/**
 * One call as a client makes it: a completion over HTTP that runs to its stated length. As with the SDKs, it is tried again
 * when a refusal names a pause, and when the connection breaks before the answer begins.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { UsageExtension } from '../../src/protocol/measurement.ts'
import { Usage } from '../../src/protocol/openai.ts'

export interface Endpoint {
  url: string
  api_key: string
  model: string
}

export interface AskedCall {
  program: string
  prompt: string
  /** Ids of calls. */
  parents: readonly string[]
  /** Left out: the control plane infers it. */
  thread?: string
  output_tokens: number
}

export interface CompletedCall {
  call_id: string
  text: string
  usage: z.output<typeof Answer>['usage']
  /** Refusals and broken connections before it. */
  retries: number
}

const CALL_TIMEOUT_MS = 600_000
/** A refusal that names a pause (an engine that is being attached, a queue that is full) or a broken connection is tried again so often. */
const RETRIES_MAX = 5
/** Behind the first broken connection, and doubled behind each further one. */
const RETRY_PAUSE_MS = 500
const RETRY_PAUSE_MS_MAX = 5000
/** Node's name for a reset, undici's for a connection that the server closed, and a write to such a one. */
const BROKEN: ReadonlySet<string> = new Set(['ECONNRESET', 'UND_ERR_SOCKET', 'EPIPE'])
const ERROR_CHARS_MAX = 300

const Answer = z.object({
  choices: z.array(z.object({ text: z.string() })).min(1),
  usage: Usage.extend({
    prompt_tokens_details: Usage.shape.prompt_tokens_details.nullish(),
    switchyard: UsageExtension.pick({ ttft_s: true, tpot_s: true }),
  }),
})

export async function completeCall(endpoint: Endpoint, call: AskedCall): Promise<CompletedCall> {
  const { parents, thread, prompt, output_tokens: max_tokens } = call
  const headers = {
    ...authorization(endpoint),
    ...{ 'content-type': 'application/json', 'x-program-id': call.program },
    ...(thread === undefined ? {} : { 'x-thread-id': thread }),
    ...(parents.length === 0 ? {} : { 'x-parent-calls': parents.join(',') }),
  }
  const body = JSON.stringify({ model: endpoint.model, prompt, max_tokens, temperature: 0, ignore_eos: true })
  let breaks = 0
  for (let attempt = 0; ; attempt += 1) {
    const { response, broken } = await send(`${endpoint.url}/v1/completions`, { method: 'POST', headers, body })
    breaks += broken
    const text = await response.text()
    if (response.ok) return completed(call, response, text, attempt + breaks)
    const again_s = Number(response.headers.get('retry-after') ?? Number.NaN)
    if (attempt >= RETRIES_MAX || !Number.isFinite(again_s)) {
      throw new Error(`a call of ${call.program} was answered ${response.status}: ${text.slice(0, ERROR_CHARS_MAX)}`)
    }
    await sleep(Math.min(RETRY_PAUSE_MS_MAX, again_s * 1000))
  }
}

/**
 * Asks again where the connection breaks before the answer begins, as one that was kept open and that the server closes
 * meanwhile. `broken`: so many did.
 */
export async function send(url: string, init: RequestInit): Promise<{ response: Response; broken: number }> {
  for (let broken = 0; ; broken += 1) {
    try {
      return { response: await fetch(url, { ...init, signal: AbortSignal.timeout(CALL_TIMEOUT_MS) }), broken }
    } catch (error) {
      if (broken >= RETRIES_MAX || !isBroken(error)) throw error
      await sleep(Math.min(RETRY_PAUSE_MS_MAX, RETRY_PAUSE_MS * 2 ** broken))
    }
  }
}

function isBroken(error: unknown): boolean {
  const { cause } = error as Error
  return cause instanceof Error && BROKEN.has((cause as NodeJS.ErrnoException).code ?? '')
}

export async function endProgram(endpoint: Endpoint, program: string): Promise<void> {
  await send(`${endpoint.url}/v1/programs/${program}`, { method: 'DELETE', headers: authorization(endpoint) })
}

export function authorization({ api_key }: Endpoint): { authorization: string } {
  return { authorization: `Bearer ${api_key}` }
}

function completed(
  { program, output_tokens }: AskedCall,
  response: Response,
  text: string,
  retries: number,
): CompletedCall {
  const { choices, usage } = Answer.parse(JSON.parse(text))
  if (usage.completion_tokens !== output_tokens) {
    throw new Error(`a call of ${program} gave ${usage.completion_tokens} tokens, not ${output_tokens}`)
  }
  const call_id = response.headers.get('x-call-id')
  if (call_id === null) throw new Error('an answer has no X-Call-Id')
  return { call_id, text: choices[0]?.text ?? '', usage, retries }
}
