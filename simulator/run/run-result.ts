/** One run as `--json` writes it. Program token latency is the paper's: a program's response ÷ the tokens that it generated. */

import type { ToolCounts } from '../../gpu-agent/engine/memory/handling/handling-counts.ts'
import type { ProgramResult, SimulationResult } from '../simulation.ts'
import { type Summary, summary } from '../statistics.ts'
import { enginesOf, type FrontName, type RunPoint } from './play-plan.ts'

export interface TenantResult {
  tenant: string
  programs: number
  program_token_latency_ms: Summary
}

export interface RunResult {
  policy: string
  balancer: string
  rate: number
  programs: number
  engines: number
  front: FrontName
  seed: number
  program_token_latency_ms: Summary
  program_latency_s: Summary
  makespan_s: number
  /** Of the time that calls were on engines, the part in which they waited. */
  wait_share: number
  preemptions: number
  swapped_out_tokens: number
  swapped_in_tokens: number
  recomputed_tokens: number
  swap_s: number
  cached_prompt_share: number
  holds_begun: number
  holds_returned: number
  holds_expired: number
  held_back: number
  /** From a program's arrival to its first token. */
  ttft_s: Summary
  /** What became of contexts while tools ran, under a policy that handles them. */
  tools: ToolCounts
  decisions: number
  /** Calls that a provider did not take in, each time. */
  refusals: number
  /** Of the whole run, engines' time in steps. */
  busy_share: number
  calls: number
  output_tokens: number
  /** By the workload's own label. */
  program_token_latency_ms_by_workload: Record<string, Summary>
  /** Where there are several tenants. */
  tenants?: TenantResult[]
  /** Real seconds that the simulation took: all else is a function of the flags. */
  sim_wall_s: number
}

export function runResult(point: RunPoint, simulated: SimulationResult, sim_wall_s: number): RunResult {
  const engines = enginesOf(point.fleet)
  const { programs, makespan_us, service_us, wait_us } = simulated
  const tenants = groupBy(programs, ({ tenant }) => tenant)
  return {
    policy: point.policy,
    balancer: point.balancer,
    rate: point.rate,
    programs: programs.length,
    engines,
    front: point.front,
    seed: point.seed,
    program_token_latency_ms: tokenLatencyMs(programs),
    program_latency_s: summary(programs.map(({ response_us }) => response_us / 1e6)),
    makespan_s: makespan_us / 1e6,
    wait_share: ratio(wait_us, wait_us + service_us),
    preemptions: simulated.preemptions,
    swapped_out_tokens: simulated.swapped_out_tokens,
    swapped_in_tokens: simulated.swapped_in_tokens,
    recomputed_tokens: simulated.recomputed_tokens,
    swap_s: simulated.swap_us / 1e6,
    cached_prompt_share: ratio(simulated.cached_tokens, simulated.prompt_tokens),
    holds_begun: simulated.holds_begun,
    holds_returned: simulated.holds_returned,
    holds_expired: simulated.holds_expired,
    held_back: simulated.held_back,
    ttft_s: summary(programs.map(({ first_token_us }) => first_token_us / 1e6)),
    tools: simulated.tools,
    decisions: simulated.decisions,
    refusals: simulated.refusals,
    busy_share: ratio(simulated.busy_us, makespan_us * engines),
    calls: simulated.calls,
    output_tokens: simulated.output_tokens,
    program_token_latency_ms_by_workload: Object.fromEntries(
      [...groupBy(programs, ({ workload }) => workload)].map(([workload, own]) => [workload, tokenLatencyMs(own)]),
    ),
    ...(tenants.size === 1 ? {} : { tenants: [...tenants].map(tenantResult) }),
    sim_wall_s,
  }
}

function tenantResult([tenant, programs]: [string, ProgramResult[]]): TenantResult {
  return { tenant, programs: programs.length, program_token_latency_ms: tokenLatencyMs(programs) }
}

function tokenLatencyMs(programs: readonly ProgramResult[]): Summary {
  return summary(programs.map(({ response_us, output_tokens }) => response_us / 1000 / output_tokens))
}

function ratio(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole
}

/** Keys ascending. */
function groupBy(
  programs: readonly ProgramResult[],
  keyOf: (program: ProgramResult) => string,
): Map<string, ProgramResult[]> {
  const groups = new Map<string, ProgramResult[]>()
  for (const program of programs) {
    const group = groups.get(keyOf(program))
    if (group === undefined) groups.set(keyOf(program), [program])
    else group.push(program)
  }
  return new Map([...groups].sort(([a], [b]) => (a < b ? -1 : 1)))
}
