/**
 * What a call costs. Closed loads at several numbers of connections find each lane's peak; then an open load at half of
 * Switchyard's peak, the same arrivals over every lane, says what it adds to a call's latency. Lanes take turns in every round,
 * so that what else the machine does falls on all of them.
 */
import { quantile } from '../../../simulator/statistics.ts'
import { type CallShape, switchyardLane, ticketLane } from './lanes.ts'
import { closedLoad, type Lane, type LoadResult, openLoad, poisson } from './load.ts'
import { type Measured, measured, median, round } from './measure.ts'
import { type StageShare, stageShares } from './stages.ts'
import type { BenchSystem } from './system.ts'

/** An answer that costs its engine little: what is measured lies before it. */
export const SHORT: CallShape = { output_tokens: 4 }
export const CONNECTIONS = [8, 32, 96] as const
const WARM_UP_S = 3
/** Of every closed and open load; their calls are not counted. */
const CLOSED_WARM_UP_S = 1.5
const OPEN_WARM_UP_S = 3
/** Calls of a second at most, for tickets made beforehand. */
export const CALLS_PER_S_MAX = 3_000

/** A lane and the process between generator and agent. */
export interface BenchLane {
  lane: Lane
  pid: number | null
}

export interface Run extends Measured {
  lane: string
  round: number
  connections: number | null
  offered_calls_per_s: number | null
}

export interface CallsReport {
  peak_calls_per_s: number
  bare_peak_calls_per_s: number
  bare_stored_peak_calls_per_s: number
  direct_peak_calls_per_s: number
  peak_ratio_to_bare: number
  peak_ratio_to_bare_stored: number
  offered_calls_per_s: number
  /** Against the direct lane, of the same round; the median over the rounds. */
  added_p50_ms: number
  added_p95_ms: number
  added_p99_ms: number
  bare_added_p50_ms: number
  bare_added_p99_ms: number
  bare_stored_added_p50_ms: number
  bare_stored_added_p99_ms: number
  /** Generator's, agent's and engine's own, at the same rate. */
  direct_p50_ms: number
  direct_p99_ms: number
  stages: StageShare[]
  closed: Run[]
  open: Run[]
}

export interface CallsOptions {
  rounds: number
  seconds: number
  note: (line: string) => void
}

export async function benchLanes(system: BenchSystem, shape: CallShape): Promise<BenchLane[]> {
  const { bare } = system
  return [
    { lane: await ticketLane('direct', system.agent.port, system, shape), pid: null },
    { lane: await ticketLane('bare', bare.port, system, shape), pid: bare.pid },
    { lane: await ticketLane('bare_stored', bare.port, system, shape, ['x-store: 1']), pid: bare.pid },
    { lane: switchyardLane(system, shape), pid: system.workerd_pid },
  ]
}

/** `warm_up_s` is for short calls: of long ones none might be sent after it. */
export async function closedRun(
  system: BenchSystem,
  { lane, pid }: BenchLane,
  connections: number,
  seconds: number,
  warm_up_s = CLOSED_WARM_UP_S,
) {
  const calls_max = CALLS_PER_S_MAX * (seconds + warm_up_s)
  await lane.prepare(calls_max)
  const load = () => closedLoad(lane, connections, seconds, calls_max, warm_up_s)
  return (await measured(system, pid, load, lane.output_tokens)).measured
}

export async function openRun(
  system: BenchSystem,
  { lane, pid }: BenchLane,
  due: readonly number[],
  warm_up_s = OPEN_WARM_UP_S,
): Promise<{ measured: Measured; result: LoadResult }> {
  await lane.prepare(due.length)
  return measured(system, pid, () => openLoad(lane, due, warm_up_s * 1000), lane.output_tokens)
}

