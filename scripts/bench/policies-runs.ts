/**
 * One run of the policy benchmark: a variant (a policy, with or without held seats) plays one workload on a fresh engine.
 * And what the engine can serve, measured once, from which the arrival rate follows.
 */
import type { LlamaRuntime } from '../../gpu-agent/engine/llama/llama-runtime.ts'
import { POLICY_NAMES, type PolicyName } from '../../gpu-agent/engine/policies/index.ts'
import type { ServiceReading } from '../../src/core/service.ts'
import { type Liveness, type Played, play } from './play.ts'
import type { Capacity, Run } from './policies-file.ts'
import { type RealEngine, SEATS, startRealEngine } from './real-engine.ts'
import { mean, summary } from './statistics.ts'
import { drawShapes, PROGRAM_KINDS, type ProgramKind, tokensOf, withArrivals } from './workload.ts'

const HOLD_SUFFIX = '+hold'
/** Above every gap of the workload, below a step of the engine. */
export const SEAT_HOLD_MS = 20
/** Ids of ordinary text: the vocabulary begins with control tokens. */
const VOCABULARY = [1000, 40_000] as const
const CAPACITY_DECODE_TOKENS = 128

export const VARIANTS: readonly string[] = POLICY_NAMES.flatMap((name) => [name, `${name}${HOLD_SUFFIX}`])

export interface Bench {
  runtime: LlamaRuntime
  reading: ServiceReading
  threads: number
  programs: number
  load: number
}

export async function measureCapacity(bench: Bench): Promise<Capacity> {
  const engine = await start(bench, 'fcfs', 0)
  try {
    const ended = Array.from(
      { length: SEATS },
      (_, index) =>
        new Promise<void>((resolve) => {
          const call = {
            ...{ lease: `${index}`, tenant: 'bench', tenant_weight: 1, program: `${index}`, thread: '0' },
            ...{ attained_service_us: 0, critical_path_us: 0, program_wait_us: 0, cache_salt: `${index}` },
            ...{ prompt: [VOCABULARY[0] + index], max_output_tokens: CAPACITY_DECODE_TOKENS },
            sampling: { temperature: 0, top_p: 1, seed: 1 },
          }
          engine.driver.submit(call, { token: () => undefined, ended: () => resolve() })
        }),
    )
    await Promise.all(ended)
    const decode_tokens_per_s = (SEATS * CAPACITY_DECODE_TOKENS) / engine.busy_s()
    return { decode_tokens_per_s, prefill_tokens_per_s: engine.prefill_tokens_per_s }
  } finally {
    await engine.driver.stop()
  }
}

/** Seconds in which the engine, all seats taken, does the work of this seed's programs; over which they arrive. */
export function spanOf(seed: number, { programs, load }: Pick<Bench, 'programs' | 'load'>, capacity: Capacity) {
  const tokens = tokensOf(drawShapes(seed, programs))
  const work_s =
    tokens.output_tokens / capacity.decode_tokens_per_s + tokens.prompt_tokens / capacity.prefill_tokens_per_s
  return { seed, ...tokens, work_s, arrival_span_s: work_s / load }
}

export async function runOnce(
  bench: Bench,
  capacity: Capacity,
  variant: string,
  seed: number,
  onProgram: (ended: number) => void,
): Promise<Run> {
  const hold = variant.endsWith(HOLD_SUFFIX)
  const policy = (hold ? variant.slice(0, -HOLD_SUFFIX.length) : variant) as PolicyName
  const { arrival_span_s } = spanOf(seed, bench, capacity)
  const workload = withArrivals(drawShapes(seed, bench.programs), seed, arrival_span_s)
  const engine = await start(bench, policy, hold ? SEAT_HOLD_MS : 0)
  try {
    const played = await play(engine.driver, workload, { reading: bench.reading, vocabulary: VOCABULARY, onProgram })
    return runOf(variant, seed, played, engine, arrival_span_s)
  } finally {
    await engine.driver.stop()
  }
}

function start({ runtime, reading, threads }: Bench, policy: PolicyName, seat_hold_ms: number): Promise<RealEngine> {
  return startRealEngine({
    ...{ runtime, policy, reading, threads, seat_hold_ms },
    onBroken: (error) => {
      throw error
    },
  })
}

function runOf(variant: string, seed: number, played: Played, engine: RealEngine, span_s: number): Run {
  const perToken = (kind?: ProgramKind) =>
    played.programs
      .filter((program) => kind === undefined || program.kind === kind)
      .map(({ response_s, output_tokens }) => (response_s * 1000) / output_tokens)
  const busy_s = engine.busy_s()
  return {
    policy: variant,
    seed,
    program_token_latency_ms: summary(perToken()),
    program_token_latency_ms_by_kind: Object.fromEntries(PROGRAM_KINDS.map((kind) => [kind, mean(perToken(kind))])),
    program_latency_s: summary(played.programs.map(({ response_s }) => response_s)),
    makespan_s: played.makespan_s,
    busy_s,
    offered_load: busy_s / span_s,
    live_programs: liveness(played.liveness, span_s),
    preemptions: played.preemptions,
    swapped_tokens: played.swapped_tokens,
    cached_prompt_share: played.cached_tokens / played.prompt_tokens,
    preemption_cost_us: engine.seat_hold?.preemption_cost_us ?? null,
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
