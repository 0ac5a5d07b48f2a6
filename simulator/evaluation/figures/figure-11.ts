/** Figure 11: the workloads as they are drawn. No run is needed. */
import { mean, quantile } from '../../statistics.ts'
import type { WorkloadProgram } from '../../workloads/index.ts'
import type { Figure, PaperRow, Scope } from '../figure.ts'
import { seriesColor } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import { programsOf } from '../runs/run-programs.ts'
import { runSpec } from '../runs/run-spec.ts'
import { interval } from '../statistics/interval.ts'
import { figure } from '../statistics/words.ts'

const WORKLOADS = ['sharegpt', 'bfcl', 'lats'] as const
type Drawn = (typeof WORKLOADS)[number]
const LABELS: Readonly<Record<Drawn, string>> = { sharegpt: 'ShareGPT', bfcl: 'BFCL', lats: 'LATS' }
const PROGRAMS = 1000
const QUICK_PROGRAMS = 200

/** §6.1: means per program and per call. Prefill: new tokens of chats and BFCL, whole prompts of LATS (traces' MANIFEST). */
const PAPER: Readonly<Record<Drawn, { calls: number; prefill: number; output: number }>> = {
  sharegpt: { calls: 6.66, prefill: 256, output: 277 },
  bfcl: { calls: 10.75, prefill: 735.06, output: 34.14 },
  lats: { calls: 159.7, prefill: 467.2, output: 72.6 },
}
const QUANTILES = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1] as const

type Of = 'calls' | 'input' | 'output'
const PANELS: readonly { name: Of; title: string; x: string }[] = [
  { name: 'calls', title: 'Calls of a program', x: 'calls' },
  { name: 'input', title: 'Input of a call', x: 'prompt tokens' },
  { name: 'output', title: 'Output of a call', x: 'output tokens' },
]

const draw = (workload: Drawn, seed: number, { quick }: Scope) =>
  programsOf(runSpec({ workload, programs: quick ? QUICK_PROGRAMS : PROGRAMS, seed, rate: null, system: 'vllm-opt' }))

function values(programs: readonly WorkloadProgram[], of: Of): number[] {
  if (of === 'calls') return programs.map(({ calls }) => calls.length)
  const field = of === 'input' ? 'prompt_tokens' : 'output_tokens'
  return programs.flatMap(({ calls }) => calls.map((call) => call[field]))
}

function prefill(workload: Drawn, programs: readonly WorkloadProgram[]): number {
  const per_call = programs.flatMap(({ calls }) =>
    calls.map((call) => call.prompt_tokens - (workload === 'lats' ? 0 : call.shared_prefix_tokens)),
  )
  return mean(per_call)
}

export const FIGURE_11: Figure = {
  id: '11',
  title: 'The workloads',
  paper:
    'ShareGPT: 6.66 calls of 256 and 277 tokens; BFCL: 10.75 of 735 and 34; LATS: 159.7 of 467 and 73; all with long tails.',
  setup: `${figure(PROGRAMS)} programs (quick: ${QUICK_PROGRAMS}) for each seed, drawn from the shipped profiles; cumulative shares, first seed.`,
  chains: () => [],
  read: (_, scope) => {
    const drawn = WORKLOADS.map((workload) => ({
      workload,
      by_seed: scope.seeds.map((seed) => draw(workload, seed, scope)),
    }))
    const meansOf = ({ workload, by_seed }: (typeof drawn)[number]) => ({
      calls: interval(by_seed.map((programs) => mean(values(programs, 'calls')))),
      prefill: interval(by_seed.map((programs) => prefill(workload, programs))),
      output: interval(by_seed.map((programs) => mean(values(programs, 'output')))),
    })
    return {
      panels: PANELS.map(({ name, title, x }) => ({
        name,
        alt: `${title}: cumulative share by workload.`,
        svg: lineChart({
          ...{ title, x, y: '% of them', x_log: true, y_max: 100 },
          lines: drawn.map(({ workload, by_seed }, at) => {
            const of = values(by_seed[0] ?? [], name)
            return { name: LABELS[workload], color: seriesColor(at), points: cumulative(of) }
          }),
        }),
      })),
      shows: drawn.map(({ workload, by_seed }) => {
        const calls = values(by_seed[0] ?? [], 'calls')
        return `${LABELS[workload]}: half of the programs have at most ${figure(quantile(calls, 0.5))} calls, one in ten more than ${figure(quantile(calls, 0.9))}, the largest ${figure(Math.max(...calls))}.`
      }),
      losses: [],
      paper: drawn.flatMap((one) => {
        const means = meansOf(one)
        const row = (claim: string, of: keyof typeof means): PaperRow => ({
          ...{
            claim: `${LABELS[one.workload]}: ${claim}`,
            paper: PAPER[one.workload][of],
            ours: means[of],
            unit: of === 'calls' ? 'calls' : 'tokens',
          },
          ...(of === 'prefill' ? { note: one.workload === 'lats' ? 'whole prompts' : 'new tokens' } : {}),
        })
        return [
          row('calls of a program', 'calls'),
          row('prefill tokens of a call', 'prefill'),
          row('decode tokens of a call', 'output'),
        ]
      }),
    }
  },
}

function cumulative(of: readonly number[]) {
  return QUANTILES.map((q) => ({ x: Math.max(1, quantile(of, q)), y: { mean: q * 100, half_width: null, samples: 1 } }))
}
