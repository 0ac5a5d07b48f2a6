/** Over random calls, tenants, policies and sizes: what must hold of every schedule. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_SERVICE_RATES, modelledServiceUs } from '../../src/core/call/service.ts'
import { TenantShares } from '../../src/core/pool/tenant-shares.ts'
import { createPolicy, POLICY_NAMES, type PolicyConfig, type PolicyName } from './order/policies/index.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import { engineCall, testConfig } from './testing/calls.ts'
import { type VirtualEvent, virtualRun } from './testing/virtual-run.ts'
import type { EngineCall } from './types.ts'

const SMALL_PLAS = { levels: 4, first_quantum_us: 3_000, quantum_ratio: 2, promotion_ratio: 8 }

interface Sizes {
  policy: PolicyName
  ordering: 'modelled' | 'wall'
  seats: number
  spare_slots: number
  capacity_blocks: number
  max_step_tokens: number
  prefill_chunk_tokens: number
  steps_per_decision: number
  preemptions_per_decision_max: number
  standby: SchedulerConfig['standby']
  swap: SchedulerConfig['swap']
  copies_prefixes: boolean
  hold_kv: boolean
}

const sizes: fc.Arbitrary<Sizes> = fc.record({
  policy: fc.constantFrom(...POLICY_NAMES),
  ordering: fc.constantFrom('modelled' as const, 'wall' as const),
  seats: fc.integer({ min: 1, max: 5 }),
  spare_slots: fc.integer({ min: 0, max: 4 }),
  capacity_blocks: fc.integer({ min: 12, max: 60 }),
  max_step_tokens: fc.integer({ min: 5, max: 80 }),
  prefill_chunk_tokens: fc.integer({ min: 1, max: 64 }),
  steps_per_decision: fc.oneof(fc.constant(1), fc.integer({ min: 2, max: 9 })),
  preemptions_per_decision_max: fc.integer({ min: 1, max: 5 }),
  standby: fc.constantFrom('in_order' as const, 'resident_first' as const),
  swap: fc.option(
    fc.record({
      costs: fc.constant({ save_us_per_token: 1, restore_us_per_token: 1, base_us: 20 }),
      recompute_us_per_token: fc.constantFrom(3, 50),
      image_tokens_max: fc.integer({ min: 0, max: 200 }),
    }),
  ),
  copies_prefixes: fc.boolean(),
  hold_kv: fc.boolean(),
})

function smallPolicy(name: PolicyName): PolicyConfig {
  if (name === 'fcfs' || name === 'fcfs-program') return { name }
  return name === 'rr' ? { name, quantum_us: 2_000 } : { name, ...SMALL_PLAS }
}

/** A fresh config, since policies and shares have state. */
function configOf(sizes: Sizes): SchedulerConfig {
  const { policy, ordering, spare_slots, ...rest } = sizes
  return testConfig({
    ...rest,
    ordering,
    policy: createPolicy(smallPolicy(policy)),
    shares: new TenantShares(),
    slots: sizes.seats + spare_slots,
    slot_tokens_max: 96,
    block_tokens: 8,
    shares_interval_us: 1_000,
  })
}

const specs = fc.array(
  fc.record({
    at_us: fc.integer({ min: 0, max: 30_000 }),
    tenant: fc.integer({ min: 0, max: 2 }),
    sequenced: fc.boolean(),
    program: fc.integer({ min: 0, max: 3 }),
    shared_tokens: fc.integer({ min: 0, max: 40 }),
    own_tokens: fc.integer({ min: 1, max: 24 }),
    max_output_tokens: fc.integer({ min: 1, max: 30 }),
    settled_service_us: fc.integer({ min: 0, max: 40_000 }),
    program_wait_us: fc.integer({ min: 0, max: 40_000 }),
    early: fc.option(
      fc.record({ do: fc.constantFrom('cancel' as const, 'finish' as const), after_us: fc.nat(40_000) }),
    ),
    natural_tokens: fc.integer({ min: 0, max: 40 }),
  }),
  { minLength: 1, maxLength: 24 },
)
type Spec = typeof specs extends fc.Arbitrary<(infer S)[]> ? S : never

function callOf(spec: Spec, index: number): EngineCall {
  const stream = spec.tenant * 10 + spec.program + 1
  return engineCall({
    lease: `lease ${index}`,
    tenant: `tenant ${spec.tenant}`,
    tenant_weight: 1 + spec.tenant,
    program: `program ${stream}`,
    sequence: spec.sequenced ? [1, stream] : null,
    prompt: [
      // Every tenant's prompts begin alike, so that reuse over salts would be tempting.
      ...Array.from({ length: spec.shared_tokens }, (_, token) => (token < 20 ? token : stream * 1000 + token)),
      ...Array.from({ length: spec.own_tokens }, (_, token) => (index + 100) * 1000 + token),
    ],
    max_output_tokens: spec.max_output_tokens,
    settled_service_us: spec.settled_service_us,
    program_wait_us: spec.program_wait_us,
  })
}

