/** Figure 14: balancers over four small or two large engines, and what the learned order makes of the default one. */
import { BALANCER_NAMES, type BalancerName } from '../../../src/core/pool/balancers/index.ts'
import type { Figure, PaperRow, Scope } from '../figure.ts'
import { BALANCER_COLORS, BALANCER_LABELS, SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import { interval, isAbove, isBelow } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { systemOf } from '../systems.ts'
import { HISTORY } from './learned.ts'
import { OURS, slosOf } from './scale.ts'
import { MEAN_MS, type Metric, type Sweep, sweepChain, sweepCurves, sweepLine, sweepSpec } from './sweep.ts'
import { paperRatio, type RatioAt, ratiosAt, ratioTable } from './throughput.ts'

interface Setting {
  name: string
  label: string
  workload: 'sharegpt' | 'lats'
  profile: 'a100-8b' | 'a100-70b-tp4'
  engines: number
  rates: readonly number[]
}

const SETTINGS: readonly Setting[] = [
  {
    name: '8b-sharegpt',
    label: '4 × 8B, chats',
    workload: 'sharegpt',
    profile: 'a100-8b',
    engines: 4,
    rates: [4, 7, 10, 14, 20],
  },
  {
    name: '8b-lats',
    label: '4 × 8B, tree search',
    workload: 'lats',
    profile: 'a100-8b',
    engines: 4,
    rates: [1, 2, 4],
  },
  {
    name: '70b-sharegpt',
    label: '2 × 70B, chats',
    workload: 'sharegpt',
    profile: 'a100-70b-tp4',
    engines: 2,
    rates: [1, 1.5, 2, 3, 4],
  },
  {
    name: '70b-lats',
    label: '2 × 70B, tree search',
    workload: 'lats',
    profile: 'a100-70b-tp4',
    engines: 2,
    rates: [0.2, 0.4, 0.8],
  },
]
const ARRIVALS_S = 60
const QUICK_ARRIVALS_S = 20
const PROGRAMS_MIN = 12
/** What serves traffic; Algorithm 2 is the paper's. */
const OURS_BALANCER = 'cost-aware' satisfies BalancerName
/** "up to", §6.4: Algorithm 2 over round robin and least used. */
const PAPER = 1.4
const LEARNED = 'learned'
const P95: Metric = ({ token_latency_ms }) => token_latency_ms.p95
const P99: Metric = ({ token_latency_ms }) => token_latency_ms.p99

function sweep({ workload, profile, engines, rates }: Setting, balancer: BalancerName, { quick }: Scope): Sweep {
  return {
    workload,
    system: OURS,
    programs: (rate) => Math.max(PROGRAMS_MIN, Math.round(rate * (quick ? QUICK_ARRIVALS_S : ARRIVALS_S))),
    rates: quick ? rates.filter((_, at) => at % 2 === 0) : rates,
    change: { balancer, profile, regions: [{ name: 'region', engines }] },
  }
}

/** Over the default balancer, and warm. */
function learnedSweep(setting: Setting, scope: Scope): Sweep {
  const { change, ...own } = sweep(setting, OURS_BALANCER, scope)
  return { ...own, system: LEARNED, change: { ...change, history: HISTORY } }
}

type Others = { other: BalancerName; ratios: RatioAt[] }[]

/** Of the control plane's default over each other balancer. */
function ratiosOf(setting: Setting, runs: Runs, scope: Scope): Others {
  const curves = (balancer: BalancerName) => sweepCurves(sweep(setting, balancer, scope), runs, scope)
  return BALANCER_NAMES.filter((name) => name !== OURS_BALANCER).map((other) => ({
    other,
    ratios: ratiosAt(curves(OURS_BALANCER), curves(other), slosOf(setting.workload)),
  }))
}

export const FIGURE_14: Figure = {
  id: '14',
  title: 'Balancers over several engines',
  paper:
    'Algorithm 2 has the lowest mean and tail latencies in every configuration, up to 1.4× the throughput of round robin and least used.',
  setup: `PLAS on every engine, 128 seats each; arrivals for ${ARRIVALS_S} s. One more line has the learned order over the default balancer, with ${HISTORY} programs ended before. Session affinity keeps a program where its first call went. Cost-aware, the default, takes the least sum of expected start and uncached prefill. Prompts of tree searches have at most 2,048 tokens, which Algorithm 2 sends to the least used engine, so there it and least used are the same.`,
  chains: (scope) => {
    return SETTINGS.flatMap((setting) => [
      ...BALANCER_NAMES.map((balancer) => sweepChain(sweep(setting, balancer, scope), scope)),
      sweepChain(learnedSweep(setting, scope), scope),
    ])
  },
  read: (runs, scope) => {
    const read = SETTINGS.map((setting) => ({ setting, others: ratiosOf(setting, runs, scope) }))
    const panel = (setting: Setting, name: string, metric: Metric) => ({
      name: `${setting.name}-${name}`,
      alt: `${setting.label}: ${name} program token latency against rate, by balancer.`,
      svg: lineChart({
        ...{
          title: `${setting.label}: ${name}`,
          x: 'programs per second',
          y: `ms per token, ${name}`,
          y_log: true,
          x_log: true,
        },
        lines: [
          ...BALANCER_NAMES.map((balancer) => ({
            name: BALANCER_LABELS[balancer],
            color: BALANCER_COLORS[balancer],
            dashed: balancer === 'cost-aware' || balancer === 'locality',
            points: sweepLine(sweep(setting, balancer, scope), runs, scope, metric),
          })),
          {
            name: `${systemOf(LEARNED).label}, cost-aware`,
            color: SYSTEM_COLORS[LEARNED],
            points: sweepLine(learnedSweep(setting, scope), runs, scope, metric),
          },
        ],
      }),
    })
    return {
      panels: SETTINGS.flatMap((setting) => [
        panel(setting, 'mean', MEAN_MS),
        panel(setting, 'p95', P95),
        panel(setting, 'p99', P99),
      ]),
      shows: [
        ...read.flatMap(({ setting, others }) => shows(setting, others)),
        ...SETTINGS.map((setting) => learnedInWords(setting, runs, scope)),
      ],
      losses: read.flatMap(({ setting, others }) => [...losses(setting, others), ...slower(setting, runs, scope)]),
      tables: read.flatMap(({ setting, others }) =>
        ratioTable(
          `${setting.label}: rate of cost-aware ÷ rate of the other, by SLO on the mean`,
          slosOf(setting.workload),
          others.map(({ other, ratios }) => ({ name: BALANCER_LABELS[other], ratios })),
        ),
      ),
      paper: read.flatMap(({ setting, others }) => paperRows(setting, others)),
    }
  },
}

function shows({ label }: Setting, others: Others): string[] {
  return others.flatMap(({ other, ratios }) => {
    const better = ratios.filter(({ ratio }) => ratio.mean > 1).toSorted((a, b) => b.ratio.mean - a.ratio.mean)[0]
    if (better === undefined) return []
    return [
      `${label}: cost-aware serves up to ${figure(better.ratio.mean)}× as much as ${BALANCER_LABELS[other]} (within ${better.slo_ms} ms per token).`,
    ]
  })
}

/** Mean latency of the learned order ÷ that of PLAS, both over the default balancer, at each rate that both played. */
function learnedInWords(setting: Setting, runs: Runs, scope: Scope): string {
  const [learned, plas] = [learnedSweep(setting, scope), sweep(setting, OURS_BALANCER, scope)]
  const ratios = playedByAll([learned, plas], runs, scope).map((rate) => {
    const ratio = interval(
      scope.seeds.map((seed) => meanAt(learned, rate, seed, runs) / meanAt(plas, rate, seed, runs)),
    )
    return `${withInterval(ratio)}× at ${figure(rate)}/s`
  })
  return `${setting.label}: the learned order has, of the mean latency of PLAS, ${ratios.join(', ')}.`
}

function playedByAll(sweeps: readonly [Sweep, Sweep], runs: Runs, { seeds }: Scope): number[] {
  const [first, ...others] = sweeps
  const played = (of: Sweep, rate: number) => seeds.every((seed) => runs.of(sweepSpec(of, rate, seed)) !== undefined)
  return first.rates.filter((rate) => [first, ...others].every((one) => played(one, rate)))
}

function meanAt(of: Sweep, rate: number, seed: number, runs: Runs): number {
  return MEAN_MS(runs.need(sweepSpec(of, rate, seed)))
}

function losses({ label }: Setting, others: Others): string[] {
  return others.flatMap(({ other, ratios }) => {
    const worse = ratios.filter(({ bound, ratio }) => bound === 'exact' && isBelow(ratio, 1))
    const least = worse.toSorted((a, b) => a.ratio.mean - b.ratio.mean)[0]
    if (least === undefined) return []
    return [
      `${label}: cost-aware serves less than ${BALANCER_LABELS[other]}, ${figure(least.ratio.mean)}× within ${least.slo_ms} ms per token.`,
    ]
  })
}

/** At the highest rate that both played, a lower mean than ours beyond doubt. */
function slower(setting: Setting, runs: Runs, scope: Scope): string[] {
  return BALANCER_NAMES.flatMap((other) => {
    const own = sweep(setting, other, scope)
    const mine = sweep(setting, OURS_BALANCER, scope)
    const rate = playedByAll([own, mine], runs, scope).at(-1)
    if (rate === undefined || other === OURS_BALANCER) return []
    const ratio = interval(scope.seeds.map((seed) => meanAt(mine, rate, seed, runs) / meanAt(own, rate, seed, runs)))
    if (!isAbove(ratio, 1)) return []
    return [
      `${setting.label} at ${figure(rate)}/s: cost-aware has ${withInterval(ratio)}× the mean latency of ${BALANCER_LABELS[other]}.`,
    ]
  })
}

function paperRows({ label }: Setting, others: Others): PaperRow[] {
  return others
    .filter(({ other }) => other === 'round-robin' || other === 'least-used')
    .map(({ other, ratios }) => paperRatio(`${label}: throughput over ${BALANCER_LABELS[other]}`, PAPER, ratios))
}
