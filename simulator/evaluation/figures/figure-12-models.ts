/** Figure 12 on the larger models of the paper: one engine of Llama-3.1-70B on four GPUs, one of Falcon-180B on eight. */
import type { Figure, Scope, Table } from '../figure.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { lineChart } from '../plots/line-chart.ts'
import { ifPlayed, MissingRun, type Runs } from '../runs/run-chains.ts'
import { figure } from '../statistics/words.ts'
import { type SystemName, systemOf } from '../systems.ts'
import { AUTELLIX_WORKLOADS, type AutellixWorkload, OURS, ratesOf, slosOf, WORKLOAD_LABELS } from './scale.ts'
import { type Sweep, sweepChain, sweepCurves, sweepLine } from './sweep.ts'
import { largest, type RatioAt, ratiosAt, ratioText } from './throughput.ts'

const BASELINES = ['vllm', 'vllm-opt', 'mlfq'] as const satisfies readonly SystemName[]

interface Model {
  profile: 'a100-70b-tp4' | 'a100-180b-tp8'
  label: string
  /** Its speed over the 8B engine's, about the ratio of their prefill times: rates and SLOs are scaled by it. */
  speed: number
}

const MODELS: readonly Model[] = [
  { profile: 'a100-70b-tp4', label: 'Llama-3.1-70B, 4 GPUs', speed: 0.4 },
  { profile: 'a100-180b-tp8', label: 'Falcon-180B, 8 GPUs', speed: 0.25 },
]
const PROGRAMS: Readonly<Record<AutellixWorkload, number>> = { sharegpt: 400, bfcl: 250, lats: 60, mixed: 200 }
const QUICK_PROGRAMS = 20

/** A quick evaluation plays one panel. */
const cases = ({ quick }: Scope) =>
  MODELS.flatMap((model) => AUTELLIX_WORKLOADS.map((workload) => ({ model, workload }))).slice(0, quick ? 1 : undefined)

const SYSTEM_NAMES: readonly SystemName[] = [...BASELINES, OURS]

function sweep({ profile, speed }: Model, workload: AutellixWorkload, system: SystemName, scope: Scope): Sweep {
  const rates = ratesOf(workload, system, scope).filter((_, at) => scope.quick || workload === 'lats' || at % 2 === 0)
  return {
    ...{ workload, system, change: { profile } },
    rates: rates.map((rate) => Number((rate * speed).toPrecision(2))),
    programs: () => (scope.quick ? QUICK_PROGRAMS : PROGRAMS[workload]),
    slos_ms: slosAt(workload, speed),
  }
}

/** As much longer as the engine is slower. */
const slosAt = (workload: AutellixWorkload, speed: number) =>
  slosOf(workload).map((slo_ms) => Math.round(slo_ms / speed))

export const FIGURE_12_MODELS: Figure = {
  id: '12-models',
  title: 'Latency against rate on the larger models',
  paper:
    'The paper evaluates Llama-3.1-8B, 70B and Falcon-180B on 1, 4 and 8 GPUs; Autellix has the highest throughput at equal latency on all.',
  first_seed: true,
  setup:
    `Profiles ${MODELS.map(({ profile }) => profile).join(' and ')}, 128 seats, one seed; fewer programs than in figure 12 (${Object.entries(
      PROGRAMS,
    )
      .map(([workload, programs]) => `${programs} of ${workload}`)
      .join(
        ', ',
      )}). Rates and SLOs are those of the 8B engine times ${MODELS.map(({ speed }) => speed).join(' and ')}, ` +
    'about the speed of the larger engine over it. The step times of Falcon-180B are an extrapolation (its profile says of what).',
  chains: (scope) =>
    cases(scope).flatMap(({ model, workload }) =>
      SYSTEM_NAMES.map((system) => sweepChain(sweep(model, workload, system, scope), scope)),
    ),
  read: (runs, scope) => {
    const read = cases(scope).flatMap((one) => readIfPlayed(one.model, one.workload, runs, scope) ?? [])
    if (read.length === 0) throw new MissingRun('no panel of the larger models')
    return {
      panels: read.map(({ model, workload }) => panel(model, workload, runs, scope)),
      shows: read.flatMap(({ model, workload, ratios }) => {
        const known = ratios.flatMap(({ other, most }) =>
          most === null
            ? []
            : [`${ratioText(most)} the rate of ${systemOf(other).label} (at ${most.slo_ms} ms per token)`],
        )
        return known.length === 0 ? [] : [`${model.label}, ${WORKLOAD_LABELS[workload]}: up to ${known.join(', ')}.`]
      }),
      losses: read.flatMap(({ model, workload, ratios }) =>
        ratios
          .filter(({ most }) => most !== null && most.bound === 'exact' && most.ratio.mean < 0.98)
          .map(
            ({ other, most }) =>
              `${model.label}, ${WORKLOAD_LABELS[workload]}: at no SLO as much as ${systemOf(other).label} (${figure(most?.ratio.mean ?? 0)}×).`,
          ),
      ),
      tables: [table(read)],
    }
  },
}

interface Read {
  model: Model
  workload: AutellixWorkload
  ratios: readonly { other: SystemName; most: RatioAt | null }[]
}

/** Null: an unfinished evaluation has not come to it. */
function readIfPlayed(model: Model, workload: AutellixWorkload, runs: Runs, scope: Scope): Read | null {
  const curves = (system: SystemName) => sweepCurves(sweep(model, workload, system, scope), runs, scope)
  return ifPlayed(() => {
    const ours = curves(OURS)
    const ratios = BASELINES.map((other) => ({
      other,
      most: largest(ratiosAt(ours, curves(other), slosAt(workload, model.speed))),
    }))
    return { model, workload, ratios }
  })
}

function panel(model: Model, workload: AutellixWorkload, runs: Runs, scope: Scope) {
  const { profile, label, speed } = model
  return {
    name: `${profile}-${workload}`,
    alt: `Mean program token latency against the rate of programs, ${label}, ${WORKLOAD_LABELS[workload]}, by system.`,
    svg: lineChart({
      title: `${label}: ${WORKLOAD_LABELS[workload]}`,
      x: 'programs per second',
      y: 'ms per token, mean',
      ...{ x_log: true, y_log: true, y_max: 2.5 * (slosAt(workload, speed).at(-1) ?? 0) },
      lines: SYSTEM_NAMES.map((system) => ({
        name: systemOf(system).label,
        color: SYSTEM_COLORS[system],
        points: sweepLine(sweep(model, workload, system, scope), runs, scope),
      })),
    }),
  }
}

function table(read: readonly Read[]): Table {
  return {
    title: 'Largest ratio of ours over SLOs',
    columns: ['', ...BASELINES.map((other) => systemOf(other).label)],
    rows: read.map(({ model, workload, ratios }) => [
      `${model.label}, ${WORKLOAD_LABELS[workload]}`,
      ...ratios.map(({ most }) => (most === null ? '–' : `${ratioText(most)} at ${most.slo_ms} ms`)),
    ]),
  }
}
