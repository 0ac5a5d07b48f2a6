import { describe, expect, it } from 'vitest'
import { createPolicy } from './order/policies/index.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import { engineCall, testConfig, testScheduler, tokens } from './testing/calls.ts'
import { leases, plas, step } from './testing/steps.ts'

const call = (lease: string, given: Partial<Parameters<typeof engineCall>[0]> = {}) =>
  engineCall({ lease, prompt: [...lease].map((letter) => letter.charCodeAt(0)), max_output_tokens: 40, ...given })
/** Below every call that has received nothing. */
const LONG = { settled_service_us: 1e9 }

describe('decisions every N steps', () => {
  it('preempt at every Nth step and not between', () => {
    const scheduler = testScheduler({ seats: 1, policy: plas(), steps_per_decision: 4 })
    scheduler.submit(call('long', LONG), 0)
    step(scheduler, 0)
    scheduler.submit(call('short'), 100)
    const order = [100, 200, 300, 400, 500].map((at_us) => leases(step(scheduler, at_us).plan)[0])
    expect(order).toEqual(['long', 'long', 'long', 'short', 'short'])
  })

  it('give seats that fall free between to the calls that are next in order', () => {
    const scheduler = testScheduler({ seats: 2, policy: plas(), steps_per_decision: 8 })
    scheduler.submit(call('brief', { max_output_tokens: 1 }), 0)
    scheduler.submit(call('stays'), 0)
    scheduler.submit(call('last', LONG), 0)
    step(scheduler, 0)
    scheduler.submit(call('next'), 100)
    expect(leases(step(scheduler, 100).plan).sort()).toEqual(['next', 'stays'])
  })

  it('give a free seat to another tenant when its own has no call that waits', () => {
    const scheduler = testScheduler({ seats: 2, steps_per_decision: 8 })
    for (const lease of ['a1', 'a2', 'a3']) scheduler.submit(call(lease, { tenant: 'a' }), 0)
    scheduler.submit(call('b', { tenant: 'b', max_output_tokens: 1 }), 0)
    expect(leases(step(scheduler, 0).plan).sort()).toEqual(['a1', 'b'])
    expect(leases(step(scheduler, 100).plan).sort()).toEqual(['a1', 'a2'])
  })

  describe('give a freed seat with `standby`', () => {
    /** `long` was preempted by `stays` and `brief`, and `brief` ends. */
    const next = (given: Partial<SchedulerConfig>) => {
      const scheduler = testScheduler({ seats: 2, policy: plas(), steps_per_decision: 4, ...given })
      for (const lease of ['long', 'longer']) scheduler.submit(call(lease, LONG), 0)
      step(scheduler, 0)
      scheduler.submit(call('brief', { max_output_tokens: 1 }), 100)
      scheduler.submit(call('stays'), 100)
      for (const at_us of [100, 200, 300])
        expect(leases(step(scheduler, at_us).plan).sort()).toEqual(['long', 'longer'])
      expect(leases(step(scheduler, 400).plan).sort()).toEqual(['brief', 'stays'])
      scheduler.submit(call('next'), 500)
      return leases(step(scheduler, 500).plan).filter((lease) => lease !== 'stays')
    }
    const swap = {
      costs: { save_us_per_token: 0, restore_us_per_token: 0, base_us: 0 },
      recompute_us_per_token: 1,
      image_tokens_max: 1000,
    }

    it('to the next call in order, or to a preempted one that still has its slot', () => {
      expect(next({})).toEqual(['next'])
      expect(next({ standby: 'resident_first' })).toEqual(['long'])
    })

    it('not to one whose KV was swapped out or dropped while another call waits', () => {
      for (const given of [{ swap }, {}]) {
        expect(next({ standby: 'resident_first', slots: 2, ...given })).toEqual(['next'])
      }
    })

    it('not to one whose prefix decodes have overwritten, step by step or in one stretch', () => {
      const next = (steps: number, jump: boolean) => {
        const policy = createPolicy({ name: 'mlfq', first_quantum_us: 1e9 })
        const sizes = { seats: 2, block_tokens: 2, capacity_blocks: 26, max_step_tokens: 64, prefill_chunk_tokens: 64 }
        const scheduler = testScheduler({ ...sizes, policy, steps_per_decision: 20, standby: 'resident_first' })
        const stem = tokens(40, 1)
        scheduler.submit(call('before', { program: 'p', prompt: stem, max_output_tokens: 1 }), 0)
        step(scheduler, 0)
        for (const lease of ['a', 'b', 'better']) scheduler.submit(call(lease), 100)
        scheduler.submit(call('resident', { program: 'p', prompt: [...stem, 9], max_output_tokens: 4 }), 100)
        expect(leases(step(scheduler, 100).plan)).toEqual(['a', 'b'])
        const starts_us = Array.from({ length: steps }, (_, index) => 200 + 100 * index)
        if (jump) {
          const plan = scheduler.plan(200)
          expect(scheduler.stretch().steps_max).toBeGreaterThanOrEqual(steps)
          const ends_us = starts_us.map((at_us) => at_us + 100)
          scheduler.commitStretch(plan, () => 7, 200, ends_us)
        } else for (const at_us of starts_us) step(scheduler, at_us)
        const freed_us = 200 + 100 * steps
        scheduler.finish('b', freed_us)
        return leases(step(scheduler, freed_us).plan).sort()
      }
      for (const jump of [false, true]) {
        expect(next(2, jump)).toEqual(['a', 'resident'])
        expect(next(16, jump)).toEqual(['a', 'better'])
      }
    })
  })

  it('are made at once when no call has a seat', () => {
    const scheduler = testScheduler({ seats: 1, steps_per_decision: 8 })
    scheduler.submit(call('a', { max_output_tokens: 1 }), 0)
    step(scheduler, 0)
    scheduler.submit(call('b'), 100)
    expect(leases(step(scheduler, 100).plan)).toEqual(['b'])
  })
})

