/** §4.2.2: a decision once in N steps. */
import type { Figure, Scope } from '../figure.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { runSpec } from '../runs/run-spec.ts'
import { isAbove } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { SYSTEMS } from '../systems.ts'
import { type Knob, knobChain, knobMetric, knobRatio } from './ablation-runs.ts'
import { arrivalsS } from './scale.ts'

const STEPS = [1, 2, 5, 10, 20] as const
/** Microseconds of a decision: ours as measured, and one of an engine whose scheduler is slow. */
const DECISIONS_US = [20, 2000] as const
const RATE = 2

const MEAN = ({ token_latency_ms }: RunOutcome) => token_latency_ms.mean
const PREEMPTIONS = ({ preemptions }: RunOutcome) => preemptions

function knob(decision_us: number, scope: Scope): Knob<number> {
  const programs = Math.round(RATE * arrivalsS('sharegpt', scope))
  return (steps_per_decision, seed) =>
    runSpec({ workload: 'sharegpt', programs, seed, rate: RATE, system: 'plas', steps_per_decision, decision_us })
}

export const N_STEP: Figure = {
  id: 'n-step',
  title: 'Decisions once in N steps (§4.2.2)',
  paper: 'Deciding once in N steps reduces swaps and the cost of scheduling; the paper gives no figure.',
  setup: `Chats at ${RATE} programs per second, PLAS, a100-8b, with a decision of ${DECISIONS_US[0]} µs (as ours takes) and of ${DECISIONS_US[1]} µs.`,
  chains: (scope) => DECISIONS_US.map((cost) => knobChain(knob(cost, scope), STEPS, scope)),
  read: (runs, scope) => {
    const line = (cost: number, at: number, of: (outcome: RunOutcome) => number) => ({
      name: `decision of ${cost} µs`,
      color: at === 0 ? SYSTEM_COLORS.plas : SYSTEM_COLORS.mlfq,
      points: STEPS.map((steps) => ({ x: steps, y: knobMetric(runs, knob(cost, scope), steps, of, scope) })),
    })
    const ratios = DECISIONS_US.map((cost) => ({
      cost,
      ratio: knobRatio(runs, knob(cost, scope), [10, 1], MEAN, scope),
    }))
    return {
      panels: [
        {
          name: 'latency',
          alt: 'Mean program token latency by N.',
          svg: lineChart({
            title: 'Latency',
            x: 'N',
            y: 'ms per token, mean',
            lines: DECISIONS_US.map((cost, at) => line(cost, at, MEAN)),
          }),
        },
        {
          name: 'preemptions',
          alt: 'Preemptions by N.',
          svg: lineChart({
            title: 'Preemptions',
            x: 'N',
            y: 'preemptions',
            lines: DECISIONS_US.map((cost, at) => line(cost, at, PREEMPTIONS)),
          }),
        },
      ],
      shows: ratios.map(
        ({ cost, ratio }) =>
          `With a decision of ${cost} µs, deciding once in 10 steps gives ${withInterval(ratio)}× the latency of deciding at each (${SYSTEMS.plas.label}).`,
      ),
      losses: ratios
        .filter(({ ratio }) => isAbove(ratio, 1))
        .map(({ cost, ratio }) => `With a decision of ${cost} µs N = 10 only costs latency (${figure(ratio.mean)}×).`),
    }
  },
}
