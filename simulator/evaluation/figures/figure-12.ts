/** Figure 12: mean program token latency against rate, four workloads, and throughput read off at common SLOs. */
import { mean } from '../../statistics.ts'
import type { Figure, PaperRow, Scope, Table } from '../figure.ts'
import { SYSTEM_COLORS } from '../plots/colors.ts'
import { type Line, lineChart } from '../plots/line-chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import { isBelow } from '../statistics/interval.ts'
import { figure, listed, percent } from '../statistics/words.ts'
import { SYSTEMS, type SystemName, systemOf } from '../systems.ts'
import {
  AUTELLIX_WORKLOADS,
  type AutellixWorkload,
  ceilingOf,
  HEADLINE_SLO_MS,
  OURS,
  programsOfSweep,
  ratesOf,
  slosOf,
  WORKLOAD_LABELS,
} from './scale.ts'
import { MEAN_MS, type Metric, type Sweep, sweepChain, sweepCurves, sweepLine, sweepSpec } from './sweep.ts'
import { paperRatio, type RatioAt, rangeText, ratiosAt, ratioTable } from './throughput.ts'

const BASELINES = ['vllm', 'vllm-opt', 'mlfq', 'rr'] as const satisfies readonly SystemName[]
const SYSTEM_NAMES = [...BASELINES, 'plas', 'atlas'] as const satisfies readonly SystemName[]
/** What ours is measured against beyond the paper's systems: queues of programs, and orders that know what is still to come. */
export const REFERENCES = [
  'fcfs-program',
  'mlfq-program',
  'rr-program',
  'srpt',
  'wsrpt',
] as const satisfies readonly SystemName[]
/** References are played for the first of the seeds. */
const REFERENCE_SEEDS = 1

/** Mixed is played for all seeds, the other workloads for the first of them. */
const SINGLE_SEEDS = 3

export function scopeFor(workload: AutellixWorkload, { seeds, quick }: Scope): Scope {
  return { seeds: workload === 'mixed' ? seeds : seeds.slice(0, SINGLE_SEEDS), quick }
}

export function referenceScope({ seeds, quick }: Scope): Scope {
  return { seeds: seeds.slice(0, REFERENCE_SEEDS), quick }
}

/** "up to", §6.3: over vLLM, vLLM-opt and MLFQ. */
const PAPER: Readonly<Record<AutellixWorkload, Readonly<Record<'vllm' | 'vllm-opt' | 'mlfq', number>>>> = {
  sharegpt: { vllm: 8, 'vllm-opt': 2, mlfq: 1.5 },
  bfcl: { vllm: 8, 'vllm-opt': 2, mlfq: 1.5 },
  lats: { vllm: 5, 'vllm-opt': 2, mlfq: 2.5 },
  mixed: { vllm: 15, 'vllm-opt': 4, mlfq: 5.5 },
}

/** Where programs have threads, both of ours are played. */
function systemsOf(workload: AutellixWorkload): SystemName[] {
  return workload === 'lats' || workload === 'mixed' ? [...BASELINES, 'plas', 'atlas'] : [...BASELINES, 'plas']
}

export function mainSweep(workload: AutellixWorkload, system: SystemName, scope: Scope): Sweep {
  return {
    workload,
    system,
    programs: () => programsOfSweep(workload, scope),
    rates: ratesOf(workload, system, scope),
    ...(workload === 'mixed' ? { exact_slos_ms: [HEADLINE_SLO_MS] } : {}),
  }
}

export function mainSweeps(scope: Scope): { workload: AutellixWorkload; sweeps: Sweep[] }[] {
  return AUTELLIX_WORKLOADS.map((workload) => ({
    workload,
    sweeps: systemsOf(workload).map((system) => mainSweep(workload, system, scope)),
  }))
}

/** A quick evaluation leaves them out. */
export function referenceSweeps(workload: AutellixWorkload, scope: Scope): Sweep[] {
  return scope.quick ? [] : REFERENCES.map((system) => mainSweep(workload, system, scope))
}

