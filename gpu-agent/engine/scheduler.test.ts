import { describe, expect, it } from 'vitest'
import { createPolicy } from './order/policies/index.ts'
import type { EndedCall } from './scheduler.ts'
import {
  SHARES_INTERVAL_US,
  SLOTS_MAX,
  schedulerConfig,
  WAITING_CALLS_MAX,
  WAITING_CALLS_PER_TENANT_MAX,
} from './scheduler-config.ts'
import { engineCall, testConfig, testScheduler, tokens } from './testing/calls.ts'
import { commit, leases, step } from './testing/steps.ts'

describe('a step', () => {
  it('cuts prompts into chunks, decodes first, and samples when the last chunk is computed', () => {
    const scheduler = testScheduler({ max_step_tokens: 33, prefill_chunk_tokens: 32 })
    scheduler.submit(engineCall({ lease: 'short', prompt: tokens(3, 1), max_output_tokens: 9 }), 0)
    step(scheduler, 0)
    scheduler.submit(engineCall({ lease: 'long', prompt: tokens(70, 2), max_output_tokens: 9 }), 100)
    const plans = [100, 200, 300, 400].map((at_us) => step(scheduler, at_us).plan)
    const of = (lease: string) => plans.map((plan) => plan.work.find((work) => work.lease === lease))
    expect(of('short').map((work) => [work?.from, work?.to, work?.samples])).toEqual([
      [3, 4, true],
      [4, 5, true],
      [5, 6, true],
      [6, 7, true],
    ])
    expect(of('long').map((work) => [work?.from, work?.to, work?.samples])).toEqual([
      [0, 32, false],
      [32, 64, false],
      [64, 70, true],
      [70, 71, true],
    ])
  })

  it('shares its tokens out in the order of seats and leaves out calls that get none', () => {
    const scheduler = testScheduler({ max_step_tokens: 40, prefill_chunk_tokens: 40 })
    scheduler.submit(engineCall({ lease: 'first', prompt: tokens(40, 1) }), 0)
    scheduler.submit(engineCall({ lease: 'second', prompt: tokens(40, 2) }), 0)
    const { plan, ledger } = step(scheduler, 0)
    expect(leases(plan)).toEqual(['first'])
    expect(ledger).toHaveLength(1)
    expect(scheduler.status()).toMatchObject({ running: 2, waiting: 0, queued_tokens: 40 })
    expect(step(scheduler, 100).plan.work).toMatchObject([{ lease: 'first' }, { lease: 'second', from: 0, to: 39 }])
  })

  it('lists work by ascending slot', () => {
    const scheduler = testScheduler({ seats: 3 })
    for (const lease of ['a', 'b', 'c']) scheduler.submit(engineCall({ lease, prompt: [lease.charCodeAt(0)] }), 0)
    expect(step(scheduler, 0).plan.work.map(({ slot }) => slot)).toEqual([0, 1, 2])
  })

  it('is empty when no call is open', () => {
    expect(testScheduler().plan(0)).toEqual({ step: 0, operations: [], work: [] })
  })
})

