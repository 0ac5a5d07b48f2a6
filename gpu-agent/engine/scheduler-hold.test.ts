/** Programs that find their contexts when they come back, on a virtual clock (memory/program-hold.ts). */
import { describe, expect, it } from 'vitest'
import { TenantShares } from '../../src/core/pool/tenant-shares.ts'
import { createPolicy, POLICY_NAMES, type PolicyName } from './order/policies/index.ts'
import { testConfig, tokens } from './testing/calls.ts'
import { type Program, runPrograms } from './testing/programs.ts'

const PROGRAMS = 16
const CALLS = 5
const FIRST_TOKENS = 200
const ADDED_TOKENS = 16

interface Given {
  policy: PolicyName
  hold_kv: boolean
  gap_us?: number
}

/** Room for a third of the contexts. Every call sends the whole context so far, some time after the answer to the one before. */
function play({ policy, hold_kv, gap_us = 4_000 }: Given) {
  const programs = Array.from({ length: PROGRAMS }, (_, index): Program => {
    const calls = Array.from({ length: CALLS }, (_, call) => ({
      prompt: tokens(FIRST_TOKENS + call * ADDED_TOKENS, index + 1),
      output_tokens: 6,
      gap_us: call === 0 ? 0 : gap_us + 500 * ((index + call) % 5),
    }))
    return { id: `p${index}`, at_us: index * 1_500, calls }
  })
  const config = testConfig({
    ...{ seats: 4, slots: 24, slot_tokens_max: 512, block_tokens: 16, capacity_blocks: 84 },
    ...{ max_step_tokens: 256, prefill_chunk_tokens: 64, copies_prefixes: true, hold_kv },
    policy: createPolicy({ name: policy }),
    shares: new TenantShares(),
  })
  const run = runPrograms(config, programs)
  let prompt_tokens = 0
  let cached_tokens = 0
  for (const { measurement } of run.ended.values()) {
    prompt_tokens += measurement.prompt_tokens
    cached_tokens += measurement.cached_tokens
  }
  const ends_us = Array.from(run.program_ended_us.values())
  const mean_us = ends_us.reduce((sum, at_us) => sum + at_us, 0) / PROGRAMS
  return { computed_share: 1 - cached_tokens / prompt_tokens, mean_us, holds: run.scheduler.holds }
}

const BY_PROGRAM = ['fcfs-program', 'plas', 'atlas', 'learned'] as const

describe.each(BY_PROGRAM)('under %s', (policy) => {
  it('programs find their contexts when they come back', () => {
    const held = play({ policy, hold_kv: true })
    const lost = play({ policy, hold_kv: false })
    // Each computes its first prompt, a fifth of all prompts, and what every later call adds.
    expect(held.computed_share).toBeLessThan(0.45)
    expect(lost.computed_share).toBeGreaterThan(0.5)
    expect(held.mean_us).toBeLessThan(lost.mean_us)
    expect(held.holds).toMatchObject({ begun: PROGRAMS * CALLS })
    expect(held.holds.returned).toBeGreaterThan(PROGRAMS)
    expect(held.holds.held_back).toBeGreaterThan(0)
    expect(lost.holds.begun).toBe(0)
  })

  it('programs that stay away for longer than it pays are not waited for', () => {
    const gap_us = 200_000
    const held = play({ policy, hold_kv: true, gap_us })
    const lost = play({ policy, hold_kv: false, gap_us })
    expect(held.holds.returned).toBe(0)
    expect(held.mean_us).toBeLessThan(1.1 * lost.mean_us)
  })
})

it('policies that queue calls hold nothing', () => {
  const by_call = POLICY_NAMES.filter((name) => createPolicy({ name }).ties === 'call')
  expect(by_call).toContain('fcfs')
  for (const policy of by_call) expect(play({ policy, hold_kv: true })).toEqual(play({ policy, hold_kv: false }))
})
