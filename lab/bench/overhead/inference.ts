/**
 * What program inference costs: the same conversations once with a program id, so that nothing is inferred, and once without.
 * The difference of the control plane's CPU per call has all of it: the hashes, one RPC before the call and one after it, and
 * the ConversationActor. `hash_us` is the hashing alone, measured in this process, of tool calls, which cost most: their
 * arguments are parsed. The engine is emulated and takes no tool calls, so the calls that are sent have texts in their place.
 */
import { HOST } from '../../../ops/system/port.ts'
import { conversationCall } from '../../../src/core/conversation/conversation-call.ts'
import { closedRun } from './calls.ts'
import type { Lane } from './load.ts'
import { type Measured, median } from './measure.ts'
import { type BenchSystem, MODEL } from './system.ts'

const PROMPT_KB = [1, 50, 200] as const
/** Tokens of the longest prompt, at the emulated engine's four bytes, with room for the answer. */
export const INFERENCE_CONTEXT_TOKENS = 80_000
const CONNECTIONS = 8
const CALLS_PER_PROGRAM = 4
const PROGRAMS_AT_ONCE = 64
const OUTPUT_TOKENS = 4
const HASHED_TIMES = 300
/** Each call of an agent adds a tool call and its result. */
const MESSAGE_BYTES = 1_000

interface InferenceRun extends Measured {
  prompt_kb: number
  lane: 'named' | 'inferred'
  round: number
}

interface InferenceRow {
  prompt_kb: number
  named_cpu_us: number
  inferred_cpu_us: number
  /** Microseconds of CPU per call that inference adds. */
  added_cpu_us: number
  named_p50_ms: number
  inferred_p50_ms: number
  hash_us: number
}

export interface InferenceReport {
  rows: InferenceRow[]
  runs: InferenceRun[]
}

interface Options {
  rounds: number
  seconds: number
  note: (line: string) => void
}

export async function measureInference(
  system: BenchSystem,
  { rounds, seconds, note }: Options,
): Promise<InferenceReport> {
  const runs: InferenceRun[] = []
  for (let round = 1; round <= rounds; round += 1) {
    for (const prompt_kb of PROMPT_KB) {
      for (const name of ['named', 'inferred'] as const) {
        const lane = { lane: laneOf(system, name, prompt_kb), pid: system.workerd_pid }
        const run = await closedRun(system, lane, CONNECTIONS, seconds)
        runs.push({ prompt_kb, lane: name, round, ...run })
        note(`${prompt_kb} kB, ${name}: ${run.workerd_cpu_us} µs of CPU per call, p50 ${run.p50_ms} ms`)
      }
    }
  }
  return { runs, rows: PROMPT_KB.map((prompt_kb) => rowOf(prompt_kb, runs)) }
}

function rowOf(prompt_kb: number, runs: readonly InferenceRun[]): InferenceRow {
  const of = (lane: InferenceRun['lane'], key: 'workerd_cpu_us' | 'p50_ms') =>
    median(runs.filter((run) => run.lane === lane && run.prompt_kb === prompt_kb).map((run) => run[key]))
  const [named_cpu_us, inferred_cpu_us] = [of('named', 'workerd_cpu_us'), of('inferred', 'workerd_cpu_us')]
  return {
    ...{ prompt_kb, named_cpu_us, inferred_cpu_us, added_cpu_us: Math.round(inferred_cpu_us - named_cpu_us) },
    ...{ named_p50_ms: of('named', 'p50_ms'), inferred_p50_ms: of('inferred', 'p50_ms'), hash_us: hashUs(prompt_kb) },
  }
}

function laneOf(system: BenchSystem, name: InferenceRun['lane'], prompt_kb: number): Lane {
  let load = 0
  return {
    ...{ name, host: HOST, port: system.port, output_tokens: OUTPUT_TOKENS },
    prepare: async () => {
      load += 1
    },
    request: (index) => {
      // Programs take turns, so that a call comes when its predecessor was answered.
      const turn = Math.floor(index / PROGRAMS_AT_ONCE)
      const number = `${Math.floor(turn / CALLS_PER_PROGRAM)}-${index % PROGRAMS_AT_ONCE}`
      const program = `${name}-${prompt_kb}-${load}-${number}`
      const messages = conversation(program, prompt_kb, turn % CALLS_PER_PROGRAM, 'texts')
      const json = JSON.stringify({ model: MODEL, messages, max_tokens: OUTPUT_TOKENS, temperature: 0, stream: true })
      const headers = ['content-type: application/json', `authorization: Bearer ${system.secrets.apiKey}`]
      if (name === 'named') headers.push(`x-program-id: ${program}`)
      const head = [`POST /v1/chat/completions HTTP/1.1`, `host: ${HOST}:${system.port}`, ...headers]
      return Buffer.from(`${head.join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`)
    },
  }
}

/** A coding agent's: system prompt, question, then edits and their results. Every turn adds two messages. */
function conversation(program: string, prompt_kb: number, turn: number, edits: 'texts' | 'tool calls'): object[] {
  const messages: object[] = [
    { role: 'system', content: 'You are a coding agent that edits files. '.repeat(5) },
    { role: 'user', content: `Fix the tests of ${program}.` },
  ]
  const pairs = Math.floor((prompt_kb * 1000) / MESSAGE_BYTES / 2)
  for (let at = 0; at < pairs + turn; at += 1) {
    const id = `call_${program}_${at}`
    const args = { path: `src/file-${at}.ts`, old: 'const a = 1\n'.repeat(35), new: 'const b = 2\n'.repeat(35) }
    const called = { name: 'edit', arguments: JSON.stringify(args) }
    const result = `Edited line ${at}. `.repeat(60).slice(0, MESSAGE_BYTES)
    if (edits === 'texts') {
      messages.push({ role: 'assistant', content: called.arguments }, { role: 'user', content: result })
    } else {
      messages.push({ role: 'assistant', content: null, tool_calls: [{ id, type: 'function', function: called }] })
      messages.push({ role: 'tool', tool_call_id: id, content: result })
    }
  }
  return messages
}

function hashUs(prompt_kb: number): number {
  const body = { messages: conversation('hashed', prompt_kb, 0, 'tool calls') }
  const hash = (): void => void conversationCall(body, [1, 2])
  for (let time = 0; time < HASHED_TIMES; time += 1) hash()
  const started_ms = performance.now()
  for (let time = 0; time < HASHED_TIMES; time += 1) hash()
  return Math.round(((performance.now() - started_ms) * 1000) / HASHED_TIMES)
}
