/**
 * The programs of the policy benchmarks on a simulated engine that computes on a CPU: what a resident context counts for must
 * keep contexts where memory is short, and must not keep short programs waiting where it is not.
 */
import { describe, expect, it } from 'vitest'
import { EMULATED_8B } from '../../gpu-agent/engine/backends/emulated/profiles/emulated-8b.ts'
import type { PolicyName } from '../../gpu-agent/engine/order/policies/index.ts'
import { programLevelsOnCpu } from '../../gpu-agent/engine/order/policies/levels/levels.ts'
import { simulate } from '../../simulator/simulation.ts'
import type { SimulationConfig } from '../../simulator/simulation-types.ts'
import { mean } from '../../simulator/statistics.ts'
import { resolvePrefixes } from '../../simulator/workloads/resolve-prefixes.ts'
import { BLOCK_TOKENS, SEATS } from '../testbed/vllm-server.ts'
import { NOMINAL_OUTPUT_US, NOMINAL_PROMPT_US, nominalWorkUs } from './vllm/nominal-work.ts'
import { VLLM_SETTINGS } from './vllm/settings.ts'
import { drawShapes, type Labels, type ProgramShape, textTokens, tokensOf, withArrivals } from './workload.ts'

const BASE_US = 30_000
/** vLLM as `bench:vllm` plays it. */
const CPU = {
  ...{ ...EMULATED_8B, name: 'cpu', provenance: 'lab/bench/vllm/nominal-work.ts', per_kv_token_ns: 0 },
  ...{ base_us: BASE_US, per_sequence_us: NOMINAL_OUTPUT_US - BASE_US / SEATS },
  per_prefill_token_us: NOMINAL_PROMPT_US,
  ...{
    seats: SEATS,
    slot_tokens_max: 2048,
    block_tokens: BLOCK_TOKENS,
    max_step_tokens: 2048,
    prefill_chunk_tokens: 2048,
  },
}
/** Of the model in 1 GiB. */
const KV_TOKENS = 23_000
const TOOL_S = 0.1

type Workload = 'chats' | 'react' | 'trees'

function programOf({ id, kind, calls }: ProgramShape) {
  const texts = textTokens(calls)
  const textOf = (call: number | undefined) => (call === undefined ? 0 : (texts[call] ?? 0))
  return {
    ...{ id, workload: kind },
    calls: resolvePrefixes(
      calls.map(({ parents, output_tokens }, index) => ({
        ...{ thread: 0, parents, output_tokens, tool: null, tool_seconds: TOOL_S },
        prompt_tokens: textOf(index) - output_tokens,
        shared_prefix_tokens: textOf(parents[0]),
      })),
    ),
  }
}

/** Program token latencies in ms, by kind. */
function play(workload: Workload, programs: number, seed: number, policy: PolicyName, labels: Labels = 'kind') {
  const setting = VLLM_SETTINGS[workload]
  const shapes = drawShapes(seed, programs, setting)
  const arrived = withArrivals(shapes, seed, nominalWorkUs(tokensOf(shapes)) / 1e6 / setting.load)
  const capacity_blocks = Math.floor((setting.kv_tokens ?? KV_TOKENS) / CPU.block_tokens)
  const config: SimulationConfig = {
    ...{ programs: arrived.map(programOf), arrivals_us: arrived.map(({ arrival_s }) => Math.round(arrival_s * 1e6)) },
    ...{ profile: { ...CPU, capacity_blocks }, policy, tuning: { levels: programLevelsOnCpu('modelled') } },
    ...{ reading: 'modelled', balancer: 'cost-aware' },
    engine: {
      ...{ max_seqs: SEATS, prefix_cache: true, chunked_prefill: true, steps_per_decision: 1 },
      ...{ swap_tokens: null, decision_us: 20 },
    },
    ...{ regions: [{ name: 'here', engines: 1 }], rtt_us: new Map(), report_us: 250_000 },
    ...{ tenants: [{ name: 'one', weight: 1, share: 1 }], seed, labelled: labels === 'kind', jump: true },
  }
  const latencies = simulate(config).programs.map(({ workload: kind, response_us, output_tokens }) => {
    return { kind, ms: response_us / output_tokens / 1e3 }
  })
  return Map.groupBy(latencies, ({ kind }) => kind)
}

type Latencies = ReturnType<typeof play>

const meanOf = (played: Latencies): number => mean([...played.values()].flat().map(({ ms }) => ms))

/** Of the kind for which it is the most. */
function worstKind(played: Latencies, over: Latencies): number {
  const kinds = [...played].map(([kind, its]) => {
    return mean(its.map(({ ms }) => ms)) / mean((over.get(kind) ?? []).map(({ ms }) => ms))
  })
  return Math.max(...kinds)
}

const overFcfs = (workload: Workload, programs: number, seed: number): number =>
  meanOf(play(workload, programs, seed, 'plas')) / meanOf(play(workload, programs, seed, 'fcfs'))

describe('plas on an engine that computes on a CPU', () => {
  it.each([1, 2, 3])('serves short chats before long ones whose context is resident: seed %i', (seed) => {
    expect(overFcfs('chats', 250, seed)).toBeLessThan(0.5)
  })

  it.each([1, 2, 3])('keeps contexts that memory has room for a third of: seed %i', (seed) => {
    expect(overFcfs('react', 40, seed)).toBeLessThan(0.2)
    expect(overFcfs('trees', 36, seed)).toBeLessThan(0.3)
  })
})

describe('learned on such an engine', () => {
  it.each([1, 2, 3])('tells kinds of programs apart by their labels, and slows none of them down: seed %i', (seed) => {
    const fcfs = play('chats', 250, seed, 'fcfs')
    const plas = play('chats', 250, seed, 'plas')
    const learned = play('chats', 250, seed, 'learned')
    expect(meanOf(learned) / meanOf(plas)).toBeLessThan(0.9)
    expect(worstKind(learned, fcfs)).toBeLessThan(1.1)
    // With one label for all it cannot.
    expect(meanOf(play('chats', 250, seed, 'learned', 'workload')) / meanOf(learned)).toBeGreaterThan(1.1)
  })
})
