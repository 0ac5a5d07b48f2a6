/**
 * Agents as users run them, for a provider with rate limits: each has a program of calls, one after the other, and sends the whole
 * conversation with each. Most are short and a few are long, as in traces of agents. All begin at once. They use the `openai`
 * package with its own retries. They are of three applications, whose labels Switchyard gets. A call that the package gives up on
 * loses the program, and with it all tokens that the program had.
 */
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import OpenAI from 'openai'
import { seededRandom } from '../../../simulator/random.ts'

export interface AgentCall {
  /** Characters that the tool's answer, or the task, adds to the conversation. */
  added_chars: number
  output_tokens: number
  gap_ms: number
}

export interface AgentProgram {
  id: string
  /** The application whose agent it is. */
  app: string
  calls: readonly AgentCall[]
}

export interface AgentRun {
  id: string
  calls: number
  finished: boolean
  completion_s: number
  /** Of the calls that were answered. */
  tokens: number
  error: string | null
}

export interface AgentClient {
  /** With /v1. */
  url: string
  key: string
  model: string
  retries: number
  /** Further fields of a call's body. */
  fields?: (call: number) => object
  headers?: (program: AgentProgram) => Record<string, string>
  begins?: (program: AgentProgram) => Promise<void>
  ends?: (program: AgentProgram) => Promise<void>
}

const CHARS_PER_TOKEN = 4
/** Of a message, beside its text, as JSON. */
const MESSAGE_CHARS = 32
/** The scripted provider's word. */
const WORD_CHARS = 5
/** What has not ended by then is lost. */
const PLAY_MS_MAX = 12 * 60_000

/** Three applications, and how many calls their agents make: `up_to` is a share of all programs. */
const APPS = [
  { app: 'lookup', up_to: 0.6, calls: [2, 4] },
  { app: 'fix', up_to: 0.85, calls: [5, 8] },
  { app: 'research', up_to: 1, calls: [12, 16] },
] as const

export function agentPrograms(seed: number, programs: number): AgentProgram[] {
  const random = seededRandom(seed)
  const between = ([low, high]: readonly [number, number]): number => low + Math.floor(random() * (high - low + 1))
  const drawn = Array.from({ length: programs }, (_, index) => {
    const at = (index + 0.5) / programs
    const { app, calls } = APPS.find(({ up_to }) => at < up_to) ?? APPS[2]
    const drawn_calls = Array.from({ length: between(calls) }, (_, call) => ({
      added_chars: CHARS_PER_TOKEN * (call === 0 ? between([1200, 2000]) : between([100, 500])),
      output_tokens: between([60, 160]),
      gap_ms: call === 0 ? between([0, 500]) : between([200, 2000]),
    }))
    return { app, calls: drawn_calls }
  })
  const order = drawn.map((program) => ({ ...program, at: random() })).sort((a, b) => a.at - b.at)
  return order.map(({ app, calls }, index) => ({ id: `agent-${seed}-${index}`, app, calls }))
}

/** As a trace (docs/traces.md) for `npm run simulate`. Tokens are counted as the scripted provider counts them. */
export function agentTrace(programs: readonly AgentProgram[]): string {
  return programs.map((program) => `${JSON.stringify(traceOf(program))}\n`).join('')
}

function traceOf({ id, app, calls }: AgentProgram): object {
  let chars = 0
  let context_tokens = 0
  const traced = calls.map(({ added_chars, output_tokens }, index) => {
    chars += added_chars + MESSAGE_CHARS
    const prompt_tokens = Math.ceil(chars / CHARS_PER_TOKEN)
    const shared_prefix_tokens = Math.min(context_tokens, prompt_tokens)
    chars += output_tokens * WORD_CHARS + MESSAGE_CHARS
    context_tokens = prompt_tokens + output_tokens
    const gap_ms = calls[index + 1]?.gap_ms ?? null
    return {
      ...{ thread: 0, parents: index === 0 ? [] : [index - 1], prompt_tokens, shared_prefix_tokens, output_tokens },
      ...{ tool: gap_ms === null ? null : 'tool', tool_seconds: gap_ms === null ? null : gap_ms / 1000 },
    }
  })
  return { id, workload: app, calls: traced }
}

export async function playAgents(programs: readonly AgentProgram[], client: AgentClient): Promise<AgentRun[]> {
  const started_ms = performance.now()
  const limit = AbortSignal.timeout(PLAY_MS_MAX)
  setMaxListeners(0, limit)
  return Promise.all(programs.map((program) => playAgent(program, client, { started_ms, limit })))
}

async function playAgent(
  program: AgentProgram,
  client: AgentClient,
  { started_ms, limit }: { started_ms: number; limit: AbortSignal },
): Promise<AgentRun> {
  const { url, key, model, retries, fields, headers, begins, ends } = client
  const openai = new OpenAI({
    ...{ baseURL: url, apiKey: key, maxRetries: retries, timeout: PLAY_MS_MAX },
    defaultHeaders: headers?.(program) ?? {},
  })
  const messages: OpenAI.ChatCompletionMessageParam[] = []
  let tokens = 0
  let error: string | null = null
  await begins?.(program)
  try {
    for (const [index, { added_chars, output_tokens, gap_ms }] of program.calls.entries()) {
      await sleep(gap_ms)
      const said = `${program.id} step ${index} `
      messages.push({ role: 'user', content: said.repeat(Math.ceil(added_chars / said.length)).slice(0, added_chars) })
      const answer = await openai.chat.completions.create(
        { ...{ model, messages, max_tokens: output_tokens }, ...fields?.(index) },
        { signal: limit },
      )
      messages.push({ role: 'assistant', content: answer.choices[0]?.message.content ?? '' })
      tokens += answer.usage?.total_tokens ?? 0
    }
  } catch (failure) {
    if (!(failure instanceof OpenAI.APIError)) throw failure
    error = `${failure.status ?? 'no answer'}: ${failure.message.slice(0, 200)}`
  }
  await ends?.(program)
  const completion_s = (performance.now() - started_ms) / 1000
  return { id: program.id, calls: program.calls.length, finished: error === null, completion_s, tokens, error }
}
