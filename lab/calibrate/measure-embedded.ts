/** The embedded engine in this process, driven and timed step by step. */
import type { LlamaRuntime } from '../../gpu-agent/engine/backends/llama/llama-runtime.ts'
import type { Backend, SwapCosts } from '../../gpu-agent/engine/types.ts'
import { mean } from '../../simulator/statistics.ts'
import { startRealEngine } from '../bench/real-engine.ts'
import { driveEngine, movesKv, type Point, playCalls } from './drive-engine.ts'
import { type Span, spanOfStep } from './span.ts'
import type { Trial, TrialCall } from './trial-run.ts'
import { watched } from './watch-backend.ts'

export interface EmbeddedPlan {
  runtime: LlamaRuntime
  threads: number
  /** Default: the benchmarks'. */
  seats?: number
  slots: number
  context_tokens: number
  points: readonly Point[]
  /** Lowest token and one past the highest. */
  vocabulary: readonly [number, number]
  onPoint?: (done: number) => void
  /** The calls of each are sent at once when the points are done. */
  trials?: readonly (readonly TrialCall[])[]
}

export interface EmbeddedMeasurement {
  spans: Span[]
  /** Null: it cannot swap. */
  swap: SwapCosts | null
  /** What the driver takes from one step to the next: mean. */
  driver_us: number
  trials: Trial[]
}

const clock = () => performance.now() * 1000

/** Rejects if the engine breaks. */
export async function measureEmbedded(plan: EmbeddedPlan): Promise<EmbeddedMeasurement> {
  const { runtime, threads, seats, slots, context_tokens, points, vocabulary, onPoint, trials = [] } = plan
  const spans: Span[] = []
  const pauses_us: number[] = []
  let swap: SwapCosts | null = null
  const played: Trial[] = []
  let is_trial = false
  const broken = Promise.withResolvers<never>()
  const { driver } = await startRealEngine({
    ...{ runtime, policy: 'fcfs', reading: 'wall', threads, slots, context_tokens },
    ...(seats === undefined ? {} : { seats }),
    onBroken: broken.reject,
    observe: (backend: Backend) => {
      swap = backend.swapCosts()
      return watched(backend, clock, {
        onStep: (step, duration_us) => {
          if (!movesKv(step) && !is_trial) spans.push(spanOfStep(step, duration_us))
        },
        onPause: (duration_us) => {
          if (!is_trial) pauses_us.push(duration_us)
        },
      })
    },
  })
  try {
    const driven = driveEngine(driver, { points, vocabulary, ...(onPoint === undefined ? {} : { onPoint }) })
    await Promise.race([driven, broken.promise])
    is_trial = true
    for (const [number, calls] of trials.entries()) {
      const started_us = clock()
      await Promise.race([playCalls(driver, calls, vocabulary, number), broken.promise])
      played.push({ calls, real_s: (clock() - started_us) / 1e6 })
    }
  } finally {
    await driver.stop()
  }
  return { spans, swap, driver_us: mean(pauses_us), trials: played }
}
