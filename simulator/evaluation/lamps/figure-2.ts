/** Figure 2: what tools do to memory and to the number of completed requests. */
import type { Figure, Scope } from '../figure.ts'
import { seriesColor } from '../plots/colors.ts'
import { type Line, lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import type { RunSpec } from '../runs/run-spec.ts'
import { percent } from '../statistics/words.ts'
import { arrivalsS, lampsSpec, type Point, ROWS } from './setting.ts'

const POINT: Point = { model: 'gpt-j', dataset: 'multi', load: 0.85 }
const LOOKS = { kv_use: true, each_program: true } as const
const BIN_S = 20

const VARIANTS = [
  { label: 'with tools, preserve', row: ROWS.preserve, change: LOOKS },
  { label: 'with tools, discard', row: ROWS.vllm, change: LOOKS },
  { label: 'without tools', row: ROWS.preserve, change: { ...LOOKS, one_call: true as const } },
] as const

function specOf({ row, change }: (typeof VARIANTS)[number], { seeds, quick }: Scope): RunSpec {
  return lampsSpec(POINT, row, seeds[0] ?? 1, { quick }, change)
}

const exactly = (y: number) => ({ mean: y, half_width: null, samples: 1 })

function kvLine(name: string, at: number, { kv_use = [] }: RunOutcome, until_s: number): Line {
  const points = kv_use
    .filter(({ at_s }) => at_s <= until_s)
    .map(({ at_s, used_share }) => ({ x: at_s, y: exactly(100 * used_share) }))
  return { name, color: seriesColor(at), points }
}

/** Programs that have ended, every BIN_S. */
function completedLine(name: string, at: number, { each_program = [] }: RunOutcome, until_s: number): Line {
  const ends_s = each_program.map(({ arrived_s, response_s }) => arrived_s + response_s)
  const bins = Array.from({ length: Math.floor(until_s / BIN_S) + 1 }, (_, bin) => bin * BIN_S)
  const points = bins.map((x) => ({ x, y: exactly(ends_s.filter((end_s) => end_s <= x).length) }))
  return { name, color: seriesColor(at), points }
}

function meanUse({ kv_use = [] }: RunOutcome, until_s: number): number {
  const used = kv_use.filter(({ at_s }) => at_s <= until_s)
  return used.reduce((sum, { used_share }) => sum + used_share, 0) / Math.max(1, used.length)
}

export const FIGURE_2: Figure = {
  id: '2',
  title: 'What tools do to memory and throughput',
  paper:
    'With API calls that are preserved, KV use is higher, and fewer requests are completed over time than without API calls; discarding does not help.',
  setup: `InferCept’s requests on GPT-J at a load of ${POINT.load}, one seed. Without tools each program is one call that writes as much. KV in use counts running and preserved contexts.`,
  first_seed: true,
  chains: (scope) => VARIANTS.map((variant) => ({ steps: [[specOf(variant, scope)]] })),
  read: (runs: Runs, scope) => {
    const until_s = arrivalsS(scope)
    const played = VARIANTS.map((variant) => ({ ...variant, outcome: runs.need(specOf(variant, scope)) }))
    return {
      panels: [
        {
          name: 'kv',
          alt: 'KV in use over time.',
          svg: lineChart({
            ...{ title: 'KV in use', x: 'seconds', y: '% of KV memory' },
            lines: played.map(({ label, outcome }, at) => kvLine(label, at, outcome, until_s)),
          }),
        },
        {
          name: 'completed',
          alt: 'Completed programs over time.',
          svg: lineChart({
            ...{ title: 'Completed programs', x: 'seconds', y: 'programs' },
            lines: played.map(({ label, outcome }, at) => completedLine(label, at, outcome, until_s)),
          }),
        },
      ],
      shows: played.map(
        ({ label, outcome }) =>
          `${label}: ${percent(meanUse(outcome, until_s))} of KV in use on average, ${outcome.completed_per_s.toFixed(2)} programs completed per second.`,
      ),
      losses: [],
    }
  },
}