describe('the end of a call', () => {
  it('comes with its last token as length, and with an end token, which is no output, as stop', () => {
    const scheduler = testScheduler()
    scheduler.submit(engineCall({ lease: 'full', max_output_tokens: 1 }), 0)
    const full = step(scheduler, 0)
    expect(full.tokens).toEqual([{ lease: 'full', token: 7 }])
    expect(full.ended).toMatchObject([{ reason: 'length', measurement: { output_tokens: 1, first_token_us: 100 } }])
    scheduler.submit(engineCall({ lease: 'stops' }), 100)
    const stops = step(scheduler, 100, { token: 2, end: true })
    expect(stops.tokens).toEqual([])
    expect(stops.ended).toMatchObject([{ reason: 'stop', measurement: { output_tokens: 0, first_token_us: null } }])
  })

  it('is immediate for a call outside the step under way, and comes with the step for one inside it', () => {
    const scheduler = testScheduler({ seats: 1 })
    scheduler.submit(engineCall({ lease: 'in' }), 0)
    scheduler.submit(engineCall({ lease: 'out' }), 0)
    const plan = scheduler.plan(10)
    expect(leases(plan)).toEqual(['in'])
    expect(scheduler.cancel('out', 50)).toMatchObject({
      lease: 'out',
      reason: 'cancelled',
      measurement: { wait_us: 50, duration_us: 50, service_wall_us: 0, output_tokens: 0 },
    })
    expect(scheduler.cancel('in', 60)).toBeNull()
    const { ended, tokens: given, ledger } = commit(scheduler, plan, 10)
    expect(given).toEqual([])
    expect(ledger).toMatchObject([{ computed_tokens: 10, sampled_tokens: 0, wall_us: 100 }])
    expect(ended).toMatchObject([{ lease: 'in', reason: 'cancelled', measurement: { wait_us: 10, duration_us: 110 } }])
  })

  it('stays cancelled when the step under way samples an end token', () => {
    const scheduler = testScheduler()
    scheduler.submit(engineCall({ lease: 'a' }), 0)
    const plan = scheduler.plan(0)
    scheduler.cancel('a', 1)
    expect(commit(scheduler, plan, 5, { token: 2, end: true }).ended).toMatchObject([{ reason: 'cancelled' }])
  })

  it('by finish is a stop, and keeps the first reason that was given', () => {
    const scheduler = testScheduler()
    scheduler.submit(engineCall({ lease: 'a' }), 0)
    const plan = scheduler.plan(0)
    scheduler.finish('a', 1)
    scheduler.cancel('a', 2)
    expect(commit(scheduler, plan, 5).ended).toMatchObject([{ reason: 'stop' }])
    scheduler.submit(engineCall({ lease: 'b' }), 200)
    expect(scheduler.finish('b', 200)).toMatchObject({ reason: 'stop' })
  })

  it('ignores leases that it does not know, also those that have ended', () => {
    const scheduler = testScheduler()
    scheduler.submit(engineCall({ lease: 'a' }), 0)
    scheduler.cancel('a', 0)
    expect([scheduler.cancel('a', 0), scheduler.finish('never', 0)]).toEqual([null, null])
  })

  it('fails for all that are open when the backend is lost', () => {
    const scheduler = testScheduler({ seats: 1 })
    scheduler.submit(engineCall({ lease: 'in' }), 0)
    scheduler.submit(engineCall({ lease: 'out' }), 0)
    scheduler.plan(0)
    const ended: EndedCall[] = scheduler.fail(30)
    expect(ended.map(({ lease, reason }) => [lease, reason])).toEqual([
      ['in', 'failed'],
      ['out', 'failed'],
    ])
    expect(ended[0]?.measurement).toMatchObject({ service_wall_us: 0, wait_us: 30 })
    expect(scheduler.status()).toEqual({ waiting: 0, running: 0, queued_tokens: 0, kv_used_tokens: 0, image_tokens: 0 })
  })
})

describe('status', () => {
  it('counts prompt tokens to compute, running and waiting calls, and KV in whole blocks', () => {
    const scheduler = testScheduler({ seats: 1, prefill_chunk_tokens: 20 })
    scheduler.submit(engineCall({ lease: 'a', prompt: tokens(30, 1), max_output_tokens: 9 }), 0)
    scheduler.submit(engineCall({ lease: 'b', prompt: tokens(5, 2) }), 0)
    expect(scheduler.status()).toEqual({
      waiting: 2,
      running: 0,
      queued_tokens: 35,
      kv_used_tokens: 0,
      image_tokens: 0,
    })
    step(scheduler, 0)
    expect(scheduler.status()).toEqual({
      waiting: 1,
      running: 1,
      queued_tokens: 15,
      kv_used_tokens: 32,
      image_tokens: 0,
    })
    for (const at_us of [100, 200, 300, 400]) step(scheduler, at_us)
    expect(scheduler.status()).toEqual({
      waiting: 1,
      running: 1,
      queued_tokens: 5,
      kv_used_tokens: 48,
      image_tokens: 0,
    })
  })
})

