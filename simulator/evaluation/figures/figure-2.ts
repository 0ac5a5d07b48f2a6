/** Figure 2: four small programs on two seats, in decode steps. Exact, so it needs no seeds. */
import type { Figure } from '../figure.ts'
import { barChart } from '../plots/bar-chart.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import type { Runs } from '../runs/run-chains.ts'
import { runSpec } from '../runs/run-spec.ts'
import { listed } from '../statistics/words.ts'
import { SYSTEMS } from '../systems.ts'

/** The paper gives no quantum: first quanta in steps. Each level's is twice the one before. */
const QUANTA = [1, 2, 3] as const
/** The one that fits the figure. */
const FITTING = 2
const POLICIES = [
  { system: 'vllm-opt', label: 'FCFS', paper: 18 },
  { system: 'mlfq', label: SYSTEMS.mlfq.label, paper: 18 },
  { system: 'plas', label: SYSTEMS.plas.label, paper: 12 },
] as const

type ToySystem = (typeof POLICIES)[number]['system']

const spec = (system: ToySystem, quantum: number) =>
  runSpec({
    ...{ workload: 'toy', programs: 4, seed: 1, rate: null, system, profile: 'unit-step', max_seqs: 2 },
    ...{ decision_us: 0, steps_per_decision: 1, first_quantum_us: quantum * 1e6 },
  })

const exact = (value: number) => ({ mean: value, half_width: null, samples: 1 })
const waits = (runs: Runs, system: ToySystem) =>
  QUANTA.map((quantum) => Math.round(runs.need(spec(system, quantum)).wait_s))

export const FIGURE_2: Figure = {
  id: '2',
  title: 'Four programs on two seats',
  paper: 'Waiting sums to 18 steps under FCFS, 18 under MLFQ and 12 under PLAS.',
  setup: `A: 3, 2, 2, 3 steps; B: 4, 2, 2, 2; C: 1, 2; D: 1, 3, all there at the start; a prompt costs no step. The paper draws them and gives no figures: these fit its text. First quantum ${listed(QUANTA.map(String))} steps, doubling.`,
  chains: () => [{ steps: [POLICIES.flatMap(({ system }) => QUANTA.map((quantum) => spec(system, quantum)))] }],
  read: (runs) => {
    const read = POLICIES.map((policy) => ({ ...policy, waits: waits(runs, policy.system) }))
    const fitting = (system: ToySystem) => waits(runs, system)[QUANTA.indexOf(FITTING)] ?? 0
    return {
      panels: [
        {
          name: 'waiting',
          alt: 'Summed waiting in steps by policy and first quantum.',
          svg: barChart({
            ...{ title: 'Waiting, summed over calls', y: 'steps', x: 'first quantum (steps)' },
            categories: QUANTA.map(String),
            bars: read.map(({ system, label, waits: own }) => ({
              name: label,
              color: SYSTEM_COLORS[system],
              values: own.map(exact),
            })),
          }),
        },
      ],
      shows: read.map(
        ({ label, waits: own }) =>
          `${label} waits ${listed(own.map(String))} steps with a first quantum of ${listed(QUANTA.map(String))}.`,
      ),
      losses: QUANTA.flatMap((quantum, at) => {
        const [fcfs = 0, mlfq = 0, plas = 0] = read.map(({ waits: own }) => own[at] ?? 0)
        const better = [...(fcfs <= plas ? ['FCFS'] : []), ...(mlfq <= plas ? ['MLFQ'] : [])]
        return better.length === 0
          ? []
          : [`With a first quantum of ${quantum}, PLAS (${plas} steps) is no better than ${listed(better)}.`]
      }).concat(
        read
          .filter(({ system, paper }) => system === 'plas' && fitting(system) > paper)
          .map(
            ({ system, label, paper }) =>
              `${label}: the paper's ${paper} steps are not reached with a first quantum of ${FITTING}, but ${fitting(system)}.`,
          ),
      ),
      paper: read.map(({ label, paper, system }) => ({
        claim: `Waiting under ${label}`,
        paper,
        ours: exact(fitting(system)),
        unit: 'steps',
        ...(system === 'vllm-opt'
          ? {}
          : {
              note: `with a first quantum of ${FITTING} steps; the paper does not give its own`,
            }),
      })),
    }
  },
}
