/**
 * What the runs of a benchmark say, for `bench:policies` and `bench:vllm` alike: tables by workload, ratios seed by seed and by
 * kind of program, and the goals of the plas family with what was measured.
 */
import { type Column, textTable } from '../../cli/table.ts'
import { mean, type Summary } from '../../simulator/statistics.ts'
import { GPU_WORKLOADS, kindsOf, WORKLOADS, type WorkloadName } from './workload.ts'

export interface ComparedRun {
  workload: WorkloadName
  /** Of the policy or the scheduler. */
  name: string
  seed: number
  program_token_latency_ms: Summary
  program_token_latency_ms_by_kind: Record<string, number>
  makespan_s: number
  preemptions: number
  cached_prompt_share: number
  /** Means over the calls. */
  ttft_ms: number
  tpot_ms: number
}

export type Figure<Run> = (run: Run) => number

export interface Comparison<Run> {
  /** First come, first served: what ratios and goals are over. */
  base: string
  /** What a gateway alone can do; null: it is not compared. */
  gateway: string | null
  /** Runs that must be no slower than others, in mean and makespan. Left out: none. */
  noWorse?: readonly { name: string; than: string }[]
  /** Columns that only this benchmark has; null: this run has no such figure. */
  extra: readonly { title: string; digits: number; figure: (run: Run) => number | null }[]
}

export interface Goal {
  workload: WorkloadName
  name: string
  what: string
  bound: number
  /** Mean over the seeds. */
  value: number
  by_seed: number[]
  met: boolean
}

const PLAS_FAMILY = ['plas', 'atlas']
const FCFS_PROGRAM = 'fcfs-program'
const MEAN_TO_BASE_MAX = 0.4
const MEAN_TO_GATEWAY_MAX = 0.75
const KIND_TO_BASE_MAX = 1.1
const MAKESPAN_TO_BASE_MAX = 1.05

const meanLatency = (run: ComparedRun) => run.program_token_latency_ms.mean
const makespan = (run: ComparedRun) => run.makespan_s
const kindLatency = (kind: string) => (run: ComparedRun) => run.program_token_latency_ms_by_kind[kind] ?? Number.NaN

/** In the order in which they first appear. */
export function namesOf(runs: readonly ComparedRun[]): string[] {
  return [...new Set(runs.map(({ name }) => name))]
}

export function workloadsOf(runs: readonly ComparedRun[]): WorkloadName[] {
  return [...WORKLOADS, ...GPU_WORKLOADS].filter((workload) => runs.some((run) => run.workload === workload))
}

/** Of each workload and seed that both played. Empty: there is none. */
export function ratios<Run extends ComparedRun>(
  runs: readonly Run[],
  name: string,
  base: string,
  figure: Figure<Run>,
): number[] {
  return runs.flatMap((run) => {
    if (run.name !== name) return []
    const other = runs.find((one) => one.name === base && one.seed === run.seed && one.workload === run.workload)
    return other === undefined ? [] : [figure(run) / figure(other)]
  })
}

/** For each workload: of each policy of the plas family that was played beside the base, and of runs that must be no worse. */
export function goalsOf(
  runs: readonly ComparedRun[],
  { base, gateway, noWorse = [] }: Pick<Comparison<never>, 'base' | 'gateway' | 'noWorse'>,
): Goal[] {
  return workloadsOf(runs).flatMap((workload) => {
    const own = runs.filter((run) => run.workload === workload)
    const goalOf =
      (name: string) =>
      (what: string, by_seed: number[], bound: number): Goal[] => {
        if (by_seed.length === 0) return []
        const value = mean(by_seed)
        return [{ workload, name, what, bound, value, by_seed, met: value <= bound }]
      }
    const pairs = noWorse.flatMap(({ name, than }) => [
      ...goalOf(name)(`mean ÷ ${than}`, ratios(own, name, than, meanLatency), 1),
      ...goalOf(name)(`makespan ÷ ${than}`, ratios(own, name, than, makespan), 1),
    ])
    const family = namesOf(own)
      .filter((name) => PLAS_FAMILY.includes(name))
      .flatMap((name) => {
        const goal = goalOf(name)
        const to = (other: string, figure: Figure<ComparedRun>) => ratios(own, name, other, figure)
        return [
          ...goal(`mean ÷ ${base}`, to(base, meanLatency), MEAN_TO_BASE_MAX),
          ...(gateway === null ? [] : goal(`mean ÷ ${gateway}`, to(gateway, meanLatency), MEAN_TO_GATEWAY_MAX)),
          ...worst(
            kindsOf(workload).map((kind) => goal(`${kind} ÷ ${base}`, to(base, kindLatency(kind)), KIND_TO_BASE_MAX)),
          ),
          ...goal(`makespan ÷ ${base}`, to(base, makespan), MAKESPAN_TO_BASE_MAX),
        ]
      })
    return [...family, ...pairs]
  })
}

