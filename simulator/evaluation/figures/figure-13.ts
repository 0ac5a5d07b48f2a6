/** Figure 13: the 95th and 99th percentile over programs, from the runs of figure 12. */
import type { Figure, PaperRow, Scope } from '../figure.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import { isBelow } from '../statistics/interval.ts'
import { figure } from '../statistics/words.ts'
import { type SystemName, systemOf } from '../systems.ts'
import { mainSweep, referenceLines, referenceScope, referenceSweeps, scopeFor } from './figure-12.ts'
import { AUTELLIX_WORKLOADS, type AutellixWorkload, ceilingOf, OURS, slosOf, WORKLOAD_LABELS } from './scale.ts'
import { type Metric, sweepChain, sweepCurves, sweepLine } from './sweep.ts'
import { largest, type RatioAt, ratiosAt } from './throughput.ts'

const OTHERS = ['vllm-opt', 'mlfq'] as const satisfies readonly SystemName[]

const TAILS: readonly { name: 'p95' | 'p99'; metric: Metric }[] = [
  { name: 'p95', metric: ({ token_latency_ms }) => token_latency_ms.p95 },
  { name: 'p99', metric: ({ token_latency_ms }) => token_latency_ms.p99 },
]
/** Tails lie beyond means, and so do the SLOs that they are read off at. */
const tailSlosOf = (workload: AutellixWorkload) => [
  ...slosOf(workload),
  1.5 * ceilingOf(workload),
  2 * ceilingOf(workload),
]

interface Case {
  workload: AutellixWorkload
  tail: 'p95' | 'p99'
  other: (typeof OTHERS)[number]
  ratios: RatioAt[]
}

const SYSTEM_NAMES: readonly SystemName[] = [...OTHERS, OURS]

export const FIGURE_13: Figure = {
  id: '13',
  every_seed: true,
  title: 'Tail latencies',
  paper:
    "In 7 of 8 cases Autellix's P95 and P99 are lower than MLFQ's and vLLM-opt's; up to 1.7× their throughput at equal tails.",
  setup: 'The runs of figure 12; percentiles are over the programs of a run, then averaged over seeds.',
  chains: (scope) =>
    AUTELLIX_WORKLOADS.flatMap((workload) => [
      ...SYSTEM_NAMES.map((system) => sweepChain(mainSweep(workload, system, scope), scopeFor(workload, scope))),
      ...referenceSweeps(workload, scope).map((sweep) => sweepChain(sweep, referenceScope(scope))),
    ]),
  read: (runs, scope) => {
    const cases = casesOf(runs, scope)
    return {
      panels: AUTELLIX_WORKLOADS.flatMap((workload) => TAILS.map((tail) => panel(workload, tail, runs, scope))),
      shows: [wins(cases), best(cases)].filter((one) => one !== null),
      losses: losses(cases),
      paper: paperRows(cases),
    }
  },
}

function panel(workload: AutellixWorkload, { name, metric }: (typeof TAILS)[number], runs: Runs, scope: Scope) {
  return {
    name: `${workload}-${name}`,
    alt: `${name} of program token latency against rate, ${WORKLOAD_LABELS[workload]}.`,
    svg: lineChart({
      title: `${WORKLOAD_LABELS[workload]}: ${name}`,
      x: 'programs per second',
      y: `ms per token, ${name}`,
      ...{ x_log: true, y_log: true, y_max: 5 * ceilingOf(workload) },
      lines: [
        ...SYSTEM_NAMES.map((system) => ({
          name: systemOf(system).label,
          color: SYSTEM_COLORS[system],
          points: sweepLine(mainSweep(workload, system, scope), runs, scopeFor(workload, scope), metric),
        })),
        ...referenceLines(workload, runs, scope, metric),
      ],
    }),
  }
}

function casesOf(runs: Runs, scope: Scope): Case[] {
  const curves = (workload: AutellixWorkload, system: SystemName, metric: Metric) =>
    sweepCurves(mainSweep(workload, system, scope), runs, scopeFor(workload, scope), metric)
  return AUTELLIX_WORKLOADS.flatMap((workload) =>
    TAILS.flatMap(({ name: tail, metric }) =>
      OTHERS.map((other) => {
        const mine = curves(workload, OURS, metric)
        return { workload, tail, other, ratios: ratiosAt(mine, curves(workload, other, metric), tailSlosOf(workload)) }
      }),
    ),
  )
}

/** Ours serves at least as much at every SLO that both meet. */
function isBetter({ ratios }: Case): boolean {
  return ratios.length > 0 && ratios.every(({ ratio }) => !isBelow(ratio, 1))
}

function wonPairs(cases: readonly Case[]): { won: number; of: number } {
  const pairs = [...Map.groupBy(cases, ({ workload, tail }) => `${workload} ${tail}`).values()]
  return { won: pairs.filter((pair) => pair.every(isBetter)).length, of: pairs.length }
}

function wins(cases: readonly Case[]): string {
  const { won, of } = wonPairs(cases)
  return `In ${won} of ${of} cases (workload × percentile) ours serves no less than both vLLM-opt and MLFQ at every tail SLO that can be compared.`
}

function best(cases: readonly Case[]): string | null {
  const most = cases
    .flatMap((one) => {
      const at = largest(one.ratios)
      return at === null ? [] : [{ ...one, at }]
    })
    .toSorted((a, b) => b.at.ratio.mean - a.at.ratio.mean)[0]
  if (most === undefined) return null
  return `The largest gain in a tail is ${figure(most.at.ratio.mean)}× over ${systemOf(most.other).label} on ${WORKLOAD_LABELS[most.workload]}, ${most.tail} within ${most.at.slo_ms} ms.`
}

function losses(cases: readonly Case[]): string[] {
  return cases.flatMap(({ workload, tail, other, ratios }) => {
    const worse = ratios.filter(({ bound, ratio }) => bound === 'exact' && isBelow(ratio, 1))
    const least = worse.toSorted((a, b) => a.ratio.mean - b.ratio.mean)[0]
    if (least === undefined) return []
    return [
      `${WORKLOAD_LABELS[workload]}, ${tail}: ${systemOf(other).label} serves ${figure(1 / least.ratio.mean)}× as much within ${least.slo_ms} ms ` +
        `(worse for us at ${worse.length} of ${ratios.length} SLOs).`,
    ]
  })
}

function paperRows(cases: readonly Case[]): PaperRow[] {
  const { won, of } = wonPairs(cases)
  const most = largest(cases.flatMap(({ ratios }) => ratios))
  return [
    {
      claim: 'Cases in which both tails are the lowest',
      paper: 7,
      ours: { mean: won, half_width: null, samples: 1 },
      unit: `of ${of}`,
    },
    {
      claim: 'Throughput at equal tail latency, up to',
      paper: 1.7,
      ours: most?.ratio ?? null,
      at_least: most?.bound === 'at_least',
      unit: '×',
      ...(most === null ? {} : { note: `at ${most.slo_ms} ms per token` }),
    },
  ]
}
