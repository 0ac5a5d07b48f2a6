/** When programs start: Poisson, Gamma (burstier or smoother than Poisson at the same rate), as the trace says, or all at once. */
import { exponential, gamma, seededRandom } from './random.ts'
import type { WorkloadProgram } from './workloads/program.ts'

export type ArrivalProcess =
  | { kind: 'poisson'; rate: number }
  /** `cv`: standard deviation of the gaps over their mean. */
  | { kind: 'gamma'; rate: number; cv: number }
  /** Each program's `arrival_seconds`, from the first one on, `rate` times as fast. */
  | { kind: 'trace'; rate: number }
  | { kind: 'burst' }

const US_PER_S = 1e6
/** Arrivals are drawn from another sequence than the workload. */
const ARRIVALS_SEED = 0x5eed

/** Microseconds, ascending with the programs' order except for traces, where they are the programs' own. */
export function arrivalTimesUs(process: ArrivalProcess, programs: readonly WorkloadProgram[], seed: number): number[] {
  if (process.kind === 'burst') return programs.map(() => 0)
  if (process.kind === 'trace') return traceTimesUs(programs, process.rate)
  const random = seededRandom(seed ^ ARRIVALS_SEED)
  let at_s = 0
  return programs.map(() => {
    const gap = process.kind === 'poisson' ? exponential(random) : gamma(process.cv, random)
    at_s += gap / process.rate
    return Math.round(at_s * US_PER_S)
  })
}

function traceTimesUs(programs: readonly WorkloadProgram[], rate: number): number[] {
  const at_s = programs.map(({ id, arrival_seconds }) => {
    if (arrival_seconds === undefined) throw new RangeError(`program ${id} has no arrival_seconds`)
    return arrival_seconds
  })
  const first_s = at_s.reduce((least, at) => Math.min(least, at), Number.POSITIVE_INFINITY)
  return at_s.map((at) => Math.round(((at - first_s) / rate) * US_PER_S))
}
