/** Figure 19: what the batched swap kernel and decisions once in N steps are worth, and a swapped token's cost as a parameter. */
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
import { readSplit, type SplitKnob, splitChains } from './swap-split.ts'

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

function splitKnob(scope: Scope): SplitKnob {
  const programs = Math.round(RATE * arrivalsS('sharegpt', scope))
  const given = { workload: 'sharegpt', programs, rate: RATE, kv_share: KV_SHARE } as const
  return (system) =>
    ({ kernel: swap_kernel, steps_per_decision }, seed) =>
      runSpec({ ...given, seed, system, swap_kernel, steps_per_decision })
}

export const FIGURE_19: Figure = {
  id: '19',
  title: 'The swap kernel and decisions once in N steps',
  paper:
    'Batching transfers into one makes swaps 3 to 7 times faster and throughput 1.3 times higher; swaps fall by up to 18×.',
  setup: `Chats at ${RATE} programs per second, a100-8b with ${KV_SHARE * 100} % of its KV memory. The engine recomputes where that is predicted to be cheaper than a swap. Kernels (swaps, latency, throughput, tables): what steps lose to a swap, as measured on an H100 and its host (simulator/engines/swap-kernels.json), while steps last as on an A100; vLLM at the paper's time copied block by block. A gather's copy runs beside the steps; that several swaps at once may fill its staging ring is not modelled. By cost (the last two plots): the profile's cost of a token over PCIe 4, times 1 for one batched copy and 3 to 7 for what the paper measured for copies block by block.`,
  chains: (scope) => [
    ...splitChains(splitKnob(scope), scope),
    ...SYSTEM_NAMES.map((system) => knobChain(knob(system, scope), FACTORS, scope)),
  ],
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
    const split = readSplit(runs, splitKnob(scope), scope)
    return {
      panels: [
        ...split.panels,
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
      shows: [
        ...split.shows,
        ...gains.map(
          ({ system, gain, swapped, swapped_at_worst }) =>
            `${systemOf(system).label}: ${figure(swapped.mean)} tokens are swapped out with the batched kernel, ${figure(swapped_at_worst.mean)} where a token costs ${worst} times as much and computing again is often cheaper; the batched kernel gives ${withInterval(gain)}× the tokens per second of one that costs ${worst} times as much.`,
        ),
      ],
      losses: [
        ...split.losses,
        ...gains
          .filter(({ gain }) => isBelow(gain, 1.3))
          .map(
            ({ system, gain }) =>
              `${systemOf(system).label}: a token at a ${worst}th of the cost is worth ${figure(gain.mean)}×, less than the paper's 1.3×.`,
          ),
      ],
      tables: split.tables,
      paper: [
        ...split.paper,
        ...gains.map(({ system, gain }) => ({
          claim: `${systemOf(system).label}: throughput by the cost of a swapped token`,
          paper: 1.3,
          ours: gain,
          unit: '×',
          note: `against ${worst} times the cost`,
        })),
      ],
    }
  },
}
