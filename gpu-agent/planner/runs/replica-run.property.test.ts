/** A replica's run against the project's own engine, first come, first served, without chunked prefill: every request ends in the same microsecond. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { TINY } from '../../engine/backends/emulated/profiles/index.ts'
import { engineCall, testConfig, tokens } from '../../engine/testing/calls.ts'
import { virtualRun } from '../../engine/testing/virtual-run.ts'
import { IterationCosts } from '../costs/iteration-costs.ts'
import { simpleCosts } from '../testing/costs.ts'
import { type ReplicaConfig, ReplicaRun } from './replica-run.ts'

/** Durations are multiples of 100 us. */
const STEP = { base_us: 10_000, per_sequence_us: 500, per_token_us: 100, per_prompt_token_us: 200 }
const BLOCK_TOKENS = 4
/** Of these small cases, in which one request more or less in an iteration counts for much. */
const LONGER_BY_MAX = 0.25
/** The longest request, alone. */
const BLOCKS_MIN = 20

interface Request {
  prompt: number
  output: number
  at_us: number
}

/** Each at its own time within 100 us, so that none comes in the microsecond in which an iteration ends. */
const requests = fc
  .array(
    fc.record({
      prompt: fc.integer({ min: 2, max: 40 }),
      output: fc.integer({ min: 1, max: 30 }),
      hundreds: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 8_000 })),
    }),
    { minLength: 1, maxLength: 30 },
  )
  .map((list) => list.map(({ hundreds, ...one }, at): Request => ({ ...one, at_us: hundreds * 100 + at })))

function byEngine(list: readonly Request[], seats: number, capacity_blocks: number, step_tokens: number): number[] {
  const config = testConfig({
    ...{ seats, slots: 64, slot_tokens_max: 128, block_tokens: BLOCK_TOKENS, capacity_blocks },
    ...{ max_step_tokens: step_tokens, prefill_chunk_tokens: step_tokens, chunked_prefill: false },
  })
  const profile = {
    ...TINY,
    ...{ base_us: STEP.base_us, per_sequence_us: STEP.per_sequence_us, per_kv_token_ns: STEP.per_token_us * 1000 },
    per_prefill_token_us: STEP.per_prompt_token_us,
  }
  const events = list.map(({ prompt, output, at_us }, at) => ({
    ...{ at_us, do: 'submit' as const },
    call: engineCall({
      ...{ lease: `${at}`, cache_salt: `${at}`, prompt: tokens(prompt, at + 1), max_output_tokens: output },
    }),
  }))
  const ended_us = new Map<string, number>()
  const next_events = ({ lease }: { lease: string }, at_us: number) => {
    ended_us.set(lease, at_us)
    return []
  }
  virtualRun(config, events, { profile, next_events })
  return list.map((_, at) => ended_us.get(`${at}`) ?? Number.NaN)
}

function configOf(seats: number, capacity_blocks: number, step_tokens: number): ReplicaConfig {
  const costs = new IterationCosts(simpleCosts(STEP))
  return { costs, seats, step_tokens, capacity_blocks, block_tokens: BLOCK_TOKENS, padding_tokens_max: null }
}

function replica(list: readonly Request[], config: ReplicaConfig): ReplicaRun {
  return new ReplicaRun(
    config,
    {
      known_tokens: Int32Array.from(list, ({ prompt }) => prompt),
      left_tokens: Int32Array.from(list, ({ output }) => output),
      ready_s: Float64Array.from(list, ({ at_us }) => at_us / 1e6),
      next: new Int32Array(list.length).fill(-1),
    },
    0,
  )
}

const ends_us = (run: ReplicaRun) => Array.from(run.finish_s, (end_s) => Math.round(end_s * 1e6))

describe('a replica', () => {
  it('ends every request when the engine does, with room for all', () => {
    fc.assert(
      fc.property(
        requests,
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 75, max: 200 }),
        (list, seats, step_tokens) => {
          const run = replica(list, configOf(seats, 2000, step_tokens))
          run.run()
          expect(ends_us(run)).toEqual(byEngine(list, seats, 2000, step_tokens))
        },
      ),
      { numRuns: 200 },
    )
  })

  it('takes as long as the engine while KV is scarce and requests lose theirs, mostly to the microsecond, and within a hundredth in the mean', () => {
    let [equal, runs, off] = [0, 0, 0]
    fc.assert(
      fc.property(
        requests,
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: BLOCKS_MIN, max: 60 }),
        (list, seats, blocks) => {
          const run = replica(list, configOf(seats, blocks, 100))
          run.run()
          const [ours_us, engines_us] = [ends_us(run), byEngine(list, seats, blocks, 100)]
          runs += 1
          if (ours_us.every((end_us, at) => end_us === engines_us[at])) equal += 1
          const longer_by = Math.abs(Math.max(...ours_us) / Math.max(...engines_us) - 1)
          expect(longer_by).toBeLessThan(LONGER_BY_MAX)
          off += longer_by
        },
      ),
      // The mean is of these cases.
      { numRuns: 300, seed: 19 },
    )
    expect(off / runs).toBeLessThan(0.01)
    expect(equal / runs).toBeGreaterThan(0.8)
  })

  it('goes on from any time as if it had not stopped, and so does its copy', () => {
    fc.assert(
      fc.property(
        requests,
        fc.integer({ min: BLOCKS_MIN, max: 60 }),
        fc.integer({ min: 0, max: 3_000_000 }),
        (list, blocks, stop_us) => {
          const config = configOf(4, blocks, 100)
          const [whole, stopped] = [replica(list, config), replica(list, config)]
          whole.run()
          stopped.run(stop_us / 1e6)
          const copy = stopped.clone()
          const before = ends_us(stopped)
          copy.run()
          expect(ends_us(stopped)).toEqual(before)
          stopped.run()
          expect(ends_us(stopped)).toEqual(ends_us(whole))
          expect(ends_us(copy)).toEqual(ends_us(whole))
        },
      ),
      { numRuns: 200 },
    )
  })

  it('keeps what is unfinished: tokens known and left add up, and none is lost', () => {
    fc.assert(
      fc.property(requests, fc.integer({ min: 0, max: 2_000_000 }), (list, stop_us) => {
        const run = replica(list, configOf(4, 40, 100))
        run.run(stop_us / 1e6)
        const left = run.unfinished()
        const ended = ends_us(run).filter(Number.isFinite)
        expect(left.length + ended.length).toBe(list.length)
        for (const { request, known_tokens, left_tokens } of left) {
          const { prompt, output } = list[request] as Request
          expect(left_tokens).toBeGreaterThan(0)
          expect(known_tokens + left_tokens).toBe(prompt + output)
        }
      }),
    )
  })
})
