/**
 * Programs with tools on an embedded engine: chats whose calls follow one another once their tool has really slept. Beside
 * them programs of one call keep asking for the room that is left, so that a context which nothing keeps is lost. How long
 * each tool takes is forecast truly: this is about what handling keeps, not about forecasts.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ToolCounts } from '../../../gpu-agent/engine/memory/handling/handling-counts.ts'
import type { Handling } from '../../../gpu-agent/engine/memory/handling/waste.ts'
import type { MemoryPolicyName, PolicyName } from '../../../gpu-agent/engine/order/policies/index.ts'
import { forecastOf } from '../../../gpu-agent/engine/testing/forecasts.ts'
import type { EngineFront } from '../../../gpu-agent/src/fronts/engine-front.ts'
import type { FrontOptions } from '../../../gpu-agent/src/fronts/front-options.ts'
import { startEmbeddedFront } from '../../../gpu-agent/src/fronts/local/embedded-front.ts'
import { dispatched } from '../../../gpu-agent/src/fronts/testing/dispatched.ts'
import { RecordingSink } from '../../../gpu-agent/src/fronts/testing/recording-sink.ts'
import { seededRandom } from '../../../simulator/random.ts'
import type { HandlingDecision, Measurement } from '../../../src/protocol/index.ts'

export interface ToolsWorkload {
  seed: number
  /** Programs with tools, and tools of each. */
  programs: number
  tools: number
  /** Tools take from 0 to this, evenly. */
  tool_s_max: number
  /** Programs of one call beside them, at least. */
  others: number
  /** Words of a program's first prompt, and of a call beside them. */
  prompt_words: number
}

/** A call that went on from a context. */
export interface Return {
  /** What was decided for it. Null: nothing. */
  handled: HandlingDecision | null
  tool_s: number
  /** Of the context: the prompt and the answer before it. */
  context_tokens: number
  cached_tokens: number
}

export interface ToolsPlay {
  policy: string
  /** What it chose from. Null: as its name has it. */
  handling: readonly Handling[] | null
  seconds: number
  /** That a program with tools spent in its calls, waiting included: the mean over programs. */
  in_calls_s: number
  returns: Return[]
  /** What each program was answered, call by call. */
  answers: string[][]
  tools: ToolCounts | null
}

/**
 * Two calls run at once. `slots`: so many contexts can be there. With few tokens in a chunk answers are the same to the bit.
 * `handling`: what the policy chooses from; null: as its name has it.
 */
export function optionsFor(
  policy: PolicyName | MemoryPolicyName,
  model_path: string,
  slots: number,
  handling: readonly Handling[] | null = null,
): FrontOptions {
  const sizes = { seats: 2, slots, context_tokens: 1_024, prefill_chunk_tokens: 32 }
  const chosen = handling === null ? {} : { handling }
  return { engine: 'embedded', id: 'tools-e0', model_id: 'model', model_path, policy, ...chosen, ...sizes }
}

const OUTPUT_TOKENS = 12
const OTHER_PAUSE_MS = 250
const WORDS = [
  'apple',
  'river',
  'stone',
  'cloud',
  'green',
  'seven',
  'north',
  'table',
  'music',
  'early',
  'glass',
  'horse',
]
/** Words of what a tool returns. */
const RESULT_WORDS = 15

export async function playTools(options: FrontOptions, workload: ToolsWorkload): Promise<ToolsPlay> {
  let tools: ToolCounts | null = null
  const contexts = (counts: { tools?: ToolCounts }): void => {
    tools = counts.tools ?? null
  }
  const events = { ledger() {}, status() {}, epoch() {}, contexts }
  const front = await startEmbeddedFront(options, events, (message, error) => {
    throw new Error(message, { cause: error })
  })
  const began_s = performance.now() / 1000
  const returns: Return[] = []
  try {
    const programs = Array.from({ length: workload.programs }, (_, index) =>
      playProgram(front, workload, index, returns),
    )
    const others = playOthers(front, workload, Promise.all(programs))
    const played = await Promise.all(programs)
    await others
    const programs_s = played.map((one) => one.in_calls_s)
    return {
      ...{ policy: options.policy, handling: options.handling ?? null, seconds: performance.now() / 1000 - began_s },
      in_calls_s: programs_s.reduce((sum, one_s) => sum + one_s, 0) / programs_s.length,
      ...{ returns, answers: played.map((one) => one.answers), tools },
    }
  } finally {
    await front.stop()
  }
}

async function playProgram(
  front: EngineFront,
  { seed, tools, tool_s_max, prompt_words }: ToolsWorkload,
  index: number,
  returns: Return[],
): Promise<{ answers: string[]; in_calls_s: number }> {
  const random = seededRandom(seed * 1_000 + index)
  // What stands first is each program's own: no context is found in another's.
  const messages = [
    { role: 'system', content: `Program ${words(random, 4)} of ${index}.` },
    { role: 'user', content: words(random, prompt_words) },
  ]
  const answers: string[] = []
  let in_calls_s = 0
  let before: Measurement | null = null
  let tool_s = 0
  for (let at = 0; at <= tools; at++) {
    const slept_s = tool_s
    tool_s = at === tools ? 0 : random() * tool_s_max
    const { text, measurement } = await call(front, messages, `program-${index}`, at === tools ? null : tool_s)
    if (before !== null) {
      const context_tokens = before.prompt_tokens + before.output_tokens
      returns.push({
        handled: before.handled ?? null,
        tool_s: slept_s,
        context_tokens,
        cached_tokens: measurement.cached_tokens,
      })
    }
    before = measurement
    in_calls_s += measurement.duration_us / 1e6
    answers.push(text)
    if (at === tools) break
    messages.push({ role: 'assistant', content: text }, { role: 'user', content: words(random, RESULT_WORDS) })
    await sleep(tool_s * 1000)
  }
  return { answers, in_calls_s }
}

/** One after another, and on until the programs have ended: what nothing keeps is taken. */
async function playOthers(
  front: EngineFront,
  { seed, others, prompt_words }: ToolsWorkload,
  programs: Promise<unknown>,
): Promise<void> {
  const random = seededRandom(seed)
  let ended = false
  programs.then(
    () => {
      ended = true
    },
    () => {
      ended = true
    },
  )
  for (let index = 0; index < others || !ended; index++) {
    const messages = [
      { role: 'system', content: `Other ${words(random, 4)} of ${index}.` },
      { role: 'user', content: words(random, prompt_words) },
    ]
    await call(front, messages, `other-${index}`, null)
    await sleep(OTHER_PAUSE_MS)
  }
}

/** `tool_s` null: no tool follows. */
async function call(
  front: EngineFront,
  messages: readonly object[],
  program: string,
  tool_s: number | null,
): Promise<{ text: string; measurement: Measurement }> {
  const sink = new RecordingSink()
  const body = { messages: [...messages], temperature: 0, max_tokens: OUTPUT_TOKENS, ignore_eos: true }
  const own = dispatched(front.describe().epoch, body, { program, sequence: [0, Number(program.split('-')[1])] })
  front.serve({ ...own, forecast: forecastOf(OUTPUT_TOKENS, tool_s === null ? null : tool_s * 1e6) }, sink)
  const end = await sink.over
  if (end?.outcome !== 'completed') throw new Error(`a call of ${program} failed`, { cause: sink.error ?? end?.error })
  return { text: sink.text, measurement: end.measurement }
}

function words(random: () => number, count: number): string {
  return Array.from({ length: count }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ')
}