describe('bounds', () => {
  it('takes a call that fills the context and refuses one token more', () => {
    const scheduler = testScheduler({ slot_tokens_max: 100 })
    expect(scheduler.submit(engineCall({ lease: 'at', prompt: tokens(90), max_output_tokens: 10 }), 0)).toEqual({
      ok: true,
    })
    expect(scheduler.submit(engineCall({ lease: 'past', prompt: tokens(90), max_output_tokens: 11 }), 0)).toMatchObject(
      {
        ok: false,
        code: 'context_length_exceeded',
      },
    )
  })

  it('refuses what the KV capacity could never hold, even where a slot could', () => {
    const size = { slot_tokens_max: 256, capacity_blocks: 4, block_tokens: 16 }
    expect(
      testScheduler(size).submit(engineCall({ lease: 'at', prompt: tokens(60), max_output_tokens: 4 }), 0).ok,
    ).toBe(true)
    expect(
      testScheduler(size).submit(engineCall({ lease: 'past', prompt: tokens(60), max_output_tokens: 5 }), 0),
    ).toMatchObject({
      code: 'context_length_exceeded',
    })
  })

  it('refuses the call past the waiting calls of all tenants, until one leaves', () => {
    const scheduler = testScheduler({ waiting_calls_max: 3 })
    const submit = (index: number) => scheduler.submit(engineCall({ lease: `${index}`, tenant: `tenant ${index}` }), 0)
    expect([0, 1, 2].map((index) => submit(index).ok)).toEqual([true, true, true])
    expect(submit(3)).toMatchObject({ ok: false, code: 'engine_full' })
    scheduler.cancel('0', 0)
    expect(submit(4).ok).toBe(true)
  })

  it('refuses the call past the waiting calls of its tenant, and still takes another tenant’s', () => {
    const scheduler = testScheduler({ waiting_calls_per_tenant_max: 2 })
    const submit = (lease: string, tenant: string) => scheduler.submit(engineCall({ lease, tenant }), 0)
    expect(submit('1', 'one').ok).toBe(true)
    expect(submit('2', 'one').ok).toBe(true)
    expect(submit('3', 'one')).toMatchObject({ ok: false, code: 'engine_full' })
    expect(submit('4', 'two').ok).toBe(true)
  })

  it('takes a call that continues one of its lease, however long the queue is', () => {
    const scheduler = testScheduler({ waiting_calls_max: 1, waiting_calls_per_tenant_max: 1 })
    expect(scheduler.submit(engineCall({ lease: '1' }), 0).ok).toBe(true)
    expect(scheduler.submit(engineCall({ lease: '2' }), 0)).toMatchObject({ ok: false, code: 'engine_full' })
    expect(scheduler.submit(engineCall({ lease: '2', continues: true }), 0).ok).toBe(true)
  })

  it('counts seated calls against neither', () => {
    const scheduler = testScheduler({ seats: 1, waiting_calls_max: 1, waiting_calls_per_tenant_max: 1 })
    scheduler.submit(engineCall({ lease: 'seated' }), 0)
    step(scheduler, 0)
    expect(scheduler.submit(engineCall({ lease: 'waits' }), 100).ok).toBe(true)
    expect(scheduler.submit(engineCall({ lease: 'full' }), 100)).toMatchObject({ code: 'engine_full' })
  })

  it.each([
    { seats: 5, slots: 4 },
    { seats: 4, max_step_tokens: 3 },
    { slots: SLOTS_MAX + 1 },
    { seats: 0 },
    { block_tokens: 1.5 },
  ])('refuses a configuration that no step can satisfy: %o', (given) => {
    expect(() => testConfig(given)).toThrow(RangeError)
  })

  it('takes the largest number of slots', () => {
    expect(testConfig({ slots: SLOTS_MAX }).slots).toBe(SLOTS_MAX)
  })

  it('has defaults for what most owners do not choose', () => {
    const { seats, slots, slot_tokens_max, block_tokens, capacity_blocks, ...rest } = testConfig()
    const { epoch, policy, shares, max_step_tokens, prefill_chunk_tokens } = rest
    const sizes = {
      seats,
      slots,
      slot_tokens_max,
      block_tokens,
      capacity_blocks,
      max_step_tokens,
      prefill_chunk_tokens,
    }
    expect(schedulerConfig({ epoch, policy, shares, ...sizes })).toMatchObject({
      waiting_calls_max: WAITING_CALLS_MAX,
      waiting_calls_per_tenant_max: WAITING_CALLS_PER_TENANT_MAX,
      shares_interval_us: SHARES_INTERVAL_US,
      ordering: 'modelled',
    })
  })
})

