/**
 * Plays programs as clients would: each call over HTTP to the control plane, with its program's id and its parents, when its parents
 * have answered and their pause is over. A prompt is its first parent's prompt and answer, the other parents' answers, and words of
 * its own. Calls run to their stated length, so that every scheduler does the same work.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { seededRandom } from '../../../simulator/random.ts'
import { authorization, completeCall, type Endpoint, endProgram, send } from '../complete-call.ts'
import type { PlayedProgram } from '../play.ts'
import type { ProgramShape } from '../workload.ts'

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
  app?: ((program: ProgramShape) => string) | undefined
  /** Programs that arrive wait outside until fewer than so many are live. */
  live_max?: number
  onProgram?: (ended: number) => void
  /** A call has ended. `call`: its index among the program's calls. */
  onCall?: (program: ProgramShape, call: number) => void
  /** Of the programs, so many have begun. */
  onEntered?: (entered: number) => void
}

const ERROR_CHARS_MAX = 300
/** Words of about one token each, with the space before them. */
export const WORDS = [
  'time',
  'year',
  'people',
  'way',
  'day',
  'man',
  'thing',
  'woman',
  'life',
  'child',
  'world',
  'school',
]

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
  // Each play has words of its own: it finds nothing of another in the engine's cache.
  const random = seededRandom([...id].reduce((hash, char) => Math.imul(hash, 31) + char.charCodeAt(0), 7))
  const words = (count: number) =>
    Array.from({ length: count }, () => ` ${WORDS[Math.floor(random() * WORDS.length)]}`).join('')
  // Drawn before anything runs, so that they do not depend on the order in which calls end.
  const added = program.calls.map((call) => words(call.new_prompt_tokens))
  if (app !== undefined) await startProgram(endpoint, id, app(program))
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
  await endProgram(endpoint, id)
  return spoken.reduce((sum, { output_tokens }) => sum + output_tokens, 0)
}

async function startProgram(endpoint: Endpoint, id: string, app: string): Promise<void> {
  const headers = { ...authorization(endpoint), 'content-type': 'application/json' }
  const body = JSON.stringify({ id, app })
  const { response } = await send(`${endpoint.url}/v1/programs`, { method: 'POST', headers, body })
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
  const { program, prompt, output_tokens } = call
  const parents = call.parents.map(({ call_id }) => call_id)
  const { call_id, text, usage } = await completeCall(endpoint, { program, prompt, parents, output_tokens })
  totals.prompt_tokens += usage.prompt_tokens
  totals.cached_tokens += usage.prompt_tokens_details?.cached_tokens ?? 0
  const { ttft_s, tpot_s } = usage.switchyard
  if (ttft_s !== null) totals.ttft_ms.push(ttft_s * 1000)
  if (tpot_s !== null) totals.tpot_ms.push(tpot_s * 1000)
  return { call_id, prompt, text, output_tokens }
}
