/**
 * What is kept of a run: sums, and the few distributions that figures are drawn from. Program token latency is the paper's, a
 * program's response ÷ the tokens that it generated.
 */

import type { ToolCounts } from '../../../gpu-agent/engine/memory/handling/handling-counts.ts'
import type { CallResult, ProgramResult, SimulationConfig, SimulationResult } from '../../simulation.ts'
import { mean, type Summary, summary } from '../../statistics.ts'
import type { KvSample } from './kv-use.ts'

export interface Bin {
  /** Lower bound of what is binned; the bin ends where the next begins. */
  from: number
  count: number
  value: number
}

export interface GroupOutcome {
  programs: number
  token_latency_ms: Summary
  response_s: Summary
}

export interface RunOutcome extends GroupOutcome {
  makespan_s: number
  calls: number
  output_tokens: number
  prompt_tokens: number
  cached_tokens: number
  /** Summed over calls. */
  service_s: number
  wait_s: number
  preemptions: number
  /** Times that a call's KV was moved out. */
  swaps: number
  swapped_out_tokens: number
  swapped_in_tokens: number
  recomputed_tokens: number
  decisions: number
  steps: number
  /** Engines' time in steps; the parts of it that are swaps and decisions. */
  busy_s: number
  swap_s: number
  decision_s: number
  by_workload: Record<string, GroupOutcome>
  by_tenant: Record<string, GroupOutcome>
  /** A program's wait ÷ service: the mean over programs, and the largest. */
  program_wait_ratio: Summary & { max: number }
  /** Mean wait ÷ service of calls by output tokens, of programs by their calls. */
  call_wait_ratio_by_output: Bin[]
  program_wait_ratio_by_calls: Bin[]
  /** Cached share of prompts by their length. */
  cached_share_by_prompt: Bin[]
  /** Calls in the engines (waiting or running), mean over each WINDOW_S. */
  calls_in_engine: number[]
  /** From a program's arrival to its first token. */
  ttft_s: Summary
  /** Of calls that follow a tool: from the end of the tool to the first token. Null: there are none. */
  return_ttft_s: Summary | null
  /** Programs that ended before the last one arrived, per second. */
  completed_per_s: number
  /** What became of contexts while tools ran. */
  tools: ToolCounts
  /** If the spec asks for it. */
  kv_use?: KvSample[]
  /** In the order of their arrival, if the spec asks for it. */
  each_program?: EachProgram[]
}

export interface EachProgram {
  workload: string
  arrived_s: number
  response_s: number
  token_latency_ms: number
}

export const WINDOW_S = 60
const WINDOWS_MAX = 240
const OUTPUT_BINS = [1, 16, 32, 64, 128, 256, 512, 1024]
const CALLS_BINS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
export const PROMPT_BINS = [1, 256, 512, 1024, 2048, 4096, 8192, 16_384]
const US_PER_S = 1e6

export interface Played {
  config: SimulationConfig
  simulated: SimulationResult
  calls: readonly CallResult[]
}

export function eachProgram(programs: readonly ProgramResult[]): EachProgram[] {
  return programs.map(({ workload, arrived_us, response_us, output_tokens }) => ({
    workload,
    arrived_s: arrived_us / US_PER_S,
    response_s: response_us / US_PER_S,
    token_latency_ms: response_us / 1000 / output_tokens,
  }))
}

