/** Over random programs with tools, under each policy that handles contexts: what must hold of every run. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { TenantShares } from '../../../../src/core/pool/tenant-shares.ts'
import { createPolicy, MEMORY_POLICY_NAMES } from '../../order/policies/index.ts'
import type { EngineMemory } from '../../order/policy.ts'
import { testConfig, tokens } from '../../testing/calls.ts'
import { forecastOf } from '../../testing/forecasts.ts'
import { BLOCK, PlacedEngine } from '../../testing/placed-engine.ts'
import { type Program, runPrograms } from '../../testing/programs.ts'
import { PINNED_SHARE_MAX, REVISE_US_MIN } from './tool-contexts.ts'
import { HANDLINGS, PRESERVE_US_MAX } from './waste.ts'

const MEMORY: EngineMemory = {
  costs: {
    forward: { base_us: 0, free_tokens: 0, per_token_us: 10, per_pair_us: 0 },
    swap: { base_us: 0, free_tokens: 0, per_token_us: 1, per_pair_us: 0 },
    kv_bytes_per_token: 1,
  },
  step_us: 1_000,
  other_tokens: 400,
}

const call = fc.record({
  added: fc.integer({ min: 1, max: 90 }),
  output_tokens: fc.integer({ min: 1, max: 40 }),
  gap_us: fc.constantFrom(0, 300, 3_000, 30_000, 400_000),
  /** Times the truth; null: no forecast. */
  told: fc.constantFrom(1, 1, 1, 0, 0.1, 20, null),
  ends: fc.boolean(),
})
const program = fc.record({ at_us: fc.nat(20_000), calls: fc.array(call, { minLength: 1, maxLength: 4 }) })
const sizes = fc.record({
  capacity_blocks: fc.integer({ min: 36, max: 70 }),
  seats: fc.integer({ min: 1, max: 4 }),
  extra_slots: fc.nat(6),
  image_tokens_max: fc.constantFrom(null, 60, 400, 100_000),
  copies_prefixes: fc.boolean(),
})
const policies = fc.constantFrom(...MEMORY_POLICY_NAMES)
const rules = fc.record(
  { hidden_swaps: fc.boolean(), revises: fc.boolean(), pins: fc.constantFrom('relieved' as const, 'firm' as const) },
  { requiredKeys: [] },
)

type Shape = typeof program extends fc.Arbitrary<infer S> ? S : never

/** Each call goes on from the one before it, with what its tool returned. */
function programOf({ at_us, calls }: Shape, index: number): Program {
  let context: number[] = []
  return {
    id: `p${index}`,
    at_us,
    calls: calls.map(({ added, output_tokens, told, ends }, at) => {
      const prompt = [...context, ...tokens(added, 100 * (index + 1) + at)]
      const answer = tokens(output_tokens, 100 * (index + 1) + 50 + at)
      context = [...prompt, ...answer]
      const next = calls[at + 1]
      const tool_us = next === undefined ? null : next.gap_us * (told ?? 1)
      return {
        ...{ prompt, answer, output_tokens, gap_us: at === 0 ? 0 : (calls[at]?.gap_us ?? 0) },
        ...(told === null ? {} : { forecast: forecastOf(output_tokens, ends && next !== undefined ? null : tool_us) }),
      }
    }),
  }
}

