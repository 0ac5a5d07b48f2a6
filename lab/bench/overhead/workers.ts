/**
 * The control plane in one process and in several: the same closed load, then the same open one, in turns. Where the machine has
 * fewer cores than processes, what counts of the closed load is the busiest process: a core of its own each is what they need to
 * serve more calls. The open load shows how long calls wait while a process waits for its disk.
 */
import { quantile } from '../../../simulator/statistics.ts'
import { CALLS_PER_S_MAX, type CallsOptions, closedRun, openRun, SHORT } from './calls.ts'
import { switchyardLane } from './lanes.ts'
import { closedLoad, poisson } from './load.ts'
import { type Measured, measured, round } from './measure.ts'
import type { BenchSystem } from './system.ts'

const CONNECTIONS = 48
const WARM_UP_S = 3
const OFFERED_CALLS_PER_S = 100
/** Counted seconds of the open load for each second of --seconds. */
const SECONDS_FACTOR = 2
const US = 1e6

export interface WorkersRun extends Measured {
  workers: number
  round: number
  /** Microseconds of CPU per call: of all processes of the control plane, of the busiest workerd, and of the balancer. */
  all_cpu_us: number
  busiest_cpu_us: number
  balancer_cpu_us: number
  /** Of the open load. */
  open_p50_ms: number
  open_p99_ms: number
}

export interface WorkersReport {
  /** The median over the rounds of each count. */
  by_workers: {
    workers: number
    calls_per_s: number
    all_cpu_us: number
    busiest_cpu_us: number
    balancer_cpu_us: number
    /** At OFFERED_CALLS_PER_S. */
    open_p50_ms: number
    open_p99_ms: number
    /** What the busiest process could serve on a core of its own. */
    calls_per_core_s: number
  }[]
  runs: WorkersRun[]
}

/** `start`: a system with so many processes. One runs at a time. */
export async function measureWorkers(
  counts: readonly number[],
  start: <T>(workers: number, work: (system: BenchSystem) => Promise<T>) => Promise<T>,
  { rounds, seconds, note }: CallsOptions,
): Promise<WorkersReport> {
  const runs: WorkersRun[] = []
  for (let at = 1; at <= rounds; at++) {
    for (const workers of at % 2 === 1 ? counts : counts.toReversed()) {
      const run = await start(workers, (system) => oneRun(system, seconds, at))
      runs.push({ workers, round: at, ...run })
      note(
        `round ${at}, ${workers} workers: ${run.calls_per_s} calls/s, CPU a call ${run.all_cpu_us} µs, busiest ${run.busiest_cpu_us} µs; at ${OFFERED_CALLS_PER_S}/s p50 ${run.open_p50_ms} ms, p99 ${run.open_p99_ms} ms`,
      )
    }
  }
  const by_workers = counts.map((workers) => {
    const own = runs.filter((run) => run.workers === workers)
    const of = (key: keyof WorkersRun, digits = 0): number => {
      const values = own.map((run) => Number(run[key]))
      return round(quantile(values, 0.5), digits)
    }
    return {
      ...{ workers, calls_per_s: of('calls_per_s'), all_cpu_us: of('all_cpu_us') },
      ...{ busiest_cpu_us: of('busiest_cpu_us'), balancer_cpu_us: of('balancer_cpu_us') },
      ...{ open_p50_ms: of('open_p50_ms', 1), open_p99_ms: of('open_p99_ms', 1) },
      calls_per_core_s: round(US / of('busiest_cpu_us'), 0),
    }
  })
  return { by_workers, runs }
}

async function oneRun(
  system: BenchSystem,
  seconds: number,
  seed: number,
): Promise<Omit<WorkersRun, 'workers' | 'round'>> {
  const lane = switchyardLane(system, SHORT)
  const pids = [system.control_plane_pid, ...system.workerd_pids]
  await closedRun(system, { lane, pid: system.workerd_pid }, CONNECTIONS, WARM_UP_S)
  const calls_max = CALLS_PER_S_MAX * (seconds + WARM_UP_S)
  await lane.prepare(calls_max)
  const load = () => closedLoad(lane, CONNECTIONS, seconds, calls_max, WARM_UP_S)
  const { measured: run, cpu_us_of } = await measured(system, pids, load, lane.output_tokens)
  const [balancer_cpu_us = 0, ...workerds] = cpu_us_of
  const due = poisson(OFFERED_CALLS_PER_S, SECONDS_FACTOR * seconds + WARM_UP_S, seed)
  const { measured: open } = await openRun(system, { lane, pid: null }, due, WARM_UP_S)
  return {
    ...{ ...run, all_cpu_us: run.workerd_cpu_us, busiest_cpu_us: Math.max(...workerds), balancer_cpu_us },
    ...{ open_p50_ms: open.p50_ms, open_p99_ms: open.p99_ms },
  }
}
