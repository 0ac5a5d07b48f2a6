/** Figure 5: how programs' time in the engine splits into waiting and execution, by workload and load, under vLLM's FCFS. */
import type { Figure, Scope } from '../figure.ts'
import { barChart } from '../plots/bar-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import { type RunSpec, runSpec } from '../runs/run-spec.ts'
import { interval } from '../statistics/interval.ts'
import { figure, percent } from '../statistics/words.ts'
import { programsAt, WORKLOAD_LABELS } from './scale.ts'

/** Programs per second: light, moderate and heavy load for vLLM. */
const LOADS = { sharegpt: [0.7, 1.4, 2], bfcl: [0.06, 0.12, 0.24], lats: [0.2, 0.4, 0.8] } as const
type Loaded = keyof typeof LOADS
const WORKLOADS = Object.keys(LOADS) as Loaded[]

const spec = (workload: Loaded, rate: number, seed: number, scope: Scope): RunSpec =>
  runSpec({ workload, programs: programsAt(workload, rate, scope), seed, rate, system: 'vllm' })

const waitShare = (runs: Runs, workload: Loaded, rate: number, { seeds, ...scope }: Scope) =>
  interval(
    seeds.map((seed) => {
      const { wait_s, service_s } = runs.need(spec(workload, rate, seed, { seeds, ...scope }))
      return wait_s / (wait_s + service_s)
    }),
  )

const perProgramS = (runs: Runs, workload: Loaded, rate: number, scope: Scope, of: 'wait_s' | 'service_s') =>
  interval(
    scope.seeds.map((seed) => {
      const outcome = runs.need(spec(workload, rate, seed, scope))
      return outcome[of] / outcome.programs
    }),
  )

export const FIGURE_5: Figure = {
  id: '5',
  title: 'Execution and wait of programs',
  paper: 'With moderate load programs of every workload spend most of their time waiting.',
  setup:
    'vLLM (FCFS, no prefix cache), a100-8b, 128 seats; seconds summed over the calls of a program, tools left out.',
  chains: (scope) => [
    {
      steps: WORKLOADS.map((workload) =>
        LOADS[workload].flatMap((rate) => scope.seeds.map((seed) => spec(workload, rate, seed, scope))),
      ),
    },
  ],
  read: (runs, scope) => {
    const shares = WORKLOADS.map((workload) => ({
      workload,
      by_load: LOADS[workload].map((rate) => ({ rate, share: waitShare(runs, workload, rate, scope) })),
    }))
    return {
      panels: WORKLOADS.map((workload) => ({
        name: workload,
        alt: `Seconds of execution and of waiting per program by rate, ${WORKLOAD_LABELS[workload]}.`,
        svg: barChart({
          ...{ title: WORKLOAD_LABELS[workload], y: 's per program', x: 'programs per second', stacked: true },
          categories: LOADS[workload].map(String),
          bars: [
            {
              name: 'execution',
              color: '#10b981',
              values: LOADS[workload].map((rate) => perProgramS(runs, workload, rate, scope, 'service_s')),
            },
            {
              name: 'wait',
              color: '#f59e0b',
              values: LOADS[workload].map((rate) => perProgramS(runs, workload, rate, scope, 'wait_s')),
            },
          ],
        }),
      })),
      shows: shares.map(
        ({ workload, by_load }) =>
          `${WORKLOAD_LABELS[workload]}: ${by_load.map(({ rate, share }) => `${percent(share.mean)} of the time is waiting at ${figure(rate)}/s`).join(', ')}.`,
      ),
      losses: shares.flatMap(({ workload, by_load }) => {
        const heaviest = by_load.at(-1)
        return heaviest !== undefined && heaviest.share.mean < 0.5
          ? [
              `${WORKLOAD_LABELS[workload]}: even at ${figure(heaviest.rate)}/s execution outweighs waiting, unlike in the paper.`,
            ]
          : []
      }),
    }
  },
}
