/** What `bench:policies` reports beside what every comparison does, and its ratios to fcfs for the file of figures. */
import { mean } from '../../simulator/statistics.ts'
import { type ComparedRun, type Comparison, namesOf, ratios, workloadsOf } from './comparison.ts'
import type { Run } from './policies-file.ts'

export const POLICIES_COMPARISON: Comparison<Run> = {
  ...{ base: 'fcfs', gateway: null },
  extra: [
    { title: 'offered load', digits: 2, figure: (run) => run.offered_load },
    { title: 'live at most', digits: 0, figure: (run) => run.live_programs.max },
    { title: 'swapped tokens', digits: 0, figure: (run) => run.swapped_out_tokens },
  ],
}

interface Ratios {
  mean: number
  p50: number
  p95: number
  p99: number
  makespan: number
  mean_by_seed: number[]
}

/** By workload and policy: each figure over fcfs's of the same seed, then the mean over the seeds that both have. */
export function ratiosToFcfs(runs: readonly Run[]): Record<string, Record<string, Ratios>> {
  return Object.fromEntries(
    workloadsOf(runs).map((workload) => [workload, ratiosOf(runs.filter((run) => run.workload === workload))]),
  )
}

function ratiosOf(runs: readonly ComparedRun[]): Record<string, Ratios> {
  const each = namesOf(runs).flatMap((name): [string, Ratios][] => {
    const to = (figure: (run: ComparedRun) => number) => ratios(runs, name, POLICIES_COMPARISON.base, figure)
    const latency = (q: 'mean' | 'p50' | 'p95' | 'p99') => mean(to((run) => run.program_token_latency_ms[q]))
    const mean_by_seed = to((run) => run.program_token_latency_ms.mean)
    if (mean_by_seed.length === 0) return []
    const [p50, p95, p99] = [latency('p50'), latency('p95'), latency('p99')]
    return [
      [name, { mean: mean(mean_by_seed), p50, p95, p99, makespan: mean(to((run) => run.makespan_s)), mean_by_seed }],
    ]
  })
  return Object.fromEntries(each)
}
