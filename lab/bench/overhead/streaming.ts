/**
 * Tokens a second through each lane while long streams flow, with an engine that writes a token each millisecond and one that
 * writes one each 20 ms. An event may have several tokens, so what counts is what a token costs.
 */
import { benchLanes, closedRun } from './calls.ts'
import type { CallShape } from './lanes.ts'
import { median, round } from './measure.ts'
import type { BenchSystem } from './system.ts'

export const LONG: CallShape = { output_tokens: 256 }
/** By the length of an engine's step, so many streams at a time. Slow ones leave the machine idle, and CPU is counted by many. */
const LOADS = [
  { step_ms: 1, streams: 16 },
  { step_ms: 20, streams: 96 },
] as const
export const STREAMS = LOADS[0].streams
const WARM_UP_S = 2
/** A stream of 256 slow tokens takes 5 s. */
const SECONDS_MIN = 8

interface StreamRun {
  step_ms: number
  lane: string
  round: number
  tokens_per_s: number
  tokens_per_event: number
  workerd_cpu_us_per_token: number
  ttft_p50_ms: number
  itl_p50_ms: number
  itl_p99_ms: number
}

/** Of one length of the step. Medians over the rounds. */
export interface StreamFigures {
  step_ms: number
  streams: number
  tokens_per_s: number
  bare_tokens_per_s: number
  direct_tokens_per_s: number
  workerd_cpu_us_per_token: number
  bare_cpu_us_per_token: number
  tokens_per_event: number
  ratio_to_direct: number
  ratio_to_bare: number
}

export interface StreamingReport {
  figures: StreamFigures[]
  runs: StreamRun[]
}

export type WithSystem = <T>(step_ms: number, work: (system: BenchSystem) => Promise<T>) => Promise<T>

export async function measureStreaming(
  within: WithSystem,
  { rounds, seconds, note }: { rounds: number; seconds: number; note: (line: string) => void },
): Promise<StreamingReport> {
  const report: StreamingReport = { figures: [], runs: [] }
  for (const { step_ms, streams } of LOADS) {
    const runs = await within(step_ms, (system) =>
      streamRuns(system, step_ms, streams, rounds, Math.max(seconds, step_ms > 1 ? SECONDS_MIN : 0), note),
    )
    report.runs.push(...runs)
    report.figures.push(figuresOf(step_ms, streams, runs))
  }
  return report
}

async function streamRuns(
  system: BenchSystem,
  step_ms: number,
  streams: number,
  rounds: number,
  seconds: number,
  note: (line: string) => void,
): Promise<StreamRun[]> {
  const lanes = (await benchLanes(system, LONG)).filter(({ lane }) => lane.name !== 'bare_stored')
  for (const lane of lanes) await closedRun(system, lane, streams, WARM_UP_S, 0)
  const runs: StreamRun[] = []
  for (let at = 1; at <= rounds; at++) {
    for (const lane of lanes) {
      const { name } = lane.lane
      const run = await closedRun(system, lane, streams, seconds, 0)
      const tokens_per_s = round(run.calls_per_s * LONG.output_tokens, 0)
      runs.push({
        ...{ step_ms, lane: name, round: at, tokens_per_s },
        tokens_per_event: round(tokens_per_s / run.events_per_s),
        workerd_cpu_us_per_token: round(run.workerd_cpu_us / LONG.output_tokens),
        ...{ ttft_p50_ms: run.ttft_p50_ms, itl_p50_ms: run.itl_p50_ms, itl_p99_ms: run.itl_p99_ms },
      })
      note(`streams, a token each ${step_ms} ms, ${name}: ${tokens_per_s} tokens/s`)
    }
  }
  return runs
}

function figuresOf(step_ms: number, streams: number, runs: readonly StreamRun[]): StreamFigures {
  const of = (lane: string, figure: 'tokens_per_s' | 'workerd_cpu_us_per_token' | 'tokens_per_event') =>
    median(runs.filter((run) => run.lane === lane).map((run) => run[figure]))
  const [tokens_per_s, bare_tokens_per_s, direct_tokens_per_s] = (['switchyard', 'bare', 'direct'] as const).map(
    (lane) => of(lane, 'tokens_per_s'),
  ) as [number, number, number]
  return {
    ...{ step_ms, streams, tokens_per_s, bare_tokens_per_s, direct_tokens_per_s },
    workerd_cpu_us_per_token: of('switchyard', 'workerd_cpu_us_per_token'),
    bare_cpu_us_per_token: of('bare', 'workerd_cpu_us_per_token'),
    tokens_per_event: of('switchyard', 'tokens_per_event'),
    ratio_to_direct: round(tokens_per_s / direct_tokens_per_s),
    ratio_to_bare: round(tokens_per_s / bare_tokens_per_s),
  }
}
