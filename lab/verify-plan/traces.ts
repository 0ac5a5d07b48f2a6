/**
 * The traces that the verification plays: programs of the simulator's workloads, with an eighth of their tokens, at times of a
 * Poisson process. A step of the paced profile takes a tenth of a second, so a whole answer of 226 tokens would take half a minute.
 */
import { arrivalTimesUs } from '../../simulator/arrivals.ts'
import { drawWorkload, type WorkloadName, type WorkloadProgram } from '../../simulator/workloads/index.ts'
import { resolvePrefixes } from '../../simulator/workloads/resolve-prefixes.ts'

export interface TraceSpec {
  name: string
  workload: WorkloadName
  programs: number
  /** Programs a second. */
  rate: number
  /** Of the 95th percentile of program token latency. */
  p95_ms: number
  /** What an answer and a prompt are divided by. */
  shrink: number
  seed: number
}

/** Half a minute of a person who reads is no time to wait for. */
const TOOL_SECONDS_MAX = 5
const OUTPUT_TOKENS_MIN = 16

export function drawTrace({ workload, programs, rate, shrink, seed }: TraceSpec): WorkloadProgram[] {
  const drawn = drawWorkload(workload, programs, seed)
  const at_us = arrivalTimesUs({ kind: 'poisson', rate }, drawn, seed)
  return drawn.map((program, index) => ({
    ...shrunk(program, shrink),
    arrival_seconds: (at_us[index] as number) / 1e6,
  }))
}

function shrunk({ id, workload, calls }: WorkloadProgram, by: number): WorkloadProgram {
  const small: WorkloadProgram['calls'][number][] = []
  for (const { thread, parents, prompt_tokens, shared_prefix_tokens, output_tokens, tool, ...call } of calls) {
    const shared = call.prefix_of == null ? 0 : (small[call.prefix_of]?.prompt_tokens ?? 0)
    const added = Math.max(1, Math.round((prompt_tokens - shared_prefix_tokens) / by))
    small.push({
      ...{ thread, parents, prompt_tokens: shared + added, shared_prefix_tokens: shared, tool },
      output_tokens: Math.max(OUTPUT_TOKENS_MIN, Math.round(output_tokens / by)),
      tool_seconds: call.tool_seconds === null ? null : Math.min(TOOL_SECONDS_MAX, call.tool_seconds),
    })
  }
  return { id, workload, calls: resolvePrefixes(small) }
}

/**
 * A client cannot repeat an emulated answer token by token: its words have other tokens when they come back. So a prompt repeats
 * the prompt of the call before it and not its answer. Both the plan and the play have the program in this form. A shorter prefix
 * may fit another call, so prefixes are resolved again until nothing changes; they only become shorter.
 */
export function withoutAnswers(program: WorkloadProgram): WorkloadProgram {
  const calls = program.calls.map((call) => {
    const before = call.prefix_of == null ? 0 : (program.calls[call.prefix_of]?.prompt_tokens ?? 0)
    return { ...call, shared_prefix_tokens: Math.min(call.shared_prefix_tokens, before) }
  })
  const isSame = calls.every((call, at) => call.shared_prefix_tokens === program.calls[at]?.shared_prefix_tokens)
  const resolved = { ...program, calls: resolvePrefixes(calls) }
  return isSame ? resolved : withoutAnswers(resolved)
}

/** As a line of a trace file. */
export function traceLine({ id, workload, app, arrival_seconds, calls }: WorkloadProgram): string {
  const lines = calls.map(({ prefix_of: _, same_prompt_as: __, ...call }) => call)
  return JSON.stringify({ id, workload, app, arrival_seconds, calls: lines })
}

/** Three kinds of programs. Each target is one that some number of engines above one is needed for. */
export const TRACES: readonly TraceSpec[] = [
  { name: 'chats', workload: 'sharegpt', programs: 120, rate: 0.6, p95_ms: 300, shrink: 8, seed: 1 },
  { name: 'tools', workload: 'short-tools', programs: 100, rate: 0.35, p95_ms: 240, shrink: 3, seed: 2 },
  { name: 'waves', workload: 'parallel-waves', programs: 80, rate: 0.3, p95_ms: 240, shrink: 4, seed: 3 },
]
