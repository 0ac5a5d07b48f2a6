/**
 * Plays programs as clients would: each call over HTTP to the control plane, with its program's id and its parents, when its parents
 * have answered and their pause is over. A prompt is its first parent's prompt and answer, the other parents' answers, and words of
 * its own. Calls run to their stated length, so that every scheduler does the same work.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { seededRandom } from '../../../simulator/random.ts'
import { UsageExtension } from '../../../src/protocol/measurement.ts'
import { Usage } from '../../../src/protocol/openai.ts'
import type { PlayedProgram } from '../play.ts'
import type { ProgramShape } from '../workload.ts'

export interface Endpoint {
  url: string
  api_key: string
  model: string
}

export interface Played {
  programs: PlayedProgram[]
  makespan_s: number
  prompt_tokens: number
  cached_tokens: number
  /** Of the calls, as the agent measured them. */
  ttft_ms: number[]
  /** Of the calls with a second token. */
  tpot_ms: number[]
}

export interface PlayOptions {
  /** Sets the program ids of this play apart from those of another. */
  run: string
  /** The label by which a client names its application: the class of its programs. Left out: the first call starts the program. */
  app?: string | undefined
  /** Programs that arrive wait outside until fewer than so many are live. */
  live_max?: number
  onProgram?: (ended: number) => void
  /** A call has ended. `call`: its index among the program's calls. */
  onCall?: (program: ProgramShape, call: number) => void
  /** Of the programs, so many have begun. */
  onEntered?: (entered: number) => void
}

const CALL_TIMEOUT_MS = 600_000
/** A refusal that names a pause (an engine that is being attached, a queue that is full) is tried again so often. */
const RETRIES_MAX = 5
const RETRY_PAUSE_MS_MAX = 5000
const ERROR_CHARS_MAX = 300
/** Words of about one token each, with the space before them. */
const WORDS = ['time', 'year', 'people', 'way', 'day', 'man', 'thing', 'woman', 'life', 'child', 'world', 'school']

const Answer = z.object({
  choices: z.array(z.object({ text: z.string() })).min(1),
  usage: Usage.extend({
    prompt_tokens_details: Usage.shape.prompt_tokens_details.nullish(),
    switchyard: UsageExtension.pick({ ttft_s: true, tpot_s: true }),
  }),
})

interface Spoken {
  call_id: string
  prompt: string
  text: string
  output_tokens: number
}

type Totals = Omit<Played, 'programs' | 'makespan_s'>

export async function playPrograms(
  endpoint: Endpoint,
  workload: readonly ProgramShape[],
  { run, app, live_max = Number.POSITIVE_INFINITY, onProgram, onCall, onEntered }: PlayOptions,
): Promise<Played> {
  const started_ms = performance.now()
  const totals: Totals = { prompt_tokens: 0, cached_tokens: 0, ttft_ms: [], tpot_ms: [] }
  const outside: (() => void)[] = []
  let live = 0
  let entered = 0
  let ended = 0
  const programs = await Promise.all(
    workload.map(async (program) => {
      await sleep(Math.max(0, program.arrival_s * 1000 - (performance.now() - started_ms)))
      if (live >= live_max) await new Promise<void>((enter) => outside.push(enter))
      live += 1
      entered += 1
      onEntered?.(entered)
      const arrived_ms = performance.now()
      const output_tokens = await playProgram(endpoint, program, { run, app }, totals, onCall)
      const response_s = (performance.now() - arrived_ms) / 1000
      live -= 1
      outside.shift()?.()
      ended += 1
      onProgram?.(ended)
      return { id: program.id, kind: program.kind, response_s, output_tokens }
    }),
  )
  return { programs, makespan_s: (performance.now() - started_ms) / 1000, ...totals }
}

