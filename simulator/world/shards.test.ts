/** Pools in shards on the virtual clock: the same programs over one shard and over several. */
import { expect, it } from 'vitest'
import { TINY } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { arrivalTimesUs } from '../arrivals.ts'
import { type SimulationConfig, type SimulationResult, simulate } from '../simulation.ts'
import type { WorkloadProgram } from '../workloads/program.ts'

const ENGINES = 8
const PROGRAMS = 200

/** Chains whose prompts grow with each call: a program that leaves its engine has its prompt computed again. */
function programs(): WorkloadProgram[] {
  return Array.from({ length: PROGRAMS }, (_, index) => ({
    id: `${index}`,
    workload: 'chain',
    calls: Array.from({ length: 4 + (index % 3) }, (_, at) => ({
      ...{ thread: 0, parents: at === 0 ? [] : [at - 1], prompt_tokens: 96 * (at + 1), shared_prefix_tokens: 0 },
      ...{ output_tokens: 16, tool: null, tool_seconds: null },
    })),
  }))
}

function played(shards: number | undefined): SimulationResult {
  const all = programs()
  const config: SimulationConfig = {
    programs: all,
    arrivals_us: arrivalTimesUs({ kind: 'poisson', rate: 20 }, all, 1),
    profile: { ...TINY, slots: 256, capacity_blocks: 100_000 },
    engine: {
      ...{ max_seqs: 16, prefix_cache: true, chunked_prefill: true, steps_per_decision: 1 },
      ...{ swap_tokens: null, decision_us: 0 },
    },
    ...{ policy: 'plas', tuning: { levels: {} }, reading: 'modelled', balancer: 'cost-aware' },
    ...{ regions: [{ name: 'r', engines: ENGINES }], rtt_us: new Map(), report_us: 50_000 },
    ...{ tenants: [{ name: 't', weight: 1, share: 1 }], seed: 1, labelled: false, jump: true },
    ...(shards === undefined ? {} : { shards }),
  }
  return simulate(config)
}

it('one shard is the pool, and with several every program ends with its KV found again', () => {
  const one = played(1)
  expect(played(undefined)).toEqual(one)
  const share = ({ cached_tokens, prompt_tokens }: SimulationResult) => cached_tokens / prompt_tokens
  for (const shards of [3, 4, ENGINES]) {
    const several = played(shards)
    expect(several.programs.every(({ response_us }) => response_us > 0)).toBe(true)
    expect(several.calls).toBe(one.calls)
    expect(share(several)).toBeGreaterThan(share(one) - 0.02)
  }
})