describe('misuse is a bug and throws', () => {
  it('one plan at a time, committed as planned, in time', () => {
    const scheduler = testScheduler()
    scheduler.submit(engineCall({ lease: 'a' }), 10)
    const plan = scheduler.plan(10)
    expect(() => scheduler.plan(10)).toThrow('committed before the next')
    expect(() => commit(scheduler, { ...plan }, 10)).toThrow('plan under way')
    expect(() => scheduler.commit(plan, { sampled: new Map() }, 9, 20)).toThrow('after it was planned')
    expect(() => scheduler.commit(plan, { sampled: new Map() }, 10, 20.5)).toThrow('integers')
    expect(() => scheduler.commit(plan, { sampled: new Map() }, 10, 20)).toThrow('a token to each call')
  })

  it('a lease twice, an empty prompt, time that runs backwards', () => {
    const scheduler = testScheduler()
    scheduler.submit(engineCall({ lease: 'a' }), 10)
    expect(() => scheduler.submit(engineCall({ lease: 'a' }), 10)).toThrow('submitted once')
    expect(() => scheduler.submit(engineCall({ lease: 'b', prompt: [] }), 10)).toThrow('has a prompt')
    expect(() => scheduler.plan(9)).toThrow('backwards')
  })
})

describe('charges', () => {
  it('carry both readings and order by the configured one', () => {
    // A decode costs 500 us modelled and 100 us wall here: with a quantum of 300 us the first demotes and the second not.
    const order = (ordering: 'modelled' | 'wall') => {
      const policy = createPolicy({ name: 'mlfq', first_quantum_us: 300, levels: 2 }, { reading: ordering })
      const scheduler = testScheduler({ seats: 1, ordering, policy })
      scheduler.submit(engineCall({ lease: 'a', prompt: [1] }), 0)
      scheduler.submit(engineCall({ lease: 'b', prompt: [2] }), 0)
      return [0, 100].map((at_us) => leases(step(scheduler, at_us).plan)[0])
    }
    expect(order('modelled')).toEqual(['a', 'b'])
    expect(order('wall')).toEqual(['a', 'a'])
  })

  it('charge a cached prompt nearly nothing, once', () => {
    const scheduler = testScheduler({ seats: 1 })
    scheduler.submit(engineCall({ lease: 'a', prompt: tokens(30), max_output_tokens: 1 }), 0)
    expect(step(scheduler, 0).ledger).toMatchObject([{ modelled_us: 30 * 125 + 500 }])
    scheduler.submit(engineCall({ lease: 'b', prompt: tokens(32), max_output_tokens: 2 }), 100)
    expect(step(scheduler, 100).ledger).toMatchObject([{ modelled_us: 30 + 2 * 125 + 500, computed_tokens: 2 }])
    const { ledger, ended } = step(scheduler, 200)
    expect(ledger).toMatchObject([{ modelled_us: 500 }])
    expect(ended).toMatchObject([{ measurement: { cached_tokens: 30, prompt_tokens: 32 } }])
  })
})