async function playProgram(
  endpoint: Endpoint,
  program: ProgramShape,
  { run, app }: Pick<PlayOptions, 'run' | 'app'>,
  totals: Totals,
  onCall: PlayOptions['onCall'],
): Promise<number> {
  const id = `${run}-${program.id}`
  const random = seededRandom([...program.id].reduce((hash, char) => Math.imul(hash, 31) + char.charCodeAt(0), 7))
  const words = (count: number) =>
    Array.from({ length: count }, () => ` ${WORDS[Math.floor(random() * WORDS.length)]}`).join('')
  // Drawn before anything runs, so that they do not depend on the order in which calls end.
  const added = program.calls.map((call) => words(call.new_prompt_tokens))
  if (app !== undefined) await startProgram(endpoint, id, app)
  const calls: Promise<Spoken>[] = []
  for (const [index, call] of program.calls.entries()) {
    const parents = call.parents.map((parent) => calls[parent] as Promise<Spoken>)
    calls.push(
      Promise.all(parents).then(async (spoken) => {
        if (call.gap_ms > 0) await sleep(call.gap_ms)
        const [first, ...others] = spoken
        const before =
          first === undefined ? '' : `${first.prompt}${first.text}${others.map(({ text }) => text).join('')}`
        const prompt = `${before}${added[index]}`
        const asked = { program: id, prompt, parents: spoken, output_tokens: call.output_tokens }
        const answer = await issue(endpoint, asked, totals)
        onCall?.(program, index)
        return answer
      }),
    )
  }
  const spoken = await Promise.all(calls)
  await fetch(`${endpoint.url}/v1/programs/${id}`, { method: 'DELETE', headers: authorization(endpoint) })
  return spoken.reduce((sum, { output_tokens }) => sum + output_tokens, 0)
}

async function startProgram(endpoint: Endpoint, id: string, app: string): Promise<void> {
  const headers = { ...authorization(endpoint), 'content-type': 'application/json' }
  const body = JSON.stringify({ id, app })
  const response = await fetch(`${endpoint.url}/v1/programs`, { method: 'POST', headers, body })
  const text = await response.text()
  if (response.ok) return
  throw new Error(`program ${id} could not start: ${response.status}: ${text.slice(0, ERROR_CHARS_MAX)}`)
}

interface Call {
  program: string
  prompt: string
  parents: readonly Spoken[]
  output_tokens: number
}

async function issue(endpoint: Endpoint, call: Call, totals: Totals): Promise<Spoken> {
  const parents = call.parents.map(({ call_id }) => call_id).join(',')
  const headers = {
    ...authorization(endpoint),
    ...{ 'content-type': 'application/json', 'x-program-id': call.program },
    ...(parents === '' ? {} : { 'x-parent-calls': parents }),
  }
  const { prompt, output_tokens: max_tokens } = call
  const body = JSON.stringify({ model: endpoint.model, prompt, max_tokens, temperature: 0, ignore_eos: true })
  for (let attempt = 0; ; attempt += 1) {
    const signal = AbortSignal.timeout(CALL_TIMEOUT_MS)
    const response = await fetch(`${endpoint.url}/v1/completions`, { method: 'POST', headers, body, signal })
    const text = await response.text()
    if (response.ok) return spokenOf(call, response, text, totals)
    const again_s = Number(response.headers.get('retry-after') ?? Number.NaN)
    if (attempt >= RETRIES_MAX || !Number.isFinite(again_s)) {
      throw new Error(`a call of ${call.program} was answered ${response.status}: ${text.slice(0, ERROR_CHARS_MAX)}`)
    }
    await sleep(Math.min(RETRY_PAUSE_MS_MAX, again_s * 1000))
  }
}

function spokenOf({ program, prompt, output_tokens }: Call, response: Response, text: string, totals: Totals): Spoken {
  const { choices, usage } = Answer.parse(JSON.parse(text))
  if (usage.completion_tokens !== output_tokens) {
    throw new Error(`a call of ${program} gave ${usage.completion_tokens} tokens, not ${output_tokens}`)
  }
  totals.prompt_tokens += usage.prompt_tokens
  totals.cached_tokens += usage.prompt_tokens_details?.cached_tokens ?? 0
  const { ttft_s, tpot_s } = usage.switchyard
  if (ttft_s !== null) totals.ttft_ms.push(ttft_s * 1000)
  if (tpot_s !== null) totals.tpot_ms.push(tpot_s * 1000)
  const call_id = response.headers.get('x-call-id')
  if (call_id === null) throw new Error('an answer has no X-Call-Id')
  return { call_id, prompt, text: choices[0]?.text ?? '', output_tokens }
}

function authorization({ api_key }: Endpoint): { authorization: string } {
  return { authorization: `Bearer ${api_key}` }
}