export function runOutcome(played: Played): RunOutcome {
  const { config, simulated, calls } = played
  const ratios = programRatios(played)
  return {
    ...group(simulated.programs),
    makespan_s: simulated.makespan_us / US_PER_S,
    calls: simulated.calls,
    output_tokens: simulated.output_tokens,
    prompt_tokens: simulated.prompt_tokens,
    cached_tokens: simulated.cached_tokens,
    service_s: simulated.service_us / US_PER_S,
    wait_s: simulated.wait_us / US_PER_S,
    preemptions: simulated.preemptions,
    swaps: simulated.swaps,
    swapped_out_tokens: simulated.swapped_out_tokens,
    swapped_in_tokens: simulated.swapped_in_tokens,
    recomputed_tokens: simulated.recomputed_tokens,
    decisions: simulated.decisions,
    steps: simulated.steps,
    busy_s: simulated.busy_us / US_PER_S,
    swap_s: simulated.swap_us / US_PER_S,
    decision_s: (simulated.decisions * config.engine.decision_us) / US_PER_S,
    by_workload: groups(simulated.programs, ({ workload }) => workload),
    by_tenant: groups(simulated.programs, ({ tenant }) => tenant),
    program_wait_ratio: { ...summary(ratios), max: ratios.reduce((most, one) => Math.max(most, one), 0) },
    call_wait_ratio_by_output: bins(
      OUTPUT_BINS,
      calls.map(({ measured }) => [measured.output_tokens, measured.wait_us / measured.service_wall_us]),
    ),
    program_wait_ratio_by_calls: bins(
      CALLS_BINS,
      ratios.map((ratio, program) => [config.programs[program]?.calls.length ?? 0, ratio]),
    ),
    cached_share_by_prompt: bins(
      PROMPT_BINS,
      calls.map(({ measured }) => [measured.prompt_tokens, measured.cached_tokens / measured.prompt_tokens]),
    ),
    calls_in_engine: callsInEngine(calls),
    ttft_s: summary(simulated.programs.map(({ first_token_us }) => first_token_us / US_PER_S)),
    return_ttft_s: returnTtft(played),
    completed_per_s: completedPerS(simulated.programs),
    tools: simulated.tools,
  }
}

function returnTtft({ config, calls }: Played): Summary | null {
  const waits_s = calls.flatMap(({ program, call, measured }) => {
    const { parents = [] } = config.programs[program]?.calls[call] ?? {}
    return parents.length === 0 ? [] : [(measured.first_token_us ?? measured.duration_us) / US_PER_S]
  })
  return waits_s.length === 0 ? null : summary(waits_s)
}

function completedPerS(programs: readonly ProgramResult[]): number {
  const until_us = programs.reduce((last, { arrived_us }) => Math.max(last, arrived_us), 0)
  if (until_us === 0) return 0
  const completed = programs.filter(({ arrived_us, response_us }) => arrived_us + response_us <= until_us).length
  return completed / (until_us / US_PER_S)
}

function group(programs: readonly ProgramResult[]): GroupOutcome {
  return {
    programs: programs.length,
    token_latency_ms: summary(programs.map(({ response_us, output_tokens }) => response_us / 1000 / output_tokens)),
    response_s: summary(programs.map(({ response_us }) => response_us / US_PER_S)),
  }
}

function groups(programs: readonly ProgramResult[], keyOf: (program: ProgramResult) => string) {
  const by_key = Map.groupBy(programs, keyOf)
  return Object.fromEntries([...by_key].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, own]) => [key, group(own)]))
}

/** Wait ÷ service of each program, over all of its calls. */
function programRatios({ config, calls }: Played): number[] {
  const wait_us = new Float64Array(config.programs.length)
  const service_us = new Float64Array(config.programs.length)
  for (const { program, measured } of calls) {
    wait_us[program] = (wait_us[program] ?? 0) + measured.wait_us
    service_us[program] = (service_us[program] ?? 0) + measured.service_wall_us
  }
  return [...wait_us].map((wait, program) => wait / (service_us[program] as number))
}

/** Mean of the values whose key lies in each bin; bins that nothing fell into are left out. */
export function bins(froms: readonly number[], samples: readonly (readonly [number, number])[]): Bin[] {
  return froms.flatMap((from, at) => {
    const to = froms[at + 1] ?? Number.POSITIVE_INFINITY
    const values = samples.filter(([key]) => key >= from && key < to).map(([, value]) => value)
    return values.length === 0 ? [] : [{ from, count: values.length, value: mean(values) }]
  })
}

/** Each call's time in its engine, added to the windows that it lay in. */
export function callsInEngine(calls: readonly CallResult[]): number[] {
  const window_us = WINDOW_S * US_PER_S
  const busy_us: number[] = []
  for (const { ended_us, measured } of calls) {
    const began_us = ended_us - measured.duration_us
    for (let at = Math.max(0, Math.floor(began_us / window_us)); at * window_us < ended_us && at < WINDOWS_MAX; at++) {
      const inside_us = Math.min(ended_us, (at + 1) * window_us) - Math.max(began_us, at * window_us)
      busy_us[at] = (busy_us[at] ?? 0) + inside_us
    }
  }
  return Array.from(busy_us, (sum) => Math.round(((sum ?? 0) / window_us) * 100) / 100)
}
