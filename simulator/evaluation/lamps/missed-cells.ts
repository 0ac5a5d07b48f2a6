/**
 * Why a cell of the paper is not reached, from the runs that it is read from: what the baseline's time consists of says how much
 * of it an order or a handling of contexts can take away at all.
 */
import { HANDLINGS } from '../../../gpu-agent/engine/memory/handling/waste.ts'
import type { Scope } from '../figure.ts'
import type { Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { percent } from '../statistics/words.ts'
import { arrivalsS, METRICS, type Metric, outcomesOf, type Point, type Row } from './setting.ts'

/** Below it nobody waits: there is nothing to take away. */
const WAIT_S_MIN = 1

/** Where a program's time goes: the mean over programs, seconds. */
interface Times {
  tools_s: number
  service_s: number
  wait_s: number
}

export function whyMissed(
  runs: Runs,
  point: Point,
  [row, base]: readonly [Row, Row],
  metric: Metric,
  scope: Scope,
): string {
  const [own, other] = [row, base].map((one) => outcomesOf(runs, point, one, scope)) as [RunOutcome[], RunOutcome[]]
  if (metric === METRICS.throughput) return whyCompleted(own, other, point, base, scope)
  const wait_s = metric === METRICS.ttft ? meanOf(other, ({ ttft_s }) => ttft_s.mean) : timesOf(other).wait_s
  if (wait_s < WAIT_S_MIN)
    return `Under ${base.label} a program waits for ${wait_s.toFixed(2)} s here, so hardly anything can be taken away.`
  const minutes = arrivalsS(scope) / 60
  const grows = `Programs arrive for ${minutes} minutes, and the queue of an overload grows for as long.`
  if (metric === METRICS.ttft) {
    const left_s = meanOf(own, ({ ttft_s }) => ttft_s.mean)
    const p50_s = [own, other].map((of) => meanOf(of, ({ ttft_s }) => ttft_s.p50)) as [number, number]
    return `${base.label}’s TTFT is ${wait_s.toFixed(1)} s and ${left_s.toFixed(1)} s are left of it (medians ${p50_s[1].toFixed(1)} and ${p50_s[0].toFixed(1)} s). ${grows}`
  }
  const times = timesOf(other)
  const all_s = times.tools_s + times.service_s + times.wait_s
  const waiting = times.wait_s / all_s
  const taken = 1 - timesOf(own).wait_s / times.wait_s
  return `Of ${base.label}’s latency ${percent(times.tools_s / all_s)} are tools, ${percent(times.service_s / all_s)} steps in which the program is computed and ${percent(waiting)} waiting, of which ${percent(taken)} are taken away. ${grows}`
}

/**
 * What a row with learned forecasts pays for: contexts that it keeps for calls after which nothing comes, and prompts that it
 * computes again for want of their room; or, if it finds as much as the baseline does, the order.
 */
export function whyLearned(runs: Runs, point: Point, [row, base]: readonly [Row, Row], scope: Scope): string {
  const [own, other] = [row, base].map((one) => outcomesOf(runs, point, one, scope)) as [RunOutcome[], RunOutcome[]]
  const cached = (of: readonly RunOutcome[]) => meanOf(of, (one) => one.cached_tokens / one.prompt_tokens)
  const found = `${percent(cached(own))} of its prompts are cached, and ${percent(cached(other))} of ${base.label}’s`
  const kept = HANDLINGS.filter((handling) => handling !== 'discard')
  const times = (of: readonly RunOutcome[], what: 'decided' | 'returned') =>
    Math.round(meanOf(of, ({ tools }) => kept.reduce((sum, handling) => sum + tools[handling][what], 0)))
  const contexts = `It keeps ${times(own, 'decided')} contexts, of which ${times(own, 'returned')} are returned to (${base.label}: ${times(other, 'decided')} and ${times(other, 'returned')})`
  const p50 = [own, other].map((of) => meanOf(of, ({ response_s }) => response_s.p50)) as [number, number]
  const median = `Half of the programs end within ${p50[0].toFixed(1)} s (${base.label}: ${p50[1].toFixed(1)} s)`
  return `${contexts}. ${found}. ${median}.`
}

/** What ends before the last program comes counts. */
function whyCompleted(
  own: readonly RunOutcome[],
  other: readonly RunOutcome[],
  { load }: Point,
  base: Row,
  scope: Scope,
): string {
  const share = (of: readonly RunOutcome[]) =>
    meanOf(of, ({ completed_per_s, programs }) => (completed_per_s * arrivalsS(scope)) / programs)
  return `At a load of ${load}, ${percent(share(other))} of the programs that come within ${arrivalsS(scope) / 60} minutes also end in them under ${base.label}, and ${percent(share(own))} here: no more than all can.`
}

function timesOf(outcomes: readonly RunOutcome[]): Times {
  const service_s = meanOf(outcomes, (one) => one.service_s / one.programs)
  const wait_s = meanOf(outcomes, (one) => one.wait_s / one.programs)
  const response_s = meanOf(outcomes, (one) => one.response_s.mean)
  return { service_s, wait_s, tools_s: Math.max(0, response_s - service_s - wait_s) }
}

function meanOf(outcomes: readonly RunOutcome[], of: (outcome: RunOutcome) => number): number {
  return outcomes.reduce((sum, one) => sum + of(one), 0) / outcomes.length
}
