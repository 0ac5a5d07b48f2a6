/** The loads at which `learned` is played with less knowledge: overloads, where an order matters. */
import type { Scope } from '../../figure.ts'
import type { Runs } from '../../runs/run-chains.ts'
import type { RunOutcome } from '../../runs/run-outcome.ts'
import { type MorePrograms, type RunChange, type RunSpec, runSpec } from '../../runs/run-spec.ts'
import type { SystemName } from '../../systems.ts'
import { PLAYED } from '../learned.ts'

const QUICK_SHARE = 1 / 16

export interface Load {
  name: string
  played: { workload: NonNullable<RunSpec['workload']>; programs: number; rate: number; more?: MorePrograms }
}

/** `load`: times what an engine serves (figure learned). */
export function loadOf(workload: keyof typeof PLAYED, load: number): Load {
  const { capacity, programs } = PLAYED[workload] ?? { capacity: 1, programs: 1 }
  const rate = Number((load * capacity).toPrecision(3))
  return { name: `${workload}, load ${load}`, played: { workload, programs, rate } }
}

/** Short programs and long ones, each half of the work. */
export const SHORT = 'toolbench'
export const LONG = 'sharegpt'
export const SHORT_AND_LONG: Load = {
  name: `${SHORT} and ${LONG}, load 2`,
  played: { workload: SHORT, programs: 750, rate: 7.5, more: { workload: LONG, programs: 175, order: 'among' } },
}

/** As many engines, and so many times the programs and their rate. */
export function onEngines({ played }: Load, engines: number): RunChange {
  const { programs, rate, more } = played
  return {
    ...{ programs: programs * engines, rate: rate * engines, regions: [{ name: 'region', engines }] },
    ...(more === undefined ? {} : { more: { ...more, programs: more.programs * engines } }),
  }
}

export function specOf(
  { played }: Load,
  system: SystemName,
  seed: number,
  { quick }: Pick<Scope, 'quick'>,
  change: RunChange = {},
): RunSpec {
  const spec = runSpec({ ...played, seed, system, ...change })
  return quick ? shorter(spec) : spec
}

function shorter(spec: RunSpec): RunSpec {
  const few = (programs: number) => Math.ceil(programs * QUICK_SHARE)
  const { programs, more } = spec
  return {
    ...{ ...spec, programs: few(programs) },
    ...(more === undefined ? {} : { more: { ...more, programs: few(more.programs) } }),
  }
}

export type Metric = (outcome: RunOutcome) => number
export const MEAN: Metric = ({ token_latency_ms }) => token_latency_ms.mean
export const P99: Metric = ({ token_latency_ms }) => token_latency_ms.p99

export function metricOf(runs: Runs, metric: Metric, specs: readonly RunSpec[]): number[] {
  return specs.map((spec) => metric(runs.need(spec)))
}