function eventsOf(list: readonly Spec[], early = true): VirtualEvent[] {
  return list.flatMap((spec, index): VirtualEvent[] => {
    const call = callOf(spec, index)
    const submit: VirtualEvent = { at_us: spec.at_us, do: 'submit', call }
    if (!early || spec.early === null) return [submit]
    return [submit, { at_us: spec.at_us + spec.early.after_us, do: spec.early.do, lease: call.lease }]
  })
}

const outputTokens = (list: readonly Spec[]) => (call: EngineCall) =>
  (list[Number(call.lease.slice('lease '.length))] as Spec).natural_tokens

describe('any schedule', () => {
  it('ends every call once, within seats, slots, tokens and KV, computing only what extends the slot', () => {
    fc.assert(
      fc.property(sizes, specs, (size, list) => {
        // virtualRun and its exact model check every step; here what is left at the end.
        const run = virtualRun(configOf(size), eventsOf(list), { output_tokens: outputTokens(list) })
        for (const [lease, verdict] of run.verdicts) expect(run.ended.has(lease)).toBe(verdict.ok)
        expect(run.scheduler.status()).toEqual({
          waiting: 0,
          running: 0,
          queued_tokens: 0,
          kv_used_tokens: 0,
          image_tokens: 0,
        })
      }),
      { numRuns: 300 },
    )
  })

  it('writes a ledger whose sums are the measurements, and splits each duration into service and wait', () => {
    fc.assert(
      fc.property(sizes, specs, (size, list) => {
        const run = virtualRun(configOf(size), eventsOf(list), { output_tokens: outputTokens(list) })
        for (const { lease, measurement } of run.ended.values()) {
          const rows = run.ledger.filter((row) => row.lease === lease)
          const sum = (key: 'wall_us' | 'modelled_us' | 'sampled_tokens') =>
            rows.reduce((total, row) => total + row[key], 0)
          expect(measurement.service_wall_us).toBe(sum('wall_us'))
          expect(measurement.service_modelled_us).toBe(sum('modelled_us'))
          expect(measurement.output_tokens).toBe(sum('sampled_tokens'))
          expect(measurement.output_tokens).toBe(run.output.get(lease)?.length ?? 0)
          expect(measurement.wait_us).toBeGreaterThanOrEqual(0)
          expect(measurement.wait_us + measurement.service_wall_us).toBe(measurement.duration_us)
        }
      }),
      { numRuns: 200 },
    )
  })

  it('counts each prompt token once: cached, or computed in the first pass', () => {
    fc.assert(
      fc.property(sizes, specs, (size, list) => {
        const run = virtualRun(configOf(size), eventsOf(list, false))
        for (const { lease, measurement } of run.ended.values()) {
          const { prompt_tokens, cached_tokens, output_tokens } = measurement
          const first_pass = run.plans.flatMap((plan) => plan.work).filter((work) => work.lease === lease)
          const until = first_pass.findIndex((work) => work.samples)
          const computed = first_pass.slice(0, until + 1).reduce((total, { from, to }) => total + to - from, 0)
          expect(cached_tokens).toBe(run.reused.get(lease))
          expect(cached_tokens).toBeLessThan(prompt_tokens)
          expect(cached_tokens + computed).toBe(prompt_tokens)
          expect(measurement.service_modelled_us).toBe(
            modelledServiceUs(
              {
                uncached_prompt_tokens: prompt_tokens - cached_tokens,
                cached_prompt_tokens: cached_tokens,
                output_tokens,
              },
              DEFAULT_SERVICE_RATES,
            ),
          )
        }
      }),
      { numRuns: 200 },
    )
  })

  it('gives each call the same tokens as an engine that has room for all', () => {
    fc.assert(
      fc.property(sizes, specs, (size, list) => {
        const crowded = virtualRun(configOf(size), eventsOf(list, false))
        const roomy = virtualRun(
          testConfig({
            seats: 32,
            slots: 64,
            slot_tokens_max: 96,
            block_tokens: 8,
            capacity_blocks: 1024,
            max_step_tokens: 4096,
          }),
          eventsOf(list, false),
        )
        const accepted = [...crowded.ended.keys()].sort()
        for (const lease of accepted) expect(crowded.output.get(lease)).toEqual(roomy.output.get(lease))
        for (const { measurement } of roomy.ended.values()) expect(measurement.preemptions).toBe(0)
      }),
      { numRuns: 200 },
    )
  })

  it('is a function of its input: two equal runs plan equal steps', () => {
    fc.assert(
      fc.property(sizes, specs, (size, list) => {
        const first = virtualRun(configOf(size), eventsOf(list))
        const second = virtualRun(configOf(size), eventsOf(list))
        expect(second.plans).toEqual(first.plans)
        expect(second.ledger).toEqual(first.ledger)
        expect([...second.ended]).toEqual([...first.ended])
      }),
      { numRuns: 100 },
    )
  })
})
