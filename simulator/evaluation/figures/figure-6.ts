/** Figure 6: wait ÷ execution, of calls by the tokens that they generate and of programs by their number of calls. */
import type { Figure, Scope } from '../figure.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import type { Bin, RunOutcome } from '../runs/run-outcome.ts'
import { runSpec } from '../runs/run-spec.ts'
import { interval } from '../statistics/interval.ts'
import { figure } from '../statistics/words.ts'
import { type SystemName, systemOf } from '../systems.ts'
import { OURS, programsAt } from './scale.ts'

/** Programs per second somewhat beyond what the optimised FCFS engine serves. */
const RATES = { sharegpt: 2, lats: 1.1 } as const
type Shown = keyof typeof RATES
const WORKLOADS: readonly { workload: Shown; label: string }[] = [
  { workload: 'sharegpt', label: 'Chats' },
  { workload: 'lats', label: 'Tree search' },
]
interface View {
  name: 'calls' | 'programs'
  smallest: string
  x: string
  of: (outcome: RunOutcome) => Bin[]
}

const VIEWS: readonly View[] = [
  {
    ...{ name: 'calls', smallest: 'calls of the fewest tokens', x: 'output tokens of the call' },
    of: (outcome) => outcome.call_wait_ratio_by_output,
  },
  {
    ...{ name: 'programs', smallest: 'programs of the fewest calls', x: 'calls of the program' },
    of: (outcome) => outcome.program_wait_ratio_by_calls,
  },
]
/** Waits below this part of the execution are not counted as losses. */
const MATTERS = 0.05

const SYSTEM_NAMES: readonly SystemName[] = ['vllm-opt', 'mlfq', OURS]

const spec = (workload: Shown, system: SystemName, seed: number, scope: Scope) =>
  runSpec({ workload, programs: programsAt(workload, RATES[workload], scope), seed, rate: RATES[workload], system })

/** Bins that every seed has, so that each mean is over the same seeds. */
function line(runs: Runs, workload: Shown, system: SystemName, of: (outcome: RunOutcome) => Bin[], scope: Scope) {
  const by_seed = scope.seeds.map((seed) => of(runs.need(spec(workload, system, seed, scope))))
  return (by_seed[0] ?? []).flatMap(({ from }) => {
    const values = by_seed.flatMap((bins) => bins.filter((bin) => bin.from === from).map(({ value }) => value))
    return values.length < scope.seeds.length ? [] : [{ x: from, y: interval(values) }]
  })
}

export const FIGURE_6: Figure = {
  id: '6',
  title: 'Wait over execution, of calls and of programs',
  paper:
    'FCFS makes short calls wait many times their execution; MLFQ helps short calls, but with either, short programs wait the longest for their size.',
  setup: `Chats at ${RATES.sharegpt} and tree searches at ${RATES.lats} programs per second, a100-8b, 128 seats. A point is the mean over a range that begins there.`,
  chains: (scope) => [
    {
      steps: [
        WORKLOADS.flatMap(({ workload }) =>
          SYSTEM_NAMES.flatMap((system) => scope.seeds.map((seed) => spec(workload, system, seed, scope))),
        ),
      ],
    },
  ],
  read: (runs, scope) => {
    const shortest = WORKLOADS.flatMap(({ workload, label }) =>
      VIEWS.map(({ smallest, of }) => ({
        name: `${label}, ${smallest}`,
        of: SYSTEM_NAMES.map((system) => ({ system, first: line(runs, workload, system, of, scope)[0] })),
      })),
    )
    return {
      panels: WORKLOADS.flatMap(({ workload, label }) =>
        VIEWS.map(({ name, x, of }) => ({
          name: `${workload}-${name}`,
          alt: `${label}: wait over execution of ${name}, by ${x}.`,
          svg: lineChart({
            ...{ title: `${label}: ${name}`, x, y: 'wait ÷ execution, mean', x_log: true },
            lines: SYSTEM_NAMES.map((system) => ({
              name: systemOf(system).label,
              color: SYSTEM_COLORS[system],
              points: line(runs, workload, system, of, scope),
            })),
          }),
        })),
      ),
      shows: shortest.map(({ name, of }) => {
        const texts = of.map(({ system, first }) => `${figure(first?.y.mean ?? 0)} under ${systemOf(system).label}`)
        return `${name}, wait ${texts.join(', ')} times their execution.`
      }),
      losses: shortest.flatMap(({ name, of }) => {
        const ours = of.at(-1)
        const mine = ours?.first?.y.mean ?? 0
        const better = of.slice(0, -1).filter(({ first }) => (first?.y.mean ?? 0) < mine - MATTERS)
        return better.map(
          ({ system, first }) =>
            `${name}, wait less under ${systemOf(system).label} (${figure(first?.y.mean ?? 0)} times their execution) than under ours (${figure(mine)}).`,
        )
      }),
    }
  },
}
