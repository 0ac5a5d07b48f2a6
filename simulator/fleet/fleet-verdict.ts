/** What a search for the fewest engines comes to: which candidate is best, what it costs, and that in words. */
import type { EngineRange } from './fewest-engines.ts'
import type { Candidate, PlayedSize, Target } from './fleet-search.ts'

/** Twice the engines that change the p95 by less do not help. */
const FLAT_SHARE = 0.03
/** Beyond it a fleet may be one that only keeps up because the traffic ends. */
const BUSY_MAX = 0.95

export interface FleetQuestion {
  target: Target
  range: EngineRange
  /** Of a GPU for an hour. */
  gpu_cost: number | null
}

/** Fewest GPUs first, then the lower latency. What misses the target comes last. */
export function byCost(a: Candidate, b: Candidate): number {
  const gpus = ({ fewest_engines, gpus: each }: Candidate) => (fewest_engines ?? Number.POSITIVE_INFINITY) * each
  const more = gpus(a) === gpus(b) ? 0 : gpus(a) - gpus(b)
  return more || shownOf(a).p95 - shownOf(b).p95
}

/** The fewest engines that meet the target. If none does, the most that were played. */
export function shownOf({ played, fewest_engines }: Candidate): PlayedSize {
  return (played.find(({ engines }) => engines === fewest_engines) ?? played.at(-1)) as PlayedSize
}

export function oneFewer({ played, fewest_engines }: Candidate): PlayedSize | undefined {
  return fewest_engines === null ? undefined : played.find(({ engines }) => engines === fewest_engines - 1)
}

export function costOf({ fewest_engines, gpus }: Candidate, gpu_cost: number | null): number | null {
  return fewest_engines === null || gpu_cost === null ? null : fewest_engines * gpus * gpu_cost
}

export function inUnit({ measure }: Pick<Target, 'measure'>, value: number): string {
  return measure === 'program_s' ? `${value.toFixed(1)} s` : `${value.toFixed(1)} ms a token`
}

/** `floor`: more engines hardly change it, so tools and the speed of a single call are what is left. */
export type Advice = 'more_engines' | 'more_traffic' | 'floor'

/** `candidates`: at least one, the best first. `advice`: what to do about it. Null: nothing. */
export function verdictOf(
  candidates: readonly Candidate[],
  { target, range, gpu_cost }: FleetQuestion,
): { sentence: string; advice: Advice | null } {
  const best = candidates[0] as Candidate
  const shown = shownOf(best)
  const goal = `a p95 of ${inUnit(target, target.at_most)}`
  if (best.fewest_engines === null) {
    const sentence = `No fleet of up to ${range.max} engines meets ${goal}. The nearest has ${inUnit(target, shown.p95)}.`
    return { sentence, advice: isFlat(best) ? 'floor' : 'more_engines' }
  }
  const cost = costOf(best, gpu_cost)
  const fewer = oneFewer(best)
  const [noun, verb] = best.fewest_engines === 1 ? ['engine', 'meets'] : ['engines', 'meet']
  const parts = [
    `${best.fewest_engines} ${noun} of ${best.profile} with ${best.policy}${best.front === 'queue' ? " in the agent's queue" : ''} and ${best.balancer} ${verb} ${goal}`,
    `${cost === null ? '' : ` for ${cost.toFixed(2)} an hour`}: ${inUnit(target, shown.p95)}.`,
    fewer === undefined ? '' : ` With ${fewer.engines} it would be ${inUnit(target, fewer.p95)}.`,
  ]
  if (shown.busy_share <= BUSY_MAX) return { sentence: parts.join(''), advice: null }
  const busy = ` They are busy ${(shown.busy_share * 100).toFixed(0)} % of the time: if the traffic lasts longer than what was played, queues may go on growing.`
  return { sentence: `${parts.join('')}${busy}`, advice: 'more_traffic' }
}

/** Whether the last doubling of engines changed nothing. */
function isFlat({ played }: Candidate): boolean {
  const [before, last] = played.slice(-2)
  return before !== undefined && last !== undefined && before.p95 - last.p95 < FLAT_SHARE * before.p95
}
