/**
 * Calls that are run on the measured engine and simulated with what was measured. Runs of mixed calls take a little longer than steps that were measured
 * one kind at a time, so the first run corrects the costs, and the second says how far the planner is from a run that it has not seen.
 */
import { type EngineTimes, scaledTimes } from '../../gpu-agent/planner/costs/engine-costs.ts'
import type { ModelCosts } from '../../gpu-agent/planner/costs/model-costs.ts'
import { configOf, LOGGED_ENGINE } from '../../gpu-agent/planner/runs/engine-settings.ts'
import { ReplicaRun } from '../../gpu-agent/planner/runs/replica-run.ts'
import { seededRandom } from '../../simulator/random.ts'

export interface TrialCall {
  prompt_tokens: number
  output_tokens: number
}

/** Calls at once, and how long they took. */
export interface Trial {
  calls: readonly TrialCall[]
  real_s: number
}

export const TRIALS = 2

/** For each seat. */
const ROUNDS = 4
/** A share of the context: prompts from the first to the second, answers up to the third. */
const PROMPT_SHARES = [0.02, 0.4] as const
const OUTPUT_SHARE = 0.1
const OUTPUT_TOKENS_MIN = 4

/** More calls than seats, of mixed lengths, that are sent at once. Each number of a trial has other calls. */
export function trialCalls(seats: number, context_tokens: number, trial: number): TrialCall[] {
  const random = seededRandom(2 + trial)
  const [low, high] = PROMPT_SHARES
  return Array.from({ length: seats * ROUNDS }, () => ({
    prompt_tokens: Math.max(1, Math.round(context_tokens * (low + (high - low) * random()))),
    output_tokens: Math.max(OUTPUT_TOKENS_MIN, Math.round(context_tokens * OUTPUT_SHARE * random())),
  }))
}

/** Seconds that the planner expects of them, first come, first served. */
export function simulatedS(costs: ModelCosts, calls: readonly TrialCall[]): number {
  const run = new ReplicaRun(
    configOf(costs, LOGGED_ENGINE, new Map()),
    {
      known_tokens: Int32Array.from(calls, ({ prompt_tokens }) => prompt_tokens),
      left_tokens: Int32Array.from(calls, ({ output_tokens }) => output_tokens),
      ready_s: new Float64Array(calls.length),
      next: new Int32Array(calls.length).fill(-1),
    },
    0,
  )
  run.run()
  return run.now_s
}

/** The costs with which the first trial takes as long as it did, and how far they are from the second. */
export function correctedBy(
  trials: readonly [Trial, Trial],
  times: EngineTimes,
  costsOf: (times: EngineTimes) => ModelCosts,
): { costs: ModelCosts; simulated_s: number; run_percent: number } {
  const [first, second] = trials
  const factor = first.real_s / simulatedS(costsOf(times), first.calls)
  const costs = costsOf(scaledTimes(times, factor))
  const simulated_s = simulatedS(costs, second.calls)
  return { costs, simulated_s, run_percent: offPercent(simulated_s, second.real_s) }
}

/** Above 0: the simulation takes longer. */
export function offPercent(simulated_s: number, real_s: number): number {
  return Number((100 * (simulated_s / real_s - 1)).toFixed(1))
}
