import { describe, expect, it } from 'vitest'
import { engineCall, testConfig, testScheduler, tokens } from './testing/calls.ts'
import { leases, plas, step } from './testing/steps.ts'
import { virtualRun } from './testing/virtual-run.ts'

describe('preemption', () => {
  it('keeps slot and KV while there is room, and resumes at the next token', () => {
    const scheduler = testScheduler({ seats: 1, slots: 2, policy: plas() })
    scheduler.submit(engineCall({ lease: 'long', settled_service_us: 1e9, max_output_tokens: 3 }), 0)
    step(scheduler, 0)
    scheduler.submit(engineCall({ lease: 'short', max_output_tokens: 1, prompt: [99] }), 100)
    expect(leases(step(scheduler, 100).plan)).toEqual(['short'])
    expect(step(scheduler, 200).plan).toMatchObject({
      operations: [],
      work: [{ lease: 'long', slot: 0, from: 10, to: 11 }],
    })
    expect(step(scheduler, 300).ended).toMatchObject([
      { measurement: { preemptions: 1, wait_us: 100, service_wall_us: 300, pauses: [[100, 200, false]] } },
    ])
  })

  it('evicts when the slot is needed, and recomputes prompt and output without charging the prompt twice', () => {
    const scheduler = testScheduler({ seats: 1, slots: 1, policy: plas() })
    scheduler.submit(engineCall({ lease: 'long', settled_service_us: 1e9, max_output_tokens: 3 }), 0)
    step(scheduler, 0)
    scheduler.submit(engineCall({ lease: 'short', max_output_tokens: 1, prompt: [99, 98] }), 100)
    expect(step(scheduler, 100).plan).toMatchObject({
      operations: [{ op: 'truncate', slot: 0, tokens: 0 }],
      work: [{ lease: 'short', from: 0 }],
    })
    const resumed = step(scheduler, 200)
    expect(resumed.plan.work).toMatchObject([{ lease: 'long', from: 0, to: 11, samples: true }])
    expect(resumed.ledger).toMatchObject([{ computed_tokens: 11, sampled_tokens: 1, modelled_us: 500 }])
    expect(step(scheduler, 300).ended).toMatchObject([
      { measurement: { preemptions: 1, prompt_tokens: 10, cached_tokens: 0, service_modelled_us: 10 * 125 + 3 * 500 } },
    ])
  })

  it('does not evict a call before its claim has borne a token, and lets it go on meanwhile', () => {
    const scheduler = testScheduler({ seats: 1, slots: 1, policy: plas(), max_step_tokens: 4, prefill_chunk_tokens: 4 })
    scheduler.submit(
      engineCall({ lease: 'long', settled_service_us: 1e9, prompt: tokens(12), max_output_tokens: 3 }),
      0,
    )
    step(scheduler, 0)
    scheduler.submit(engineCall({ lease: 'short', max_output_tokens: 1, prompt: [99] }), 100)
    const order = [100, 200, 300, 400].map((at_us) => leases(step(scheduler, at_us).plan))
    expect(order).toEqual([['long'], ['long'], ['short'], ['long']])
    // Evicted, it has claimed its slot again: the same holds until it has computed its 13 tokens.
    scheduler.submit(engineCall({ lease: 'short 2', max_output_tokens: 1, prompt: [98] }), 500)
    const again = [500, 600, 700, 800].map((at_us) => leases(step(scheduler, at_us).plan))
    expect(again).toEqual([['long'], ['long'], ['long'], ['short 2']])
  })

  it('of blocks: the best call grows, the worst loses its KV, and both end', () => {
    // Each call needs 2 of 3 blocks in the end.
    const config = testConfig({ seats: 2, slots: 2, block_tokens: 8, capacity_blocks: 3, slot_tokens_max: 24 })
    const call = (lease: string, stream: number) =>
      engineCall({ lease, prompt: tokens(6, stream), max_output_tokens: 10 })
    const run = virtualRun(config, [
      { at_us: 0, do: 'submit', call: call('first', 1) },
      { at_us: 0, do: 'submit', call: call('second', 2) },
    ])
    expect([...run.ended.keys()]).toEqual(['first', 'second'])
    expect(run.ended.get('first')?.measurement.preemptions).toBe(0)
    expect(run.ended.get('second')?.measurement.preemptions).toBe(1)
  })

  it('does not let a call that fits pass the one before it that does not', () => {
    const config = { seats: 3, slots: 3, block_tokens: 8, capacity_blocks: 6, slot_tokens_max: 48 }
    const scheduler = testScheduler(config)
    scheduler.submit(engineCall({ lease: 'first', prompt: tokens(30, 1), max_output_tokens: 10 }), 0)
    scheduler.submit(engineCall({ lease: 'large', prompt: tokens(30, 2), max_output_tokens: 10 }), 0)
    scheduler.submit(engineCall({ lease: 'small', prompt: tokens(3, 3), max_output_tokens: 2 }), 0)
    expect(leases(step(scheduler, 0).plan)).toEqual(['first'])
  })
})

