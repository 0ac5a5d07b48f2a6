/** Figure 18: distance to clairvoyant orders, in a simulation in which every step lasts the same. */
import type { Figure, Scope } from '../figure.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import { interval } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { type SystemName, systemOf } from '../systems.ts'
import { OURS, WORKLOAD_LABELS } from './scale.ts'
import { MEAN_MS, type Metric, type Sweep, sweepChain, sweepLine, sweepSpec } from './sweep.ts'

/** Around what 128 seats serve in steps of one length. */
const RATES = { sharegpt: [4.2, 6, 8.4], lats: [0.6, 0.85, 1.2] } as const
type Shown = keyof typeof RATES
const WORKLOADS = Object.keys(RATES) as Shown[]
const ARRIVALS_S = 120
const QUICK_ARRIVALS_S = 20
const RESPONSE: Metric = ({ response_s }) => response_s.mean

const SYSTEM_NAMES: readonly SystemName[] = ['vllm-opt', 'rr', 'mlfq', OURS, 'srpt', 'wsrpt']

function sweep(workload: Shown, system: SystemName, { quick }: Scope): Sweep {
  return {
    ...{ workload, system },
    programs: (rate) => Math.round(rate * (quick ? QUICK_ARRIVALS_S : ARRIVALS_S)),
    rates: quick ? RATES[workload].filter((_, at) => at % 2 === 0) : RATES[workload],
    change: { profile: 'equal-steps', decision_us: 0, steps_per_decision: 1 },
  }
}

/** Mean response under a system ÷ under SRPT, at the highest rate that both played. */
function distance(runs: Runs, workload: Shown, system: SystemName, of: Metric, best: 'srpt' | 'wsrpt', scope: Scope) {
  const own = sweep(workload, system, scope)
  const optimal = sweep(workload, best, scope)
  const rate = own.rates.findLast((one) =>
    scope.seeds.every(
      (seed) =>
        runs.of(sweepSpec(own, one, seed)) !== undefined && runs.of(sweepSpec(optimal, one, seed)) !== undefined,
    ),
  )
  if (rate === undefined) return null
  const ratio = interval(
    scope.seeds.map(
      (seed) => of(runs.need(sweepSpec(own, rate, seed))) / of(runs.need(sweepSpec(optimal, rate, seed))),
    ),
  )
  return { rate, ratio }
}

export const FIGURE_18: Figure = {
  id: '18',
  title: 'Distance to clairvoyant orders',
  paper: 'Autellix is better than FCFS, round robin and MLFQ, and a visible gap to SRPT remains.',
  setup:
    'Every step lasts the same, memory has no bound, a decision at every step and costs nothing: 128 seats alone are scarce. SRPT orders by remaining work, which is best for mean response; WSRPT by remaining work × tokens, for mean token latency.',
  chains: (scope) => {
    return WORKLOADS.flatMap((workload) =>
      SYSTEM_NAMES.map((system) => sweepChain(sweep(workload, system, scope), scope)),
    )
  },
  read: (runs, scope) => {
    const panel = (workload: Shown, name: string, what: string, y: string, metric: Metric) => ({
      name: `${workload}-${name}`,
      alt: `${WORKLOAD_LABELS[workload]}: ${y} against rate, by order, clairvoyant ones included.`,
      svg: lineChart({
        ...{ title: `${WORKLOAD_LABELS[workload]}: ${what}`, x: 'programs per second', y, x_log: true, y_log: true },
        lines: SYSTEM_NAMES.map((system) => ({
          name: systemOf(system).label,
          color: SYSTEM_COLORS[system],
          dashed: system === 'srpt' || system === 'wsrpt',
          points: sweepLine(sweep(workload, system, scope), runs, scope, metric),
        })),
      }),
    })
    const distances = WORKLOADS.flatMap((workload) => {
      const token = distance(runs, workload, OURS, MEAN_MS, 'wsrpt', scope)
      const response = distance(runs, workload, OURS, RESPONSE, 'srpt', scope)
      return token === null || response === null ? [] : [{ workload, token, response }]
    })
    return {
      panels: WORKLOADS.flatMap((workload) => [
        panel(workload, 'token', 'token latency', 'ms per token, mean', MEAN_MS),
        panel(workload, 'response', 'response', 's, mean', RESPONSE),
      ]),
      shows: distances.map(
        ({ workload, token, response }) =>
          `${WORKLOAD_LABELS[workload]} at ${figure(response.rate)}/s: ours has ${withInterval(response.ratio)}× the mean response of SRPT and ${withInterval(token.ratio)}× the mean token latency of WSRPT (at ${figure(token.rate)}/s).`,
      ),
      losses: WORKLOADS.flatMap((workload) => [
        ...behindBaselines(runs, workload, 'token latency', MEAN_MS, scope),
        ...behindBaselines(runs, workload, 'response', RESPONSE, scope),
      ]),
    }
  },
}

/** Rates at which a program-blind order has the lower mean. */
function behindBaselines(runs: Runs, workload: Shown, what: string, metric: Metric, scope: Scope): string[] {
  const line = (system: SystemName) => sweepLine(sweep(workload, system, scope), runs, scope, metric)
  const ours = line(OURS)
  return (['vllm-opt', 'rr', 'mlfq'] as const).flatMap((other) => {
    const worse = line(other).flatMap(({ x, y }) => {
      const mine = ours.find((point) => point.x === x)
      return mine !== undefined && y.mean < mine.y.mean * 0.98 ? [{ x, ratio: mine.y.mean / y.mean }] : []
    })
    const most = worse.toSorted((a, b) => b.ratio - a.ratio)[0]
    if (most === undefined) return []
    return [
      `${WORKLOAD_LABELS[workload]}: ${systemOf(other).label} has the lower mean ${what} at ${worse.map(({ x }) => figure(x)).join(', ')}/s; ours has ${figure(most.ratio)}× its at ${figure(most.x)}/s.`,
    ]
  })
}
