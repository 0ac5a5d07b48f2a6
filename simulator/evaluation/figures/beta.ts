/** β's effect: mean latency against starvation (§4.2.2, "a trade-off between average response times and fairness"). */
import { PROGRAM_LEVELS } from '../../../gpu-agent/engine/order/policies/levels/levels.ts'
import type { Figure, Scope } from '../figure.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { runSpec } from '../runs/run-spec.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { type Knob, knobChain, knobMetric } from './ablation-runs.ts'

const BETAS = [40, 120, 400, 800, 2000, 40_000] as const
/** Programs per second, and seats: an overload that lasts, since no program starves in a short one. */
const RATE = 0.91
const SEATS = 32
const PROGRAMS = 400
const QUICK_PROGRAMS = 80

const METRICS: readonly { name: string; y: string; of: (outcome: RunOutcome) => number }[] = [
  { name: 'mean', y: 'ms per token, mean', of: ({ token_latency_ms }) => token_latency_ms.mean },
  { name: 'p99', y: 'ms per token, p99', of: ({ token_latency_ms }) => token_latency_ms.p99 },
  { name: 'worst-wait', y: 'wait ÷ service, worst program', of: ({ program_wait_ratio }) => program_wait_ratio.max },
]

function knob(scope: Scope): Knob<number> {
  const programs = scope.quick ? QUICK_PROGRAMS : PROGRAMS
  return (beta, seed) =>
    runSpec({ workload: 'mixed', programs, seed, rate: RATE, system: 'plas', max_seqs: SEATS, beta })
}

export const BETA: Figure = {
  id: 'beta',
  title: 'β: latency against starvation',
  paper: 'Varying β trades average response times against fairness; the paper has no figure of it.',
  setup: `Mixed, ${PROGRAMS} programs (quick: ${QUICK_PROGRAMS}) at ${RATE} per second, PLAS, a100-8b with ${SEATS} seats, an overload. A call is promoted when its program has waited β times its service; ${BETAS.at(-1)} is practically never.`,
  chains: (scope) => [knobChain(knob(scope), BETAS, scope)],
  read: (runs, scope) => {
    const values = METRICS.map(({ of }) =>
      BETAS.map((beta) => ({ x: beta, y: knobMetric(runs, knob(scope), beta, of, scope) })),
    )
    const best = (points: (typeof values)[number]) =>
      points.reduce((least, one) => (one.y.mean < least.y.mean ? one : least))
    const never = (at: number) => values[at]?.at(-1)?.y
    const used = knobMetric(
      runs,
      (_: null, seed) => ({ ...knob(scope)(1, seed), beta: PROGRAM_LEVELS.modelled.promotion_ratio }),
      null,
      METRICS[0]?.of ?? (() => 0),
      scope,
    )
    return {
      panels: METRICS.map(({ name, y }, at) => ({
        name,
        alt: `${y} by β.`,
        svg: lineChart({
          title: y,
          x: 'β',
          y: `${y}`,
          x_log: true,
          y_log: true,
          lines: [{ name: 'PLAS', color: SYSTEM_COLORS.plas, points: values[at] ?? [] }],
        }),
      })),
      shows: values.map(
        (points, at) =>
          `${METRICS[at]?.y ?? ''}: least at β = ${figure(best(points).x)} (${withInterval(best(points).y)}), ${figure(never(at)?.mean ?? 0)} without promotion.`,
      ),
      losses: [
        ...(best(values[2] ?? []).y.mean > (never(2)?.mean ?? 0) * 0.95
          ? [
              `No β brings the wait of the worst program down by more than 5 % here: every promoted call waits among all the others.`,
            ]
          : []),
        ...(best(values[0] ?? []).x === BETAS.at(-1)
          ? ['Promotion never lowers the mean here: it is the price of fairness.']
          : []),
        ...(best(values[0] ?? []).y.mean < used.mean * 0.95
          ? [
              `β = 20, the default, has a mean of ${figure(used.mean)} ms per token; β = ${figure(best(values[0] ?? []).x)} would have ${figure(best(values[0] ?? []).y.mean)}.`,
            ]
          : []),
      ],
    }
  },
}
