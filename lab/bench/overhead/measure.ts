/** One load with what it cost: latencies, CPU per call of every process, and how long records took to settle after it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { quantile, summary } from '../../../simulator/statistics.ts'
import type { LoadResult } from './load.ts'
import { cpuSeconds } from './proc.ts'
import type { BenchSystem } from './system.ts'

/** The system is at rest when its processes use less than this share of a core over REST_WINDOW_MS. */
const REST_SHARE = 0.06
const REST_WINDOW_MS = 400
const REST_LIMIT_MS = 60_000

export interface Measured {
  calls: number
  calls_per_s: number
  events_per_s: number
  p50_ms: number
  p95_ms: number
  p99_ms: number
  ttft_p50_ms: number
  /** Between a token and the one before it, as the client sees them: those of one event come together. */
  itl_p50_ms: number
  itl_p99_ms: number
  /** How late the generator sent its calls; 0 for a closed load. */
  late_p99_ms: number
  /** Microseconds of CPU per call while the load lasted, warm-up included. */
  generator_cpu_us: number
  workerd_cpu_us: number
  agent_cpu_us: number
  /** From the last answer until control plane and agent are at rest: records that were still on their way. */
  rest_s: number
}

/** `pid`: the process or processes between the generator and the agent; null: none. */
export async function measured(
  system: BenchSystem,
  pid: number | readonly number[] | null,
  load: () => Promise<LoadResult>,
  output_tokens: number,
): Promise<{ measured: Measured; result: LoadResult; cpu_us_of: number[] }> {
  const between = pid === null ? [] : [pid].flat()
  const cpu = (): number[] => [process.pid, system.agent.pid, ...between].map(cpuSeconds)
  const before = cpu()
  const result = await load()
  const used = cpu().map((seconds, index) => ((seconds - (before[index] ?? 0)) / result.sent) * 1e6)
  const [generator_cpu_us = 0, agent_cpu_us = 0, ...cpu_us_of] = used.map(Math.round)
  const workerd_cpu_us = cpu_us_of.reduce((sum, us) => sum + us, 0)
  const rest_s = await rest(system)
  const { p50, p95, p99 } = summary(result.latencies_ms)
  return {
    ...{ result, cpu_us_of },
    measured: {
      calls: result.calls,
      calls_per_s: round(result.calls_per_s, 1),
      events_per_s: round(result.events_per_s, 0),
      p50_ms: round(p50),
      p95_ms: round(p95),
      p99_ms: round(p99),
      ttft_p50_ms: round(quantile(result.ttft_ms, 0.5)),
      itl_p50_ms: round(itl(result, output_tokens, 0.5)),
      itl_p99_ms: round(itl(result, output_tokens, 0.99)),
      late_p99_ms: result.late_ms.length === 0 ? 0 : round(quantile(result.late_ms, 0.99)),
      ...{ generator_cpu_us, workerd_cpu_us, agent_cpu_us, rest_s },
    },
  }
}

function itl({ calls, gaps_ms }: LoadResult, output_tokens: number, share: number): number {
  const together = Math.max(0, calls * (output_tokens - 1) - gaps_ms.length)
  const all = [...gaps_ms, ...Array.from({ length: together }, () => 0)]
  return all.length === 0 ? 0 : quantile(all, share)
}

/** Seconds until nothing is left to do. What one load left behind must not be measured with the next. */
export async function rest(system: BenchSystem): Promise<number> {
  const started_ms = performance.now()
  const pids = [...system.workerd_pids, system.agent.pid]
  const used = (): number => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0)
  for (;;) {
    const window_ms = performance.now()
    const before_s = used()
    await sleep(REST_WINDOW_MS)
    const elapsed_ms = window_ms - started_ms
    if (((used() - before_s) * 1000) / REST_WINDOW_MS < REST_SHARE) return round(elapsed_ms / 1000)
    if (elapsed_ms > REST_LIMIT_MS) throw new Error(`the system was not at rest after ${REST_LIMIT_MS} ms`)
  }
}

export function round(value: number, digits = 2): number {
  return Number(value.toFixed(digits))
}

export function median(values: readonly number[]): number {
  return round(quantile(values, 0.5))
}
