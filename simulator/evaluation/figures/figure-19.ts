/** Figure 19: what the batched swap kernel is worth, with the cost of a swapped token as a parameter. */
import type { Figure, Scope } from '../figure.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { runSpec } from '../runs/run-spec.ts'
import { isBelow } from '../statistics/interval.ts'
import { figure, withInterval } from '../statistics/words.ts'
import { systemOf } from '../systems.ts'
import { type Knob, knobChain, knobMetric, knobRatio } from './ablation-runs.ts'
import { arrivalsS } from './scale.ts'

/** Cost of a token over the batched kernel's. The paper measures 3 to 7 for copies block by block (§6.5.4). */
const FACTORS = [1, 3, 5, 7] as const
const SYSTEM_NAMES = ['mlfq', 'plas'] as const
const RATE = 2
/** Of the KV memory, so that preempted calls must leave. */
const KV_SHARE = 0.4

const SWAP_S = ({ swap_s }: RunOutcome) => swap_s
const TOKENS_PER_S = ({ output_tokens, makespan_s }: RunOutcome) => output_tokens / makespan_s
const SWAPPED = ({ swapped_out_tokens }: RunOutcome) => swapped_out_tokens

function knob(system: (typeof SYSTEM_NAMES)[number], scope: Scope): Knob<number> {
  const programs = Math.round(RATE * arrivalsS('sharegpt', scope))
  return (swap_cost_factor, seed) =>
    runSpec({ workload: 'sharegpt', programs, seed, rate: RATE, system, kv_share: KV_SHARE, swap_cost_factor })
}

export const FIGURE_19: Figure = {
  id: '19',
  title: 'The swap kernel',
  paper:
    'Batching transfers into one makes swaps 3 to 7 times faster and throughput 1.3 times higher; swaps fall by up to 18×.',
  setup: `Chats at ${RATE} programs per second, a100-8b with ${KV_SHARE * 100} % of its KV memory. The kernel is a cost per token here: 1 is one batched copy, 3 to 7 what the paper measured for copies block by block. The engine recomputes where that is predicted to be cheaper than a swap.`,
  chains: (scope) => SYSTEM_NAMES.map((system) => knobChain(knob(system, scope), FACTORS, scope)),
  read: (runs, scope) => {
    const worst = FACTORS.at(-1) as number
    const line = (of: (outcome: RunOutcome) => number) =>
      SYSTEM_NAMES.map((system) => ({
        name: systemOf(system).label,
        color: SYSTEM_COLORS[system],
        points: FACTORS.map((factor) => ({ x: factor, y: knobMetric(runs, knob(system, scope), factor, of, scope) })),
      }))
    const gains = SYSTEM_NAMES.map((system) => ({
      system,
      gain: knobRatio(runs, knob(system, scope), [1, worst], TOKENS_PER_S, scope),
      swapped: knobMetric(runs, knob(system, scope), 1, SWAPPED, scope),
      swapped_at_worst: knobMetric(runs, knob(system, scope), worst, SWAPPED, scope),
    }))
    const x = 'cost of a swapped token (1: batched)'
    return {
      panels: [
        {
          name: 'time',
          alt: 'Time in swaps by cost of a swapped token.',
          svg: lineChart({ title: 'Time in swaps', x, y: 'swaps, s', lines: line(SWAP_S) }),
        },
        {
          name: 'throughput',
          alt: 'Generated tokens per second by cost of a swapped token.',
          svg: lineChart({ title: 'Throughput', x, y: 'tokens per second', lines: line(TOKENS_PER_S) }),
        },
      ],
      shows: gains.map(
        ({ system, gain, swapped, swapped_at_worst }) =>
          `${systemOf(system).label}: ${figure(swapped.mean)} tokens are swapped out with the batched kernel, ${figure(swapped_at_worst.mean)} where a token costs ${worst} times as much and computing again is often cheaper; the batched kernel gives ${withInterval(gain)}× the tokens per second of one that costs ${worst} times as much.`,
      ),
      losses: gains
        .filter(({ gain }) => isBelow(gain, 1.3))
        .map(
          ({ system, gain }) =>
            `${systemOf(system).label}: the kernel is worth ${figure(gain.mean)}×, less than the paper's 1.3×.`,
        ),
      paper: gains.map(({ system, gain }) => ({
        claim: `${systemOf(system).label}: throughput by the batched kernel`,
        paper: 1.3,
        ours: gain,
        unit: '×',
        note: `against ${worst} times its cost a token`,
      })),
    }
  },
}
