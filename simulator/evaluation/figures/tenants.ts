/** A tenant that floods: what another one, whose load stays the same, notices of it. The paper has no tenants. */
import type { Figure, Scope } from '../figure.ts'
import { seriesColor } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { runSpec } from '../runs/run-spec.ts'
import { isAbove } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { type Knob, knobChain, knobMetric, knobRatio } from './ablation-runs.ts'

const VICTIM_RATE = 0.4
/** The flooding tenant's rate over the other one's. */
const FLOODS = [1, 3, 7, 15] as const
const ARRIVALS_S = 120
const QUICK_ARRIVALS_S = 30
const VICTIM = 'quiet'
const FLOODER = 'flooding'

const given = (flood: number, seed: number, { quick }: Scope) => ({
  ...{ workload: 'sharegpt' as const, system: 'plas' as const, seed, rate: VICTIM_RATE * (1 + flood) },
  programs: Math.round(VICTIM_RATE * (1 + flood) * (quick ? QUICK_ARRIVALS_S : ARRIVALS_S)),
})

/** Two tenants of equal weight. */
const apart =
  (scope: Scope): Knob<number> =>
  (flood, seed) =>
    runSpec({
      ...given(flood, seed, scope),
      tenants: [
        { name: VICTIM, weight: 1, share: 1 },
        { name: FLOODER, weight: 1, share: flood },
      ],
    })

/** The same programs, all of one tenant. */
const together =
  (scope: Scope): Knob<number> =>
  (flood, seed) =>
    runSpec(given(flood, seed, scope))

const latencyOf = (tenant: string) => (outcome: RunOutcome) =>
  outcome.by_tenant[tenant]?.token_latency_ms.mean ?? Number.NaN
const ALL = ({ token_latency_ms }: RunOutcome) => token_latency_ms.mean

export const TENANTS: Figure = {
  id: 'tenants',
  title: 'A flooding tenant',
  paper: null,
  setup: `Chats on one a100-8b engine, PLAS, 128 seats. The quiet tenant starts ${VICTIM_RATE} programs per second in every run; both have equal weight. For comparison the same programs as one tenant's.`,
  chains: (scope) => [knobChain(apart(scope), FLOODS, scope), knobChain(together(scope), FLOODS, scope)],
  read: (runs, scope) => {
    const points = (knob: Knob<number>, of: (outcome: RunOutcome) => number) =>
      FLOODS.map((flood) => ({ x: flood, y: knobMetric(runs, knob, flood, of, scope) }))
    const worst = FLOODS.at(-1) as number
    const quiet = knobRatio<number>(runs, apart(scope), [worst, FLOODS[0]], latencyOf(VICTIM), scope)
    const at_worst = {
      quiet: knobMetric(runs, apart(scope), worst, latencyOf(VICTIM), scope),
      flooding: knobMetric(runs, apart(scope), worst, latencyOf(FLOODER), scope),
      together: knobMetric(runs, together(scope), worst, ALL, scope),
    }
    return {
      panels: [
        {
          name: 'latency',
          alt: 'Mean program token latency of each tenant by how much the other one floods.',
          svg: lineChart({
            ...{
              title: 'Latency of each tenant',
              x: "flooding tenant's rate ÷ the quiet one's",
              y: 'ms per token, mean',
              y_log: true,
            },
            lines: [
              { name: 'quiet tenant', color: seriesColor(1), points: points(apart(scope), latencyOf(VICTIM)) },
              { name: 'flooding tenant', color: seriesColor(2), points: points(apart(scope), latencyOf(FLOODER)) },
              { name: 'all, as one tenant', color: seriesColor(6), dashed: true, points: points(together(scope), ALL) },
            ],
          }),
        },
      ],
      shows: [
        `At ${worst} times its rate the flooding tenant has ${withInterval(at_worst.flooding)} ms per token, the quiet one ${withInterval(at_worst.quiet)}; as one tenant's, all have ${withInterval(at_worst.together)}.`,
        `The quiet tenant's latency becomes ${withInterval(quiet)}× as the flood grows from ${FLOODS[0]} to ${worst} times its rate.`,
      ],
      losses: isAbove(quiet, 1.1)
        ? [
            `Shares of seats are not shares of time: the quiet tenant still pays ${figure(quiet.mean)}×, since steps last longer when all seats are taken and KV memory is shared.`,
          ]
        : [],
    }
  },
}