/** A bound that holds for every kind holds if it holds for the worst. A seed without programs of a kind says nothing of it. */
function worst(kinds: readonly Goal[][]): Goal[] {
  const known = kinds.flat().filter(({ value }) => !Number.isNaN(value))
  const [first] = known.sort((a, b) => b.value - a.value)
  return first === undefined ? [] : [{ ...first, what: `worst kind, ${first.what}` }]
}

export function goalsTable(goals: readonly Goal[]): string {
  return textTable<Goal>(
    [
      { title: 'workload', cell: ({ workload }) => workload },
      { title: 'policy', cell: ({ name }) => name },
      { title: 'goal', cell: ({ what }) => what },
      { title: 'at most', align: 'right', cell: ({ bound }) => bound.toFixed(2) },
      { title: 'measured (by seed)', align: 'right', cell: ({ by_seed }) => ratioText(by_seed, 3) },
      { title: '', cell: ({ met }) => (met ? 'met' : 'missed') },
    ],
    goals,
  )
}

/** Tables by workload, then the goals. `headings`: a sentence over the tables of a workload. */
export function comparisonReport<Run extends ComparedRun>(
  runs: readonly Run[],
  comparison: Comparison<Run>,
  headings: Readonly<Partial<Record<WorkloadName, string>>>,
): string {
  const parts = workloadsOf(runs).map((workload) => {
    const own = runs.filter((run) => run.workload === workload)
    const kinds = kindsOf(workload)
    return [
      headings[workload] ?? workload,
      programsTable(own, comparison),
      'Mean by kind of program:',
      kindsTable(own, kinds, null),
      ...[comparison.base, ...(comparison.gateway === null ? [] : [comparison.gateway])]
        .filter((base) => own.some(({ name }) => name === base))
        .flatMap((base) => [`Mean by kind ÷ ${base} (by seed):`, kindsTable(own, kinds, base)]),
    ].join('\n\n')
  })
  const goals = goalsOf(runs, comparison)
  return [...parts, ...(goals.length === 0 ? [] : ['Goals:', goalsTable(goals)])].join('\n\n')
}

function programsTable<Run extends ComparedRun>(
  runs: readonly Run[],
  { base, gateway, extra }: Comparison<Run>,
): string {
  const column = (title: string, figure: (run: Run) => number | null, digits = 0): Column<string> => ({
    title,
    align: 'right',
    cell: (name) => {
      const values = runs.flatMap((run) => (run.name === name ? (figure(run) ?? []) : []))
      return values.length === 0 ? '' : mean(values).toFixed(digits)
    },
  })
  const ratio = (title: string, other: string, figure: Figure<Run>, digits = 2): Column<string>[] =>
    runs.some(({ name }) => name === other)
      ? [{ title, align: 'right', cell: (name) => ratioText(ratios(runs, name, other, figure), digits) }]
      : []
  const gateways = [...(gateway === null ? [] : [gateway]), FCFS_PROGRAM]
  return textTable(
    [
      { title: 'policy', cell: (name) => name },
      ...(['mean', 'p50', 'p95', 'p99'] as const).map((q) => column(q, (run) => run.program_token_latency_ms[q])),
      column('TTFT', (run) => run.ttft_ms),
      column('TPOT', (run) => run.tpot_ms),
      column('makespan s', makespan, 1),
      column('preemptions', (run) => run.preemptions),
      column('cached %', (run) => run.cached_prompt_share * 100),
      ...extra.map(({ title, figure, digits }) => column(title, figure, digits)),
      ...ratio(`mean ÷ ${base}`, base, meanLatency),
      ...gateways.flatMap((other) => ratio(`mean ÷ ${other}`, other, meanLatency)),
      ...ratio('p95 ÷', base, (run) => run.program_token_latency_ms.p95),
      ...ratio('makespan ÷', base, makespan, 3),
    ],
    namesOf(runs),
  )
}

/** `base` null: milliseconds; else ratios to it. */
function kindsTable(runs: readonly ComparedRun[], kinds: readonly string[], base: string | null): string {
  const cell = (kind: string) => (name: string) => {
    const figure = kindLatency(kind)
    if (base !== null) return ratioText(ratios(runs, name, base, figure), 2)
    return mean(runs.filter((run) => run.name === name).map(figure)).toFixed(0)
  }
  const columns = kinds.map((kind): Column<string> => ({ title: kind, align: 'right', cell: cell(kind) }))
  return textTable([{ title: 'policy', cell: (name) => name }, ...columns], namesOf(runs))
}

/** The mean over seeds, and each seed. */
function ratioText(values: readonly number[], digits: number): string {
  if (values.length === 0) return ''
  const each = values.length === 1 ? '' : ` (${values.map((value) => value.toFixed(digits)).join(' ')})`
  return `${mean(values).toFixed(digits)}${each}`
}
