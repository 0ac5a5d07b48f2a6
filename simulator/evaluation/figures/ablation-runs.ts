/** One knob turned, everything else alike: which runs that takes, and a metric of them by value of the knob. */
import type { Scope } from '../figure.ts'
import type { Chain, Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import type { RunSpec } from '../runs/run-spec.ts'
import { type Interval, interval } from '../statistics/interval.ts'

/** A spec for each value of the knob and seed. */
export type Knob<V> = (value: V, seed: number) => RunSpec

export function knobChain<V>(knob: Knob<V>, values: readonly V[], { seeds }: Scope): Chain {
  return { steps: [values.flatMap((value) => seeds.map((seed) => knob(value, seed)))] }
}

export function knobMetric<V>(
  runs: Runs,
  knob: Knob<V>,
  value: V,
  of: (outcome: RunOutcome) => number,
  { seeds }: Scope,
): Interval {
  return interval(seeds.map((seed) => of(runs.need(knob(value, seed)))))
}

/** A metric at one value ÷ the same at another, by seed. */
export function knobRatio<V>(
  runs: Runs,
  knob: Knob<V>,
  [value, base]: readonly [V, V],
  of: (outcome: RunOutcome) => number,
  { seeds }: Scope,
): Interval {
  return interval(seeds.map((seed) => of(runs.need(knob(value, seed))) / of(runs.need(knob(base, seed)))))
}
