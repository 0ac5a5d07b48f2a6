/** What stale reports and distant regions do to each balancer. The paper has one place and queries engines directly. */
import { BALANCER_DEFAULT, BALANCER_NAMES, type BalancerName } from '../../../src/core/pool/balancers/index.ts'
import type { Figure, Scope } from '../figure.ts'
import { BALANCER_COLORS, BALANCER_LABELS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { REPORT_MS, runSpec } from '../runs/run-spec.ts'
import { isAbove } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { type Knob, knobChain, knobMetric, knobRatio } from './ablation-runs.ts'

const REPORTS_MS = [10, 100, 1000, 2500] as const
/** Without any round trip there is no nearest region, and programs would not begin where they start. */
const RTTS_MS = [5, 40, 80, 160] as const
const RATE = 6
const ARRIVALS_S = 100
const QUICK_ARRIVALS_S = 20
/** More than half of the programs start in the one region, which must spill. */
const LOPSIDED = [
  { name: 'us', engines: 2, share: 3 },
  { name: 'eu', engines: 2, share: 1 },
]
const ONE_REGION = [{ name: 'us', engines: 4 }]

const MEAN = ({ token_latency_ms }: RunOutcome) => token_latency_ms.mean
const programs = ({ quick }: Scope) => Math.round(RATE * (quick ? QUICK_ARRIVALS_S : ARRIVALS_S))

function stale(balancer: BalancerName, scope: Scope): Knob<number> {
  const given = { workload: 'sharegpt', programs: programs(scope), rate: RATE, system: 'plas', balancer } as const
  return (report_ms, seed) => runSpec({ ...given, seed, report_ms, regions: ONE_REGION })
}

function distant(balancer: BalancerName, scope: Scope): Knob<number> {
  const given = { workload: 'sharegpt', programs: programs(scope), rate: RATE, system: 'plas', balancer } as const
  return (rtt, seed) => runSpec({ ...given, seed, report_ms: REPORT_MS, regions: LOPSIDED, rtt_ms: { 'us-eu': rtt } })
}

const KNOBS = [
  {
    name: 'reports',
    title: 'Stale reports, 4 engines',
    x: 'ms between reports',
    values: REPORTS_MS,
    knob: stale,
    log: true,
  },
  {
    name: 'regions',
    title: 'Two regions, 3 of 4 start in one',
    x: 'round trip, ms',
    values: RTTS_MS,
    knob: distant,
    log: false,
  },
] as const

export const STALE_REPORTS: Figure = {
  id: 'stale-reports',
  title: 'Stale reports, and regions apart',
  paper: null,
  setup: `Chats at ${RATE} programs per second for ${ARRIVALS_S} s on four a100-8b engines, PLAS. First: one region, an engine reports its queue at most so often; leases since its last report are counted. Second: two regions of two engines, reports every ${REPORT_MS} ms, three quarters of the programs start in one.`,
  chains: (scope) =>
    KNOBS.flatMap(({ values, knob }) =>
      BALANCER_NAMES.map((balancer) => knobChain(knob(balancer, scope), values, scope)),
    ),
  read: (runs, scope) => {
    const changes = KNOBS.map(({ values, knob, ...one }) => ({
      ...one,
      by: BALANCER_NAMES.map((balancer) => ({
        balancer,
        last: knobMetric(runs, knob(balancer, scope), values.at(-1) as number, MEAN, scope),
        change: knobRatio<number>(runs, knob(balancer, scope), [values.at(-1) as number, values[0]], MEAN, scope),
      })),
      worst_value: values.at(-1),
    }))
    return {
      panels: KNOBS.map((one) => panel(one, runs, scope)),
      shows: changes.map(
        ({ title, worst_value, by }) =>
          `${title}: from the least to ${worst_value} ms mean latency becomes ${by.map(({ balancer, change }) => `${withInterval(change)}× under ${BALANCER_LABELS[balancer]}`).join(', ')}.`,
      ),
      losses: changes.flatMap(({ title, worst_value, by }) => {
        const ours = by.find(({ balancer }) => balancer === BALANCER_DEFAULT)
        if (ours === undefined) return []
        const better = by.filter(
          ({ balancer, last }) => balancer !== BALANCER_DEFAULT && isAbove(ours.last, last.mean * 1.02),
        )
        return better.map(
          ({ balancer, last }) =>
            `${title}, ${worst_value} ms: ${BALANCER_LABELS[balancer]} has ${figure(last.mean)} ms per token, ${BALANCER_LABELS[BALANCER_DEFAULT]} ${figure(ours.last.mean)}.`,
        )
      }),
    }
  },
}

function panel({ name, title, x, values, knob, log }: (typeof KNOBS)[number], runs: Runs, scope: Scope) {
  return {
    name,
    alt: `${title}: mean program token latency by ${x}, for each balancer.`,
    svg: lineChart({
      ...{ title, x, y: 'ms per token, mean', x_log: log },
      lines: BALANCER_NAMES.map((balancer) => ({
        name: BALANCER_LABELS[balancer],
        color: BALANCER_COLORS[balancer],
        dashed: balancer === 'cost-aware',
        points: values.map((value) => ({ x: value, y: knobMetric(runs, knob(balancer, scope), value, MEAN, scope) })),
      })),
    }),
  }
}