export const FIGURE_12: Figure = {
  id: '12',
  every_seed: true,
  title: 'Latency against rate, one engine',
  paper:
    'Autellix has the highest throughput at equal latency on all four workloads: up to 8× vLLM, 2× vLLM-opt and 1.5× MLFQ on single-threaded ' +
    'programs, 5×, 2× and 2.5× on LATS, 15×, 4× and 5.5× on Mixed.',
  setup:
    'Llama-3.1-8B on one A100 (profile a100-8b), 128 seats, Poisson arrivals. Every preemptive system swaps by the batched kernel, and all but ' +
    `vLLM decide once in ten steps. At every rate the same programs, ${AUTELLIX_WORKLOADS.map((workload) => `${figure(programsOfSweep(workload, { quick: false }))} of ${WORKLOAD_LABELS[workload]}`).join(', ')} (quick: fewer), so that a higher rate is a shorter load; the paper does not say how long its loads last. A curve ends beyond the largest SLO. SRPT and WSRPT know what is still to come; they are references, played for one seed. Mixed, which the goals are about, is played for all seeds, the others for ${SINGLE_SEEDS}.`,
  chains: (scope) =>
    mainSweeps(scope).flatMap(({ workload, sweeps }) => [
      ...sweeps.map((sweep) => sweepChain(sweep, scopeFor(workload, scope))),
      ...referenceSweeps(workload, scope).map((sweep) => sweepChain(sweep, referenceScope(scope))),
    ]),
  read: (runs, scope) => {
    const read = AUTELLIX_WORKLOADS.map((workload) => ({ workload, ratios: ratiosOf(workload, runs, scope) }))
    return {
      panels: mainSweeps(scope).map(({ workload, sweeps }) => ({
        name: workload,
        alt: `Mean program token latency against the rate of programs, ${WORKLOAD_LABELS[workload]}, by system.`,
        svg: lineChart({
          title: WORKLOAD_LABELS[workload],
          x: 'programs per second',
          y: 'ms per token, mean',
          x_log: true,
          y_log: true,
          y_max: 2.5 * ceilingOf(workload),
          lines: [
            ...sweeps.map((sweep) => ({
              name: systemOf(sweep.system).label,
              color: SYSTEM_COLORS[sweep.system],
              dashed: sweep.system === 'atlas',
              points: sweepLine(sweep, runs, scopeFor(workload, scope)),
            })),
            ...referenceLines(workload, runs, scope, MEAN_MS),
          ],
        }),
      })),
      shows: read.flatMap(({ workload, ratios }) => shows(workload, ratios)),
      losses: read.flatMap(({ workload, ratios }) => losses(workload, ratios)),
      tables: [
        ...read.flatMap(({ workload, ratios }) =>
          tableOf(workload, [...ratios, ...referenceRatios(workload, runs, scope)]),
        ),
        cacheTable(runs, scope),
      ],
      paper: read.flatMap(({ workload, ratios }) => paperRows(workload, ratios)),
    }
  },
}

type Ratios = { other: SystemName; ratios: RatioAt[] }[]

function ratiosOf(workload: AutellixWorkload, runs: Runs, whole: Scope): Ratios {
  const scope = scopeFor(workload, whole)
  const ours = OURS
  const mine = sweepCurves(mainSweep(workload, ours, scope), runs, scope)
  return systemsOf(workload)
    .filter((system) => system !== ours)
    .map((other) => ({
      other,
      ratios: ratiosAt(mine, sweepCurves(mainSweep(workload, other, scope), runs, scope), slosOf(workload)),
    }))
}

/** Dotted beside the systems; a reference that an unfinished evaluation has not come to is left out. */
export function referenceLines(workload: AutellixWorkload, runs: Runs, scope: Scope, metric: Metric): Line[] {
  return playedReferences(workload, runs, scope).map((sweep) => ({
    name: systemOf(sweep.system).label,
    color: SYSTEM_COLORS[sweep.system],
    dashed: true,
    points: sweepLine(sweep, runs, referenceScope(scope), metric),
  }))
}

function playedReferences(workload: AutellixWorkload, runs: Runs, scope: Scope): Sweep[] {
  const { seeds } = referenceScope(scope)
  return referenceSweeps(workload, scope).filter((sweep) =>
    seeds.every((seed) => runs.of(sweepSpec(sweep, sweep.rates[0] as number, seed)) !== undefined),
  )
}

function referenceRatios(workload: AutellixWorkload, runs: Runs, scope: Scope): Ratios {
  const own = referenceScope(scope)
  const mine = sweepCurves(mainSweep(workload, OURS, scope), runs, own)
  return playedReferences(workload, runs, scope).map((sweep) => ({
    other: sweep.system,
    ratios: ratiosAt(mine, sweepCurves(sweep, runs, own), slosOf(workload)),
  }))
}

