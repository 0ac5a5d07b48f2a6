/**
 * One run of the policy benchmark: a policy plays one workload on a fresh engine. And what the engine can serve, measured once
 * for each workload, from which the arrival rate follows.
 */
import type { LlamaRuntime } from '../../gpu-agent/engine/backends/llama/llama-runtime.ts'
import type { PolicyName } from '../../gpu-agent/engine/order/policies/index.ts'
import type { ServiceReading } from '../../src/core/call/service.ts'
import { knownPrograms } from './known-programs.ts'
import { latenciesOf } from './latencies.ts'
import { type Liveness, type Played, play } from './play.ts'
import type { Capacity, PlayedWorkload, Run } from './policies-file.ts'
import type { PoliciesSetting } from './policies-settings.ts'
import { type RealEngine, startRealEngine } from './real-engine.ts'
import {
  CAPACITY_SEED,
  capacityShapes,
  drawShapes,
  type Labels,
  labelOf,
  outputTokens,
  tokensOf,
  withArrivals,
} from './workload.ts'

/** Ids of ordinary text: the vocabulary begins with control tokens. */
const VOCABULARY = [1000, 40_000] as const
/** Measured once on the small model, 4 seats, one thread; only their ratio matters. */
const NOMINAL_OUTPUT_US = 8500
const NOMINAL_PROMPT_US = 5200

export interface Bench {
  runtime: LlamaRuntime
  reading: ServiceReading
  threads: number
  labels: Labels
}

/**
 * How fast the engine does the workload's own mix with every prefix cached: a closed loop of a few live programs, the longest
 * first, so that seats stand empty at the end for short programs only.
 */
export async function measureCapacity(bench: Bench, setting: PoliciesSetting): Promise<Capacity> {
  const engine = await start(bench, setting, 'fcfs')
  const { capacity_programs: programs, capacity_live_programs: live_max } = setting
  const shapes = capacityShapes(setting).sort((a, b) => outputTokens(b) - outputTokens(a))
  const work_us = nominalWorkUs(shapes)
  try {
    const options = { reading: bench.reading, vocabulary: VOCABULARY, live_max }
    const { makespan_s } = await play(engine.driver, withArrivals(shapes, CAPACITY_SEED, 0), options)
    const { prefill_tokens_per_s } = engine
    // While every live program's tool runs, the engine stands still: that is part of how fast it serves few programs.
    const busy_s = setting.kv_tokens === null ? engine.busy_s() : makespan_s
    return { programs, busy_s, prefill_tokens_per_s, work_us_per_s: work_us / busy_s }
  } finally {
    await engine.driver.stop()
  }
}

/** How long the engine needs for this seed's programs at its capacity; over which time they arrive. */
export function spanOf(seed: number, setting: PoliciesSetting, capacity: Capacity) {
  const shapes = drawShapes(seed, setting.programs, setting)
  const work_s = nominalWorkUs(shapes) / capacity.work_us_per_s
  const { workload, load } = setting
  return { workload, seed, ...tokensOf(shapes), work_s, arrival_span_s: work_s / load }
}

/** Seeds draw other shares of prompt and output tokens, which cost unlike: their ratio makes seeds comparable. */
function nominalWorkUs(shapes: Parameters<typeof tokensOf>[0]): number {
  const { output_tokens, prompt_tokens } = tokensOf(shapes)
  return output_tokens * NOMINAL_OUTPUT_US + prompt_tokens * NOMINAL_PROMPT_US
}

export async function runOnce(
  bench: Bench,
  { setting, capacity }: PlayedWorkload,
  policy: PolicyName,
  seed: number,
  onProgram: (ended: number) => void,
): Promise<Run> {
  const { arrival_span_s } = spanOf(seed, setting, capacity)
  const workload = withArrivals(drawShapes(seed, setting.programs, setting), seed, arrival_span_s)
  const engine = await start(bench, setting, policy)
  try {
    const played = await play(engine.driver, workload, {
      ...{ reading: bench.reading, vocabulary: VOCABULARY, onProgram },
      classOf: ({ kind }) => labelOf(bench.labels, setting.workload, kind),
    })
    return { workload: setting.workload, name: policy, seed, ...figuresOf(setting, played, engine, arrival_span_s) }
  } finally {
    await engine.driver.stop()
  }
}

function start({ runtime, reading, threads, labels }: Bench, setting: PoliciesSetting, policy: PolicyName) {
  const { slots, context_tokens, kv_tokens } = setting
  return startRealEngine({
    ...{ runtime, policy, reading, threads, slots, context_tokens },
    ...(kv_tokens === null ? {} : { kv_tokens }),
    classes: knownPrograms(setting, labels),
    onBroken: (error) => {
      throw error
    },
  })
}

function figuresOf(
  { workload }: PoliciesSetting,
  played: Played,
  engine: RealEngine,
  span_s: number,
): Omit<Run, 'workload' | 'name' | 'seed'> {
  const busy_s = engine.busy_s()
  return {
    ...latenciesOf(workload, played),
    busy_s,
    offered_load: busy_s / span_s,
    live_programs: liveness(played.liveness, span_s),
    preemptions: played.preemptions,
    swapped_out_tokens: played.swapped_out_tokens,
  }
}

/** Means over the thirds of the time in which programs arrive: in overload each is larger than the one before. */
function liveness(changes: readonly Liveness[], span_s: number): Run['live_programs'] {
  const meanBetween = (from_s: number, to_s: number) => {
    let area = 0
    for (const [index, { at_s, live }] of changes.entries()) {
      const until_s = changes[index + 1]?.at_s ?? Number.POSITIVE_INFINITY
      area += live * Math.max(0, Math.min(until_s, to_s) - Math.max(at_s, from_s))
    }
    return area / (to_s - from_s)
  }
  return {
    first_third: meanBetween(0, span_s / 3),
    second_third: meanBetween(span_s / 3, (2 * span_s) / 3),
    last_third: meanBetween((2 * span_s) / 3, span_s),
    max: Math.max(...changes.map(({ live }) => live)),
  }
}