export async function measureCalls(system: BenchSystem, options: CallsOptions): Promise<CallsReport> {
  const lanes = await benchLanes(system, SHORT)
  for (const lane of lanes) await closedRun(system, lane, CONNECTIONS[1], WARM_UP_S)
  const closed = await closedRounds(system, lanes, options)
  const peak = (lane: string): number => peakOf(closed, lane)
  const offered_calls_per_s = round(peak('switchyard') / 2, 0)
  const { open, heads } = await openRounds(system, lanes, offered_calls_per_s, options)
  const added = (lane: string, key: 'p50_ms' | 'p95_ms' | 'p99_ms'): number => addedMs(open, lane, key)
  return {
    peak_calls_per_s: peak('switchyard'),
    bare_peak_calls_per_s: peak('bare'),
    bare_stored_peak_calls_per_s: peak('bare_stored'),
    direct_peak_calls_per_s: peak('direct'),
    peak_ratio_to_bare: round(peak('switchyard') / peak('bare')),
    peak_ratio_to_bare_stored: round(peak('switchyard') / peak('bare_stored')),
    offered_calls_per_s,
    added_p50_ms: added('switchyard', 'p50_ms'),
    added_p95_ms: added('switchyard', 'p95_ms'),
    added_p99_ms: added('switchyard', 'p99_ms'),
    bare_added_p50_ms: added('bare', 'p50_ms'),
    bare_added_p99_ms: added('bare', 'p99_ms'),
    bare_stored_added_p50_ms: added('bare_stored', 'p50_ms'),
    bare_stored_added_p99_ms: added('bare_stored', 'p99_ms'),
    direct_p50_ms: directMs(open, 'p50_ms'),
    direct_p99_ms: directMs(open, 'p99_ms'),
    stages: stageShares(heads),
    closed,
    open,
  }
}

async function closedRounds(system: BenchSystem, lanes: readonly BenchLane[], options: CallsOptions): Promise<Run[]> {
  const runs: Run[] = []
  for (let round = 1; round <= options.rounds; round++) {
    for (const connections of CONNECTIONS) {
      for (const lane of lanes) {
        const run = await closedRun(system, lane, connections, options.seconds)
        runs.push({ lane: lane.lane.name, round, connections, offered_calls_per_s: null, ...run })
        options.note(`closed, ${connections} connections, ${lane.lane.name}: ${run.calls_per_s} calls/s`)
      }
    }
  }
  return runs
}

async function openRounds(
  system: BenchSystem,
  lanes: readonly BenchLane[],
  offered_calls_per_s: number,
  { rounds, seconds, note }: CallsOptions,
): Promise<{ open: Run[]; heads: string[] }> {
  const open: Run[] = []
  const heads: string[] = []
  for (let round = 1; round <= rounds; round++) {
    const due = poisson(offered_calls_per_s, seconds * 2 + OPEN_WARM_UP_S, round)
    for (const lane of lanes) {
      const { measured: run, result } = await openRun(system, lane, due)
      const { name } = lane.lane
      if (name === 'switchyard') heads.push(...result.heads)
      open.push({ lane: name, round, connections: null, offered_calls_per_s, ...run })
      note(`open, ${offered_calls_per_s} calls/s, ${name}: p50 ${run.p50_ms} ms, p99 ${run.p99_ms} ms`)
    }
  }
  return { open, heads }
}

/** The best over the numbers of connections of the median over the rounds. */
function peakOf(runs: readonly Run[], lane: string): number {
  const rates = CONNECTIONS.map((connections) => {
    const same = runs.filter((run) => run.lane === lane && run.connections === connections)
    return quantile(
      same.map((run) => run.calls_per_s),
      0.5,
    )
  })
  return round(Math.max(...rates), 0)
}

function directMs(runs: readonly Run[], key: 'p50_ms' | 'p99_ms'): number {
  return median(runs.filter((run) => run.lane === 'direct').map((run) => run[key]))
}

export function addedMs(runs: readonly Run[], lane: string, key: 'p50_ms' | 'p95_ms' | 'p99_ms'): number {
  const direct = new Map(runs.filter((run) => run.lane === 'direct').map((run) => [run.round, run[key]]))
  return median(runs.filter((run) => run.lane === lane).map((run) => run[key] - (direct.get(run.round) ?? Number.NaN)))
}