describe('who is evicted', () => {
  /** One block is 8 tokens. */
  const call = (lease: string, prompt_tokens: number, settled_service_us = 0) =>
    engineCall({
      lease,
      prompt: tokens(prompt_tokens, lease.charCodeAt(0)),
      max_output_tokens: 20,
      settled_service_us,
    })

  it('is a call without a seat rather than one with a seat', () => {
    const scheduler = testScheduler({ seats: 2, slots: 3, block_tokens: 8, capacity_blocks: 6, policy: plas() })
    scheduler.submit(call('unseated', 2, 9e9), 0)
    step(scheduler, 0)
    scheduler.submit(call('seated', 2, 2_000_000), 100)
    scheduler.submit({ ...call('best', 30), max_output_tokens: 8 }, 100)
    // `best` holds four blocks, the others one each; its fourth decode needs a fifth.
    const operations = [100, 200, 300, 400].map((at_us) => {
      const { plan } = step(scheduler, at_us)
      expect(leases(plan).sort()).toEqual(['best', 'seated'])
      return plan.operations
    })
    expect(operations).toEqual([[], [], [], [{ op: 'truncate', slot: 0, tokens: 0 }]])
  })

  it('of seated calls, is the one in the last seat', () => {
    const scheduler = testScheduler({ seats: 3, slots: 3, block_tokens: 8, capacity_blocks: 3, slot_tokens_max: 24 })
    for (const [stream, lease] of ['1', '2', '3'].entries()) {
      scheduler.submit(engineCall({ lease, prompt: tokens(7, stream), max_output_tokens: 9 }), 0)
    }
    // The third step needs a second block for each; the first call takes that of the third, and the second waits for more.
    const operations = [0, 100, 200].map((at_us) => step(scheduler, at_us).plan.operations)
    expect(operations).toEqual([[], [], [{ op: 'truncate', slot: 2, tokens: 0 }]])
  })

  it('of one tenant’s calls without a seat, is the one that would run last', () => {
    const scheduler = testScheduler({ seats: 1, slots: 3, policy: plas() })
    for (const [index, attained] of [9e9, 3_000_000, 1_500_000].entries()) {
      scheduler.submit(call(`${index}`, 5, attained), index * 100)
      expect(leases(step(scheduler, index * 100).plan)).toEqual([`${index}`])
    }
    scheduler.submit(call('best', 5), 300)
    expect(step(scheduler, 300).plan).toMatchObject({
      operations: [{ slot: 0, tokens: 0 }],
      work: [{ lease: 'best', slot: 0 }],
    })
  })

  it.each([
    { weight: 1, loses: 'm1', slot: 0 },
    { weight: 3, loses: 'o1', slot: 2 },
  ])(
    'is of the tenant that holds most slots without a seat for its weight: $loses at weight $weight',
    ({ weight, slot }) => {
      let turn = ''
      const shares = { charge: () => {}, allocate: () => new Map([[turn, 1]]) }
      const scheduler = testScheduler({ seats: 1, slots: 3, policy: plas(), shares, shares_interval_us: 1 })
      const run = (lease: string, tenant: string, attained: number, at_us: number) => {
        turn = tenant
        const tenant_weight = tenant === 'many' ? weight : 1
        scheduler.submit({ ...call(lease, 5, attained), prompt: tokens(5, at_us), tenant, tenant_weight }, at_us)
        const { plan } = step(scheduler, at_us)
        expect(leases(plan)).toEqual([lease])
        return plan.operations
      }
      run('m1', 'many', 9e9, 0)
      run('m2', 'many', 3_000_000, 100)
      run('o1', 'one', 8e9, 200)
      expect(run('third', 'third', 0, 300)).toEqual([{ op: 'truncate', slot, tokens: 0 }])
    },
  )

  it('is no call, as long as evicting would not make enough room: a protected claim takes the seat instead', () => {
    const scheduler = testScheduler({
      seats: 2,
      slots: 4,
      block_tokens: 8,
      capacity_blocks: 8,
      slot_tokens_max: 64,
      policy: plas(),
      max_step_tokens: 8,
      prefill_chunk_tokens: 6,
    })
    scheduler.submit(call('settled', 3, 3_000_000), 0)
    step(scheduler, 0)
    scheduler.submit(call('protected', 36, 9e9), 100)
    step(scheduler, 100)
    // `small` fits beside them; `large` would need what `protected` holds, and evicting `settled` would not be enough.
    scheduler.submit(call('small', 3), 200)
    scheduler.submit(call('large', 30), 200)
    const { plan } = step(scheduler, 200)
    expect(leases(plan).sort()).toEqual(['protected', 'small'])
    expect(plan.operations).toEqual([])
  })
})