function shows(workload: AutellixWorkload, ratios: Ratios): string[] {
  const ranges = ratios.flatMap(({ other, ratios: own }) => rangeText(SYSTEMS[other].label, own) ?? [])
  const ours = systemOf(OURS).label
  return ranges.length === 0 ? [] : [`${WORKLOAD_LABELS[workload]}: ${ours} serves ${listed(ranges)}.`]
}

/** Every SLO at which another order serves more, and every claim of the paper that is not reached. */
export function losses(workload: AutellixWorkload, ratios: Ratios): string[] {
  const ours = systemOf(OURS).label
  const behind = ratios.flatMap(({ other, ratios: own }) => {
    const worse = own.filter(({ bound, ratio }) => bound === 'exact' && isBelow(ratio, 1))
    const least = worse.toSorted((a, b) => a.ratio.mean - b.ratio.mean)[0]
    if (least === undefined) return []
    const where = worse.map(({ slo_ms }) => slo_ms).join(', ')
    return [
      `${WORKLOAD_LABELS[workload]}: ${SYSTEMS[other].label} serves more than ${ours} at ${where} ms per token, ` +
        `${figure(1 / least.ratio.mean)}× at ${least.slo_ms} ms.`,
    ]
  })
  const missed = paperRows(workload, ratios).filter(
    ({ paper, ours: mine, at_least }) => paper !== null && mine !== null && !at_least && mine.mean < paper,
  )
  return [
    ...behind,
    ...missed.map(
      ({ claim, paper, ours: mine }) => `${claim}: the paper's ${paper}× is not reached (${figure(mine?.mean ?? 0)}×).`,
    ),
  ]
}

function tableOf(workload: AutellixWorkload, ratios: Ratios): Table[] {
  const ours = systemOf(OURS).label
  return ratioTable(
    `${WORKLOAD_LABELS[workload]}: rate of ${ours} ÷ rate of the other, by SLO on the mean`,
    slosOf(workload),
    ratios.map(({ other, ratios: own }) => ({ name: SYSTEMS[other].label, ratios: own })),
  )
}

/** At the highest rate that every system with a prefix cache played: who keeps programs' KV, and who evicts it between calls. */
function cacheTable(runs: Runs, scope: Scope): Table {
  const systems = SYSTEM_NAMES.filter((system) => system !== 'vllm')
  const rows = AUTELLIX_WORKLOADS.map((workload) => {
    const sweeps = systemsOf(workload)
      .filter((system) => system !== 'vllm')
      .map((system) => mainSweep(workload, system, scope))
    const shares = (sweep: Sweep, rate: number) => sweepShares(sweep, rate, runs, scopeFor(workload, scope))
    const rate = sweeps[0]?.rates.findLast((one) => sweeps.every((sweep) => shares(sweep, one) !== null)) ?? 0
    const cells = systems.map((system) => {
      const sweep = sweeps.find((one) => one.system === system)
      const share = sweep === undefined ? null : shares(sweep, rate)
      return share === null ? '–' : percent(share)
    })
    return [`${WORKLOAD_LABELS[workload]} at ${figure(rate)}/s`, ...cells]
  })
  return {
    title: 'Share of prompt tokens found in the prefix cache, at the highest rate that all played',
    columns: ['', ...systems.map((system) => SYSTEMS[system].label)],
    rows,
  }
}

/** Mean over seeds; null: that rate was not played. */
function sweepShares(sweep: Sweep, rate: number, runs: Runs, { seeds }: Scope): number | null {
  const outcomes = seeds.map((seed) => runs.of(sweepSpec(sweep, rate, seed))).filter((one) => one !== undefined)
  if (outcomes.length < seeds.length) return null
  return mean(outcomes.map(({ cached_tokens, prompt_tokens }) => cached_tokens / prompt_tokens))
}

function paperRows(workload: AutellixWorkload, ratios: Ratios): PaperRow[] {
  return ratios.flatMap(({ other, ratios: own }) => {
    if (other !== 'vllm' && other !== 'vllm-opt' && other !== 'mlfq') return []
    const claim = `${WORKLOAD_LABELS[workload]}: throughput over ${SYSTEMS[other].label}`
    return [paperRatio(claim, PAPER[workload][other], own)]
  })
}