describe('limits on preemption', () => {
  it('let so many seats of a tenant change hands in one decision, and the rest in the next', () => {
    const scheduler = testScheduler({ seats: 3, slots: 6, policy: plas(), preemptions_per_decision_max: 2 })
    for (const lease of ['l1', 'l2', 'l3']) scheduler.submit(call(lease, LONG), 0)
    step(scheduler, 0)
    for (const lease of ['s1', 's2', 's3']) scheduler.submit(call(lease), 100)
    expect(leases(step(scheduler, 100).plan).sort()).toEqual(['l1', 's1', 's2'])
    expect(leases(step(scheduler, 200).plan).sort()).toEqual(['s1', 's2', 's3'])
  })

  it('do not keep a tenant from its share', () => {
    const scheduler = testScheduler({ seats: 4, slots: 8, preemptions_per_decision_max: 1 })
    for (const lease of ['a1', 'a2', 'a3', 'a4']) scheduler.submit(call(lease, { tenant: 'a' }), 0)
    step(scheduler, 0)
    for (const lease of ['b1', 'b2']) scheduler.submit(call(lease, { tenant: 'b' }), 100)
    expect(leases(step(scheduler, 100).plan).filter((lease) => lease.startsWith('b'))).toEqual(['b1', 'b2'])
  })

  it('let a demoted call run on while only calls of its new level wait, with a hysteresis of one level', () => {
    const order = (preemption_levels_min: number) => {
      // A decode costs 500 us: the first sends a call to Q2.
      const policy = createPolicy({
        name: 'mlfq',
        first_quantum_us: 300,
        quantum_ratio: 100,
        levels: 3,
        preemption_levels_min,
      })
      const scheduler = testScheduler({ seats: 1, policy })
      scheduler.submit(call('a'), 0)
      scheduler.submit(call('q2'), 0)
      const first = [0, 100, 200].map((at_us) => leases(step(scheduler, at_us).plan)[0])
      scheduler.submit(call('q1'), 300)
      return [...first, leases(step(scheduler, 300).plan)[0]]
    }
    expect(order(0)).toEqual(['a', 'q2', 'a', 'q1'])
    expect(order(1)).toEqual(['a', 'q2', 'q2', 'q1'])
  })

  it.each([{ steps_per_decision: 0 }, { preemptions_per_decision_max: 0 }])('refuses %o', (given) => {
    expect(() => testConfig(given)).toThrow(RangeError)
  })
})
