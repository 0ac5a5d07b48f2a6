/**
 * Figure 7: how much of a prompt is in the KV cache already. Within a program: what an earlier call of it holds; across
 * programs: the app's head, all that they share. Both follow from the workload; a third line has what a loaded engine found.
 */

import { appHead } from '../../workloads/index.ts'
import type { Figure, Scope } from '../figure.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import { bins, PROMPT_BINS } from '../runs/run-outcome.ts'
import { programsOf } from '../runs/run-programs.ts'
import { runSpec } from '../runs/run-spec.ts'
import { interval } from '../statistics/interval.ts'
import { figure, percent } from '../statistics/words.ts'
import { MODERATE_RATE, programsAt } from './scale.ts'

type Shown = 'sharegpt' | 'lats'
const WORKLOADS: readonly { workload: Shown; label: string }[] = [
  { workload: 'sharegpt', label: 'Chats' },
  { workload: 'lats', label: 'Tree search' },
]
/** Where the paper says that within a program it is above 90 %. */
const PAPER_WITHIN = 0.9

const spec = (workload: Shown, seed: number, scope: Scope) => {
  const rate = MODERATE_RATE[workload]
  return runSpec({ workload, programs: programsAt(workload, rate, scope), seed, rate, system: 'vllm-opt' })
}

type Share = 'within' | 'across'

/** Of prompts by their length; a program's first calls have nothing within it. */
function workloadShare(workload: Shown, share: Share, scope: Scope) {
  return perBin(
    scope.seeds.map((seed) => {
      const samples: [number, number][] = []
      for (const program of programsOf(spec(workload, seed, scope))) {
        for (const call of program.calls) {
          const { prompt_tokens } = call
          if (share === 'across') samples.push([prompt_tokens, appHead(program, call).tokens / prompt_tokens])
          else if ((call.same_prompt_as ?? null) !== null) samples.push([prompt_tokens, 1])
          else if ((call.prefix_of ?? null) !== null)
            samples.push([prompt_tokens, call.shared_prefix_tokens / prompt_tokens])
        }
      }
      return bins(PROMPT_BINS, samples)
    }),
  )
}

function foundShare(runs: Runs, workload: Shown, scope: Scope) {
  return perBin(scope.seeds.map((seed) => runs.need(spec(workload, seed, scope)).cached_share_by_prompt))
}

function perBin(by_seed: readonly ReturnType<typeof bins>[]) {
  return PROMPT_BINS.flatMap((from) => {
    const values = by_seed.flatMap((own) => own.filter((bin) => bin.from === from).map(({ value }) => value * 100))
    return values.length === 0 ? [] : [{ x: from, y: interval(values) }]
  })
}

export const FIGURE_7: Figure = {
  id: '7',
  title: 'Prefix cache hit rates within and across programs',
  paper:
    'Within a program more than 90 % of a prompt is cached at every length; across programs the share falls off exponentially with length.',
  setup:
    'Within and across: from the drawn programs alone, calls that have an earlier one to repeat. Found: by vLLM-opt’s engine at moderate load, all calls.',
  chains: (scope) => [
    { steps: [WORKLOADS.flatMap(({ workload }) => scope.seeds.map((seed) => spec(workload, seed, scope)))] },
  ],
  read: (runs, scope) => {
    const read = WORKLOADS.map(({ workload, label }) => ({
      ...{ workload, label },
      lines: [
        { name: 'within a program', color: '#10b981', points: workloadShare(workload, 'within', scope) },
        { name: 'across programs', color: '#f59e0b', points: workloadShare(workload, 'across', scope) },
        { name: 'found under load', color: '#3b82f6', points: foundShare(runs, workload, scope) },
      ],
    }))
    const lowest = (points: { y: { mean: number } }[]) => Math.min(...points.map(({ y }) => y.mean))
    return {
      panels: read.map(({ workload, label, lines }) => ({
        name: workload,
        alt: `${label}: cached share of a prompt by its length, within and across programs.`,
        svg: lineChart({
          title: label,
          x: 'prompt tokens',
          y: '% of the prompt',
          x_log: true,
          y_max: 100,
          lines,
        }),
      })),
      shows: read.map(({ label, lines }) => {
        const [within = [], across = []] = lines.map(({ points }) => points)
        const last = across.at(-1)
        return (
          `${label}: within a program at least ${percent(lowest(within) / 100)} of a prompt is cached at every length; ` +
          `across programs ${percent((last?.y.mean ?? 0) / 100)} from ${figure(last?.x ?? 0)} tokens on.`
        )
      }),
      losses: read.flatMap(({ label, lines }) => {
        const low = (lines[0]?.points ?? []).filter(({ y }) => y.mean < PAPER_WITHIN * 100)
        return low.length === 0
          ? []
          : [
              `${label}: below the paper's 90 % within a program for prompts in the ranges that begin at ${low.map(({ x }) => figure(x)).join(', ')} tokens.`,
            ]
      }),
      paper: read.map(({ label, lines }) => ({
        claim: `${label}: cached within a program, least over lengths`,
        paper: PAPER_WITHIN * 100,
        ours: { mean: lowest(lines[0]?.points ?? []), half_width: null, samples: scope.seeds.length },
        unit: '%',
        note: 'the paper: above 90 % at every length',
      })),
    }
  },
}
