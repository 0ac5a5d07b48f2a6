/**
 * The two halves of Autellix §4.2.2, apart: decisions once in N steps, and one transfer in place of a copy per block. Each
 * kernel is a cost model from measured copies (simulator/engines/swap-kernels.ts).
 */
import { SWAP_KERNEL_NAMES, SWAP_KERNELS, type SwapKernelName } from '../../engines/swap-kernels.ts'
import type { FigureContent, PaperRow, Scope, Table } from '../figure.ts'
import { barChart } from '../plots/bar-chart.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import type { Chain, Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import type { RunSpec } from '../runs/run-spec.ts'
import { type Interval, interval } from '../statistics/interval.ts'
import { figure, listed, percent, withInterval } from '../statistics/words.ts'
import { STEPS_PER_DECISION, systemOf } from '../systems.ts'
import { knobChain, knobMetric, knobRatio } from './ablation-runs.ts'

export interface Variant {
  kernel: SwapKernelName
  steps_per_decision: number
}
type SplitSystem = (typeof SYSTEM_NAMES)[number]
/** A spec of each system for a variant and seed. */
export type SplitKnob = (system: SplitSystem) => (variant: Variant, seed: number) => RunSpec

/** RR's turns end with the decision after 200 ms. The others preempt a call for one of a better level, and levels change seldom. */
const SYSTEM_NAMES = ['rr', 'mlfq', 'plas'] as const
const KERNEL_LABELS: Readonly<Record<SwapKernelName, string>> = {
  'copy-per-block': 'a copy per block',
  'batch-copy': 'batch copy',
  gather: 'one gather, one copy',
}
const NONE: Variant = { kernel: 'copy-per-block', steps_per_decision: 1 }
const N_STEP: Variant = { kernel: 'copy-per-block', steps_per_decision: STEPS_PER_DECISION }
const KERNEL: Variant = { kernel: 'gather', steps_per_decision: 1 }
const BOTH: Variant = { kernel: 'gather', steps_per_decision: STEPS_PER_DECISION }
const SPLIT = [
  { label: 'neither', variant: NONE },
  { label: 'N steps', variant: N_STEP },
  { label: 'kernel', variant: KERNEL },
  { label: 'both', variant: BOTH },
] as const
const VARIANTS: readonly Variant[] = SWAP_KERNEL_NAMES.flatMap((kernel) =>
  [1, STEPS_PER_DECISION].map((steps_per_decision) => ({ kernel, steps_per_decision })),
)
const MS_PER_S = 1000
const US_PER_S = 1e6

const MEAN_MS = ({ token_latency_ms }: RunOutcome) => token_latency_ms.mean
const MAKESPAN_S = ({ makespan_s }: RunOutcome) => makespan_s
const TOKENS_PER_S = ({ output_tokens, makespan_s }: RunOutcome) => output_tokens / makespan_s
const SWAPS_PER_CALL = ({ swaps, calls }: RunOutcome) => swaps / calls
const TOKENS_PER_SWAP = ({ swaps, swapped_out_tokens }: RunOutcome) => swapped_out_tokens / swaps
/** Out and back. */
const MS_PER_SWAP = ({ swaps, swap_s }: RunOutcome) => (swap_s / swaps) * MS_PER_S
const SWAP_SHARE = ({ swap_s, busy_s }: RunOutcome) => swap_s / busy_s
const RECOMPUTED_PER_CALL = ({ recomputed_tokens, calls }: RunOutcome) => recomputed_tokens / calls

export function splitChains(knob: SplitKnob, scope: Scope): Chain[] {
  return SYSTEM_NAMES.map((system) => knobChain(knob(system), VARIANTS, scope))
}

export function readSplit(
  runs: Runs,
  knob: SplitKnob,
  scope: Scope,
): Required<Pick<FigureContent, 'panels' | 'shows' | 'losses' | 'tables' | 'paper'>> {
  const metric: Metric = (system, variant, of) => knobMetric(runs, knob(system), variant, of, scope)
  const ratio: Ratio = (system, pair, of) => knobRatio(runs, knob(system), pair, of, scope)
  const bars = (of: (outcome: RunOutcome) => number) =>
    SYSTEM_NAMES.map((system) => ({
      name: systemOf(system).label,
      color: SYSTEM_COLORS[system],
      values: SPLIT.map(({ variant }) => metric(system, variant, of)),
    }))
  const panel = (name: string, title: string, y: string, of: (outcome: RunOutcome) => number) => ({
    name: `split-${name}`,
    alt: `${title} with neither, decisions once in ${STEPS_PER_DECISION} steps, the kernel, and both.`,
    svg: barChart({ title, y, y_log: true, categories: SPLIT.map(({ label }) => label), bars: bars(of) }),
  })
  return {
    panels: [
      panel('swaps', 'Swaps', 'swaps per 100 calls', (outcome) => 100 * SWAPS_PER_CALL(outcome)),
      panel('latency', 'Latency', 'ms per token, mean', MEAN_MS),
      panel('tokens-per-s', 'Throughput', 'tokens per second', TOKENS_PER_S),
    ],
    shows: SYSTEM_NAMES.flatMap((system) => shows(system, ratio)),
    losses: SYSTEM_NAMES.flatMap((system) => [...losses(system, ratio), ...overfull(system, metric)]),
    tables: [table(metric), linkTable(metric)],
    paper: [TRANSFER, ...SYSTEM_NAMES.flatMap((system) => paper(system, ratio))],
  }
}

type Metric = (system: SplitSystem, variant: Variant, of: (outcome: RunOutcome) => number) => Interval
type Ratio = (system: SplitSystem, pair: readonly [Variant, Variant], of: (outcome: RunOutcome) => number) => Interval

