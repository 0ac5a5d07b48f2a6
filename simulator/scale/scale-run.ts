/**
 * How far the balancer and the process table carry: chats with people who think between turns, a fixed number of live ones for
 * each engine, on ever more engines. If nothing is shared that should not be, throughput grows with the engines.
 *
 * A chat begins with up to PROMPT_TOKENS of prompt, and has more turns than the time allows, so that all stay live. Sizes are
 * about those of ShareGPT (Autellix Table 1: 256 new and 277 generated tokens a call).
 */
import { PROFILES } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import type { BalancerName } from '../../src/core/pool/balancers/index.ts'
import { STATUS_LOAD_INTERVAL_MS } from '../../src/protocol/link.ts'
import { exponential, seededRandom } from '../random.ts'
import { type SimulationConfig, simulate } from '../simulation.ts'
import type { WorkloadProgram } from '../workloads/program.ts'

export const PROGRAMS_PER_ENGINE = 100
export const SIMULATED_S = 60
/** Programs start evenly over the first seconds; what ends before the last half is not counted. */
const RAMP_S = 15
const COUNTED_FROM_S = 30
const THINK_S = 8
const TURNS = 16
const PROMPT_TOKENS = 512
const OUTPUT_TOKENS = 554
const MAX_SEQS = 64
/** A call that takes no longer for each of its tokens has met the objective. */
export const SLO_MS_PER_TOKEN = 40
/** Distinct chats; programs repeat them with other tokens, so that a small size is given the same mix as a large one. */
const CHATS = PROGRAMS_PER_ENGINE
const REPORT_US = STATUS_LOAD_INTERVAL_MS * 1000
/** Between any two regions. */
const RTT_US = 80_000

export interface ScalePoint {
  balancer: BalancerName
  engines: number
  regions: number
  /** Of locality. */
  short_prompt_tokens: number
  /** Of the chats and of the programs' places. */
  seed: number
}

export interface ScaleResult extends ScalePoint {
  programs: number
  simulated_s: number
  calls: number
  tokens_per_s: number
  tokens_per_s_at_slo: number
  tokens_per_s_at_slo_per_engine: number
  sim_wall_s: number
  rss_mib: number
}

export function runScale(point: ScalePoint): ScaleResult {
  const { engines } = point
  const counted = { calls: 0, tokens: 0, at_slo: 0 }
  const onCall: NonNullable<SimulationConfig['onCall']> = ({ ended_us, measured }) => {
    if (ended_us < COUNTED_FROM_S * 1e6) return
    const { output_tokens, duration_us } = measured
    counted.calls += 1
    counted.tokens += output_tokens
    if (duration_us <= SLO_MS_PER_TOKEN * 1000 * output_tokens) counted.at_slo += output_tokens
  }
  const started_ms = performance.now()
  simulate({ ...configOf(point), onCall })
  const span_s = SIMULATED_S - COUNTED_FROM_S
  return {
    ...{ ...point, programs: engines * PROGRAMS_PER_ENGINE, simulated_s: SIMULATED_S, calls: counted.calls },
    tokens_per_s: counted.tokens / span_s,
    tokens_per_s_at_slo: counted.at_slo / span_s,
    tokens_per_s_at_slo_per_engine: counted.at_slo / span_s / engines,
    sim_wall_s: Math.round(performance.now() - started_ms) / 1000,
    rss_mib: Math.round(process.memoryUsage.rss() / 2 ** 20),
  }
}

function configOf({ balancer, engines, regions, short_prompt_tokens, seed }: ScalePoint): SimulationConfig {
  const programs_count = engines * PROGRAMS_PER_ENGINE
  const random = seededRandom(seed)
  const chats = Array.from({ length: Math.min(CHATS, programs_count) }, (_, index) => chat(index, random))
  const names = Array.from({ length: regions }, (_, index) => `r${index}`)
  return {
    programs: Array.from({ length: programs_count }, (_, index) => chats[index % chats.length] as WorkloadProgram),
    arrivals_us: Array.from({ length: programs_count }, (_, i) =>
      Math.round(((i + 1) * RAMP_S * 1e6) / programs_count),
    ),
    profile: PROFILES['a100-8b'],
    engine: {
      ...{ max_seqs: MAX_SEQS, prefix_cache: true, chunked_prefill: true, steps_per_decision: 1 },
      ...{ swap_tokens: null, decision_us: 20 },
    },
    policy: 'plas',
    tuning: { levels: {} },
    reading: 'wall',
    ...{ balancer, short_prompt_tokens },
    regions: names.map((name, index) => ({ name, engines: share(engines, regions, index) })),
    rtt_us: new Map(names.flatMap((a) => names.map((b) => [`${a}-${b}`, a === b ? 0 : RTT_US]))),
    report_us: REPORT_US,
    tenants: [{ name: 'tenant', weight: 1, share: 1 }],
    ...{ seed, labelled: true, jump: true },
    until_us: SIMULATED_S * 1e6,
  }
}

function share(engines: number, regions: number, index: number): number {
  return Math.floor(((index + 1) * engines) / regions) - Math.floor((index * engines) / regions)
}

function chat(index: number, random: () => number): WorkloadProgram {
  const between = (max: number) => 1 + Math.floor(random() * max)
  const calls: WorkloadProgram['calls'][number][] = []
  for (let turn = 0; turn < TURNS; turn++) {
    const before = calls.at(-1)
    const shared = before === undefined ? 0 : before.prompt_tokens + before.output_tokens
    calls.push({
      ...{ thread: 0, parents: turn === 0 ? [] : [turn - 1], prefix_of: turn === 0 ? null : turn - 1 },
      ...{ prompt_tokens: shared + between(PROMPT_TOKENS), shared_prefix_tokens: shared },
      output_tokens: between(OUTPUT_TOKENS),
      ...{ tool: 'user', tool_seconds: THINK_S * exponential(random) },
    })
  }
  return { id: `chat-${index}`, workload: 'chat', calls }
}
