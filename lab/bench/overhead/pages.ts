/**
 * What open pages cost the calls: the same loads with no page and with some, in turns and in both orders, so that a machine
 * that becomes slower is not taken for their cost. A page reads the live events as the operator's browser does, and draws nothing.
 */
import { quantile } from '../../../simulator/statistics.ts'
import { type CallsOptions, closedRun, openRun, SHORT } from './calls.ts'
import { switchyardLane } from './lanes.ts'
import { poisson } from './load.ts'
import { type Measured, median, round } from './measure.ts'
import type { BenchSystem } from './system.ts'

const CONNECTIONS = 32
const WARM_UP_S = 3
/** About a fifth of the peak, so that what is measured is no queue. */
const OFFERED_CALLS_PER_S = 100

export interface PagesRun extends Measured {
  pages: number
  round: number
  load: 'closed' | 'open'
}

export interface PagesReport {
  pages: number
  offered_calls_per_s: number
  /** Calls per second with the pages open over those without, of the same round: median, least and most. */
  peak_ratio: number
  peak_ratio_least: number
  peak_ratio_most: number
  /** Latency of the open load with the pages less that without, of the same round. */
  added_p50_ms: number
  added_p50_least_ms: number
  added_p50_most_ms: number
  workerd_cpu_ratio: number
  runs: PagesRun[]
}

export async function measurePages(
  system: BenchSystem,
  pages: number,
  { rounds, seconds, note }: CallsOptions,
): Promise<PagesReport> {
  const lane = { lane: switchyardLane(system, SHORT), pid: system.workerd_pid }
  await closedRun(system, lane, CONNECTIONS, WARM_UP_S)
  const runs: PagesRun[] = []
  for (let at = 1; at <= rounds; at++) {
    const due = poisson(OFFERED_CALLS_PER_S, seconds * 2 + WARM_UP_S, at)
    for (const open of at % 2 === 1 ? [0, pages] : [pages, 0]) {
      const close = await openPages(system, open)
      try {
        const closed = await closedRun(system, lane, CONNECTIONS, seconds)
        runs.push({ pages: open, round: at, load: 'closed', ...closed })
        const { measured } = await openRun(system, lane, due)
        runs.push({ pages: open, round: at, load: 'open', ...measured })
        note(
          `round ${at}, ${open} pages: ${closed.calls_per_s} calls/s, p50 ${measured.p50_ms} ms at ${OFFERED_CALLS_PER_S}/s`,
        )
      } finally {
        await close()
      }
    }
  }
  const pairs = (load: PagesRun['load'], of: (withPages: PagesRun, without: PagesRun) => number): number[] =>
    runs.flatMap((run) => {
      if (run.load !== load || run.pages === 0) return []
      const without = runs.find((other) => other.load === load && other.pages === 0 && other.round === run.round)
      return without === undefined ? [] : [of(run, without)]
    })
  const ratios = pairs('closed', (one, other) => one.calls_per_s / other.calls_per_s)
  const added = pairs('open', (one, other) => one.p50_ms - other.p50_ms)
  const cpu = pairs('closed', (one, other) => one.workerd_cpu_us / other.workerd_cpu_us)
  const ends = (values: readonly number[]): [number, number] => [round(Math.min(...values)), round(Math.max(...values))]
  const [peak_ratio_least, peak_ratio_most] = ends(ratios)
  const [added_p50_least_ms, added_p50_most_ms] = ends(added)
  return {
    ...{ pages, offered_calls_per_s: OFFERED_CALLS_PER_S, peak_ratio: round(quantile(ratios, 0.5), 3) },
    ...{ peak_ratio_least, peak_ratio_most, added_p50_ms: median(added), added_p50_least_ms, added_p50_most_ms },
    ...{ workerd_cpu_ratio: round(quantile(cpu, 0.5), 3), runs },
  }
}

/** Returns what closes them. Throws if one is refused. */
async function openPages({ port, secrets }: Pick<BenchSystem, 'port' | 'secrets'>, pages: number) {
  const stop = new AbortController()
  const reading = Array.from({ length: pages }, async () => {
    const headers = { authorization: `Bearer ${secrets.adminKey}`, accept: 'text/event-stream' }
    const response = await fetch(`http://127.0.0.1:${port}/page/live`, { headers, signal: stop.signal })
    if (response.body === null || !response.ok) throw new Error(`a page got ${response.status}`)
    return response.body
  })
  const bodies = await Promise.all(reading)
  const read = bodies.map(async (body) => {
    // What it says plays no part: a browser of its own would draw it.
    for await (const _ of body) if (stop.signal.aborted) return
  })
  return async (): Promise<void> => {
    stop.abort()
    await Promise.allSettled(read)
  }
}
