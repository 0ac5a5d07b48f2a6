/** What `bench:vllm` reports beside what every comparison does: the plug-in's own time, and what makes runs worthless. */
import { mean } from '../../../simulator/statistics.ts'
import type { Comparison } from '../comparison.ts'
import type { VllmRun } from './runs.ts'

const DECISION_SHARE_MAX = 0.02

export const VLLM_COMPARISON: Comparison<VllmRun> = {
  ...{ base: 'stock-fcfs', gateway: 'stock-priority' },
  noWorse: [{ name: 'plas-swap', than: 'plas' }],
  extra: [
    { title: 'swapped in', digits: 0, figure: (run) => run.swapped_in_tokens },
    { title: 'computed again', digits: 0, figure: (run) => run.recomputed_tokens },
    { title: 'preserved', digits: 0, figure: ({ handled }) => handled?.preserve ?? null },
    { title: 'discarded', digits: 0, figure: ({ handled }) => handled?.discard ?? null },
    { title: 'swapped', digits: 0, figure: ({ handled }) => handled?.swap ?? null },
    { title: 'decision ms/step', digits: 3, figure: (run) => run.decision_ms_per_step },
  ],
}

/**
 * Time in the plug-in's code, as a share of a step; null: no run had a plug-in. A step's time is taken to be the makespan over the
 * steps, which counts what lies between them too.
 */
export function decisionGoal(runs: readonly VllmRun[]): string | null {
  const shares = runs.flatMap(({ decision_ms_per_step, steps, makespan_s }) =>
    decision_ms_per_step === null || steps === null ? [] : [decision_ms_per_step / ((makespan_s * 1000) / steps)],
  )
  if (shares.length === 0) return null
  const share = mean(shares)
  const verdict = share <= DECISION_SHARE_MAX ? 'met' : 'missed'
  return `Decisions, share of a step: ${share.toFixed(3)}, goal at most ${DECISION_SHARE_MAX}: ${verdict}`
}

/** What makes the runs worthless; null: nothing. Where KV is scarce, plas may well finish programs without preempting any. */
export function faultOf(runs: readonly VllmRun[]): string | null {
  const idle = runs.find(
    ({ workload, name, preemptions }) => workload === 'chats' && name === 'plas' && preemptions === 0,
  )
  if (idle !== undefined) return `plas preempted no call in the run of seed ${idle.seed}: the load is no overload`
  const roomy = runs.find(
    ({ workload, name, swapped_in_tokens }) =>
      workload === 'writers' && name === 'plas-swap' && swapped_in_tokens === 0,
  )
  return roomy === undefined ? null : `plas-swap swapped nothing in the run of seed ${roomy.seed}: memory is not short`
}