function shows(system: SplitSystem, ratio: Ratio): string[] {
  const { label } = systemOf(system)
  const gain = ({ label: name, variant }: (typeof SPLIT)[number]) =>
    `${withInterval(ratio(system, [variant, NONE], TOKENS_PER_S))}× and ${withInterval(ratio(system, [variant, NONE], MEAN_MS))}× with ${name}`
  return [
    `${label}: tokens per second and mean latency, over those with neither: ${listed(SPLIT.slice(1).map(gain))}.`,
    `${label}: deciding at every step takes ${withInterval(ratio(system, [NONE, N_STEP], SWAPS_PER_CALL))}× the swaps of deciding once in ${STEPS_PER_DECISION} (with the kernel ${withInterval(ratio(system, [KERNEL, BOTH], SWAPS_PER_CALL))}×).`,
  ]
}

function losses(system: SplitSystem, ratio: Ratio): string[] {
  const { label } = systemOf(system)
  const gain = ratio(system, [BOTH, NONE], TOKENS_PER_S)
  const fewer = ratio(system, [NONE, N_STEP], SWAPS_PER_CALL)
  return [
    ...(gain.mean < PAPER.throughput
      ? [`${label}: both together are worth ${figure(gain.mean)}×, less than the paper's ${PAPER.throughput}×.`]
      : []),
    ...(fewer.mean < PAPER.fewer_swaps
      ? [
          `${label}: deciding once in ${STEPS_PER_DECISION} steps divides swaps by ${figure(fewer.mean)}, by less than the paper's best, ${PAPER.fewer_swaps}.`,
        ]
      : []),
  ]
}

/** Autellix §6.5.4. */
const PAPER = { throughput: 1.3, fewer_swaps: 18, kernel: 3 } as const
const WHOLE_TRANSFER = SWAP_KERNELS['copy-per-block'].link_us_per_token / SWAP_KERNELS.gather.link_us_per_token

const TRANSFER: PaperRow = {
  claim: 'How much faster the kernel moves a call of 8,192 tokens, to the end',
  paper: PAPER.kernel,
  ours: interval([WHOLE_TRANSFER]),
  unit: '×',
  note: 'the paper: 3 to 7; ours measured on an H100, not simulated',
}

function paper(system: SplitSystem, ratio: Ratio): PaperRow[] {
  const { label } = systemOf(system)
  return [
    {
      claim: `${label}: how much less time steps lose to a swap by the kernel`,
      paper: null,
      ours: ratio(system, [N_STEP, BOTH], MS_PER_SWAP),
      unit: '×',
    },
    {
      claim: `${label}: fewer swaps by deciding once in ${STEPS_PER_DECISION} steps`,
      paper: PAPER.fewer_swaps,
      ours: ratio(system, [NONE, N_STEP], SWAPS_PER_CALL),
      unit: '×',
      note: 'the paper: up to',
    },
    {
      claim: `${label}: throughput by both`,
      paper: PAPER.throughput,
      ours: ratio(system, [BOTH, NONE], TOKENS_PER_S),
      unit: '×',
    },
  ]
}

function table(metric: Metric): Table {
  const columns: readonly [string, (outcome: RunOutcome) => number][] = [
    ['swaps a call', SWAPS_PER_CALL],
    ['tokens a swap', TOKENS_PER_SWAP],
    ['ms a swap', MS_PER_SWAP],
    ['computed again, tokens a call', RECOMPUTED_PER_CALL],
    ['ms per token, mean', MEAN_MS],
    ['makespan, s', MAKESPAN_S],
    ['tokens per second', TOKENS_PER_S],
  ]
  return {
    title: 'Kernel and N, apart. A swap is out and back',
    columns: ['', 'kernel', 'N', ...columns.map(([name]) => name), 'swaps’ share of the engine’s time'],
    rows: SYSTEM_NAMES.flatMap((system) =>
      VARIANTS.map((variant) => [
        systemOf(system).label,
        KERNEL_LABELS[variant.kernel],
        `${variant.steps_per_decision}`,
        ...columns.map(([, of]) => withInterval(metric(system, variant, of))),
        percent(metric(system, variant, SWAP_SHARE).mean),
      ]),
    ),
  }
}

/** Share of the time for which the link is busy with the gather's copies, in the fuller direction. */
const LINK_SHARE = ({ swapped_out_tokens, swapped_in_tokens, makespan_s }: RunOutcome) =>
  (Math.max(swapped_out_tokens, swapped_in_tokens) * SWAP_KERNELS.gather.link_us_per_token) / US_PER_S / makespan_s

/** The gather's model lets copies run beside steps, which holds while the link has room. */
function linkTable(metric: Metric): Table {
  return {
    title: 'How full the link is with the gather, in the fuller direction',
    columns: ['', 'N', 'share of the time'],
    rows: SYSTEM_NAMES.flatMap((system) =>
      [KERNEL, BOTH].map((variant) => [
        systemOf(system).label,
        `${variant.steps_per_decision}`,
        percent(metric(system, variant, LINK_SHARE).mean),
      ]),
    ),
  }
}

/** Runs whose copies the link could not have carried in the time. */
function overfull(system: SplitSystem, metric: Metric): string[] {
  return [KERNEL, BOTH].flatMap((variant) => {
    const share = metric(system, variant, LINK_SHARE).mean
    if (share <= 1) return []
    return [
      `${systemOf(system).label}, N = ${variant.steps_per_decision}, one gather: its copies would fill the link for ${percent(share)} of the makespan. The model does not let them wait for each other, so it is at least ${figure(share)}× too fast there.`,
    ]
  })
}
