/** Random small workloads and engines for property tests: DAGs, tools, shared prefixes; sizes at which every limit is reached. */
import fc from 'fast-check'
import { TINY } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { BALANCER_NAMES } from '../../src/core/pool/balancers/index.ts'
import { POLICY_NAMES } from '../policies/index.ts'
import type { SimulationConfig } from '../simulation.ts'
import type { WorkloadCall, WorkloadProgram } from '../workloads/program.ts'

const callShape = fc.record({
  /** Each earlier call is a parent if its bit is set. */
  parents: fc.nat(255),
  new_tokens: fc.integer({ min: 1, max: 60 }),
  output_tokens: fc.integer({ min: 1, max: 24 }),
  tool_seconds: fc.option(fc.constantFrom(0, 0.001, 0.02)),
})

const programShape = fc.record({
  calls: fc.array(callShape, { minLength: 1, maxLength: 8 }),
  app_prefix_tokens: fc.constantFrom(0, 20, 40),
  app: fc.constantFrom('chat', 'tree'),
  client: fc.constantFrom({}, {}, { label: null }, { label: 'other', tenant: 't0' }, { tells_end: false }),
  arrival_us: fc.nat(60_000),
})

export const PROGRAMS = fc.array(programShape, { minLength: 1, maxLength: 8 })
type ProgramShape = typeof PROGRAMS extends fc.Arbitrary<(infer S)[]> ? S : never

export const WORLDS = fc.record({
  policy: fc.constantFrom(...POLICY_NAMES),
  balancer: fc.constantFrom(...BALANCER_NAMES),
  reading: fc.constantFrom('wall' as const, 'modelled' as const),
  engines: fc.constantFrom([1], [3], [1, 2]),
  rtt_us: fc.constantFrom(0, 1, 7000),
  report_us: fc.constantFrom(1, 5000, 1_000_000),
  record_us: fc.constantFrom(0, 0, 1, 40_000),
  tenants: fc.integer({ min: 1, max: 3 }),
  max_seqs: fc.integer({ min: 1, max: 6 }),
  capacity_blocks: fc.integer({ min: 40, max: 90 }),
  prefix_cache: fc.boolean(),
  chunked_prefill: fc.boolean(),
  steps_per_decision: fc.constantFrom(1, 1, 4),
  standby: fc.constantFrom('in_order' as const, 'resident_first' as const),
  hold_kv: fc.boolean(),
  swap_tokens: fc.constantFrom(null, 100, 100_000),
  decision_us: fc.constantFrom(0, 13),
  seed: fc.nat(1000),
})
type World = typeof WORLDS extends fc.Arbitrary<infer W> ? W : never

/** Chains share with their last parent; so does every call that has one. */
function programOf(shape: ProgramShape, index: number): WorkloadProgram {
  const calls: WorkloadCall[] = []
  for (const [at, { parents: bits, new_tokens, output_tokens, tool_seconds }] of shape.calls.entries()) {
    const parents = calls.flatMap((_, earlier) => ((bits >> earlier) & 1 ? [earlier] : []))
    const source = parents.at(-1) ?? null
    const earlier = source === null ? null : (calls[source] as WorkloadCall)
    const shared = earlier === null ? 0 : earlier.prompt_tokens + earlier.output_tokens
    calls.push({
      thread: source === null ? at : (earlier?.thread ?? 0),
      ...{ parents, output_tokens, tool_seconds, tool: tool_seconds === null ? null : 'tool' },
      prompt_tokens: shared + new_tokens + (source === null ? shape.app_prefix_tokens : 0),
      ...{ shared_prefix_tokens: shared, prefix_of: source },
    })
  }
  const { app, app_prefix_tokens, client } = shape
  return { id: `p${index}`, workload: app, app, app_prefix_tokens, client, calls }
}

export function configOf(shapes: readonly ProgramShape[], world: World): SimulationConfig {
  const { policy, balancer, reading, engines, report_us, record_us, capacity_blocks, seed, tenants, ...engine } = world
  const { max_seqs, prefix_cache, chunked_prefill, steps_per_decision, standby, hold_kv, swap_tokens, decision_us } =
    engine
  return {
    programs: shapes.map(programOf),
    arrivals_us: shapes.map(({ arrival_us }) => arrival_us),
    profile: { ...TINY, block_tokens: 16, capacity_blocks, slots: 8, slot_tokens_max: 40 * 16 },
    engine: { max_seqs, prefix_cache, chunked_prefill, steps_per_decision, standby, hold_kv, swap_tokens, decision_us },
    tuning: { levels: { first_quantum_us: 4000, levels: 4 }, rr_quantum_us: 2500 },
    ...{ policy, balancer, reading, report_us, record_us, seed },
    regions: engines.map((count, index) => ({ name: `r${index}`, engines: count })),
    rtt_us: new Map([['r0-r1', world.rtt_us]]),
    tenants: Array.from({ length: tenants }, (_, index) => ({ name: `t${index}`, weight: 1 + index, share: 1 })),
    labelled: true,
    jump: true,
  }
}