describe('under any policy that handles contexts', () => {
  it('every call ends with all its tokens, no context is lost count of, and no image or block leaks', {
    timeout: 120_000,
  }, () => {
    let moved = 0
    let relieved = 0
    fc.assert(
      fc.property(
        fc.array(program, { minLength: 1, maxLength: 7 }),
        sizes,
        policies,
        rules,
        (shapes, size, name, rule) => {
          const { image_tokens_max, extra_slots, seats, ...given } = size
          const costs = { save_us_per_token: 1, restore_us_per_token: 1, base_us: 1 }
          const config = testConfig({
            ...{ ...given, seats, slots: seats + extra_slots, slot_tokens_max: 36 * 16, memory: MEMORY },
            ...{ max_step_tokens: 256, prefill_chunk_tokens: 64, shares: new TenantShares() },
            policy: createPolicy({ name, handling: rule }, { memory: MEMORY }),
            swap: image_tokens_max === null ? null : { costs, recompute_us_per_token: 10, image_tokens_max },
          })
          const programs = shapes.map(programOf)
          const run = runPrograms(config, programs)
          for (const { id, calls } of programs) {
            for (const [index, { output_tokens }] of calls.entries()) {
              expect(run.output.get(`${id}/${index}`)).toHaveLength(output_tokens)
            }
          }
          const { scheduler } = run
          const { preserve, discard, swap, away, expired, ...rest } = scheduler.tools
          const sum = (of: 'decided' | 'returned') => preserve[of] + discard[of] + swap[of]
          expect(sum('decided')).toBe(sum('returned') + away + expired)
          for (const counts of [preserve, discard, swap])
            expect(counts.cached_tokens).toBeLessThanOrEqual(counts.context_tokens)
          const { kv_used_tokens, image_tokens } = scheduler.status()
          if (rule.pins !== 'firm') expect(kv_used_tokens).toBe(0)
          if (away === 0) expect([kv_used_tokens, image_tokens]).toEqual([0, 0])
          moved += swap.decided
          relieved += rest.relieved
        },
      ),
      { numRuns: 600 },
    )
    expect(moved).toBeGreaterThan(50)
    expect(relieved).toBeGreaterThan(0)
  })
})

describe('a pin that is relieved', () => {
  const contexts = fc.array(
    fc.record({
      program: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
      blocks: fc.integer({ min: 2, max: 9 }),
      tool_us: fc.constantFrom(null, 10, 1_000, 100_000, 10_000_000),
      after_us: fc.constantFrom(0, 100, REVISE_US_MIN),
      rank: fc.nat(4),
    }),
    { maxLength: 30 },
  )
  const settings = fc.record({
    slots: fc.integer({ min: 2, max: 8 }),
    hidden_swaps: fc.boolean(),
    revises: fc.boolean(),
    image_tokens_max: fc.constantFrom(null, 40, 1_000),
    allowed: fc.subarray([...HANDLINGS], { minLength: 1 }),
  })
  const CAPACITY_BLOCKS = 24

  it('never keeps a call from its room, and never outlives its bounds', () => {
    fc.assert(
      fc.property(contexts, settings, (list, { slots, image_tokens_max, ...rule }) => {
        const costs = { save_us_per_token: 1, restore_us_per_token: 1, base_us: 1 }
        const swap = image_tokens_max === null ? null : { costs, recompute_us_per_token: 10, image_tokens_max }
        const handling = { ...rule, pins: 'relieved' as const }
        const engine = new PlacedEngine({ capacity_blocks: CAPACITY_BLOCKS, slots, handling, memory: MEMORY, swap })
        const { placement } = engine
        for (const { program: name, blocks, tool_us, after_us, rank } of list) {
          engine.now_us += after_us
          engine.forecast = forecastOf(1, tool_us)
          const opened = engine.open(name, blocks, rank)
          expect(engine.place(opened)).toBe(true)
          placement.computed(opened, opened.prompt.length)
          engine.close(opened, true)
          const { kv } = placement
          expect(kv.held_blocks).toBe(0)
          expect(kv.free_blocks + kv.idle_blocks).toBe(CAPACITY_BLOCKS)
          expect(kv.free_blocks + kv.spare_blocks).toBeGreaterThanOrEqual(
            Math.floor((1 - PINNED_SHARE_MAX) * CAPACITY_BLOCKS),
          )
        }
        engine.now_us += PRESERVE_US_MAX
        placement.begin(engine.now_us)
        expect(placement.kv.spare_blocks).toBe(CAPACITY_BLOCKS)
        engine.forecast = undefined
        const last = engine.open('z', CAPACITY_BLOCKS, 9)
        expect(engine.place(last)).toBe(true)
        expect(last.known_tokens).toBe(CAPACITY_BLOCKS * BLOCK)
      }),
      { numRuns: 2_000 },
    )
  })
})
