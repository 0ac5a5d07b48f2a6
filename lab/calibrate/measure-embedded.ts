/** The embedded engine in this process, driven and timed step by step. */
import type { LlamaRuntime } from '../../gpu-agent/engine/backends/llama/llama-runtime.ts'
import type { Backend, SwapCosts } from '../../gpu-agent/engine/types.ts'
import { mean } from '../../simulator/statistics.ts'
import { startRealEngine } from '../bench/real-engine.ts'
import { driveEngine, movesKv, type Point, playCalls } from './drive-engine.ts'
import { type Span, spanOfStep } from './span.ts'
import type { TrialCall } from './trial-run.ts'
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
  /** Sent at once when the points are done. */
  trial?: readonly TrialCall[]
}

export interface EmbeddedMeasurement {
  spans: Span[]
  /** Null: it cannot swap. */
  swap: SwapCosts | null
  /** What the driver takes from one step to the next: mean. */
  driver_us: number
  /** Of the trial's calls, from the first to the last; null without one. */
  trial_s: number | null
}

const clock = () => performance.now() * 1000

/** Rejects if the engine breaks. */
export async function measureEmbedded(plan: EmbeddedPlan): Promise<EmbeddedMeasurement> {
  const { runtime, threads, seats, slots, context_tokens, points, vocabulary, onPoint, trial } = plan
  const spans: Span[] = []
  const pauses_us: number[] = []
  let swap: SwapCosts | null = null
  let trial_s: number | null = null
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
    if (trial !== undefined) {
      is_trial = true
      const started_us = clock()
      await Promise.race([playCalls(driver, trial, vocabulary), broken.promise])
      trial_s = (clock() - started_us) / 1e6
    }
  } finally {
    await driver.stop()
  }
  return { spans, swap, driver_us: mean(pauses_us), trial_s }
}
