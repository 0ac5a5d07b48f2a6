import { describe, expect, it } from 'vitest'
import { TenantShares } from '../../src/core/pool/tenant-shares.ts'
import type { Scheduler } from './scheduler.ts'
import { engineCall, testScheduler } from './testing/calls.ts'
import { leases, plas, step } from './testing/steps.ts'
import type { EngineCall } from './types.ts'

function submit(scheduler: Scheduler, lease: string, given: Partial<EngineCall>, at_us = 0) {
  const prompt = Array.from(lease, (char, at) => char.charCodeAt(0) * 100 + at)
  return scheduler.submit(engineCall({ lease, prompt, max_output_tokens: 100, ...given }), at_us)
}

describe('offline calls', () => {
  it.each(['same', 'other'])('yield their seats at the next decision to online calls of the %s tenant', (tenant) => {
    const scheduler = testScheduler({ seats: 2, slots: 8, policy: plas() })
    for (const lease of ['f1', 'f2', 'f3']) submit(scheduler, lease, { tenant: 'same', offline: true })
    expect(leases(step(scheduler, 0).plan).sort()).toEqual(['f1', 'f2'])
    // Its program has had far more service than the offline calls.
    submit(scheduler, 'online', { tenant, settled_service_us: 1e9 }, 100)
    expect(leases(step(scheduler, 100).plan).sort()).toEqual(['f1', 'online'])
    submit(scheduler, 'second', { tenant }, 200)
    expect(leases(step(scheduler, 200).plan).sort()).toEqual(['online', 'second'])
  })

  it('get the seats that online calls leave', () => {
    const scheduler = testScheduler({ seats: 3, slots: 8 })
    submit(scheduler, 'online', { tenant: 'a', max_output_tokens: 2 })
    for (const lease of ['f1', 'f2', 'f3']) submit(scheduler, lease, { tenant: 'b', offline: true })
    expect(leases(step(scheduler, 0).plan).sort()).toEqual(['f1', 'f2', 'online'])
    step(scheduler, 100)
    expect(leases(step(scheduler, 200).plan).sort()).toEqual(['f1', 'f2', 'f3'])
  })

  it.each([0, 1])(
    'run %i beside online ones where no more may, and fill the seats when the last online one is gone',
    (most) => {
      const scheduler = testScheduler({ seats: 4, slots: 8, offline_beside_online_max: most })
      for (const lease of ['f1', 'f2', 'f3', 'f4', 'f5']) submit(scheduler, lease, { tenant: 'b', offline: true })
      expect(leases(step(scheduler, 0).plan)).toHaveLength(4)
      submit(scheduler, 'short', { tenant: 'a', max_output_tokens: 2 }, 100)
      submit(scheduler, 'long', { tenant: 'c', max_output_tokens: 3 }, 100)
      const beside = ['f1', 'f2', 'f3'].slice(0, most)
      expect(leases(step(scheduler, 100).plan).sort()).toEqual([...beside, 'long', 'short'])
      step(scheduler, 200)
      expect(leases(step(scheduler, 300).plan).sort()).toEqual([...beside, 'long'])
      expect(leases(step(scheduler, 400).plan)).toHaveLength(4)
    },
  )

  it('get no seat that falls free between decisions beyond those that they may have', () => {
    const given = { seats: 4, slots: 8, steps_per_decision: 10, offline_beside_online_max: 1 }
    const scheduler = testScheduler(given)
    submit(scheduler, 'short', { tenant: 'a', max_output_tokens: 2 })
    submit(scheduler, 'online', { tenant: 'a' })
    for (const lease of ['f1', 'f2', 'f3']) submit(scheduler, lease, { tenant: 'a', offline: true })
    expect(leases(step(scheduler, 0).plan).sort()).toEqual(['f1', 'online', 'short'])
    step(scheduler, 100)
    expect(leases(step(scheduler, 200).plan).sort()).toEqual(['f1', 'online'])
  })

  it('compute few prompt tokens in a step while online calls come, which wait for the step under way', () => {
    const scheduler = testScheduler({
      ...{ seats: 3, slots: 8, capacity_blocks: 512, slot_tokens_max: 4096 },
      ...{ max_step_tokens: 300, prefill_chunk_tokens: 128, offline_prefill_tokens: 20 },
    })
    const long = (lease: string, stream: number, given: Partial<EngineCall>, at_us: number) => {
      const prompt = Array.from({ length: 1000 }, (_, at) => stream * 10_000 + at)
      return scheduler.submit(engineCall({ lease, prompt, max_output_tokens: 2, ...given }), at_us)
    }
    const computed = (at_us: number) =>
      step(scheduler, at_us).plan.work.map(({ lease, from, to }) => [lease, to - from])
    long('f1', 1, { offline: true }, 0)
    long('f2', 2, { offline: true }, 0)
    expect(computed(0)).toEqual([
      ['f1', 128],
      ['f2', 128],
    ])
    submit(scheduler, 'online', { max_output_tokens: 1 }, 100)
    expect(computed(100)).toEqual([
      ['f1', 20],
      ['online', 6],
    ])
    // It has ended, and others are expected for a minute.
    expect(computed(59_000_000)).toEqual([['f1', 20]])
    const beyond = computed(61_000_000)
    expect(beyond).toContainEqual(['f1', 128])
    expect(beyond).toContainEqual(['f2', 128])
  })

  it('share what is left by their tenants’ weights', () => {
    const scheduler = testScheduler({ seats: 5, slots: 16 })
    submit(scheduler, 'online', { tenant: 'a' })
    for (let index = 0; index < 6; index++) {
      submit(scheduler, `l${index}`, { tenant: 'light', offline: true })
      submit(scheduler, `h${index}`, { tenant: 'heavy', tenant_weight: 3, offline: true })
    }
    const seated = leases(step(scheduler, 0).plan)
    const count = (first: string) => seated.filter((lease) => lease.startsWith(first)).length
    expect([count('o'), count('l'), count('h')]).toEqual([1, 1, 3])
  })

  it('do not count against their tenant’s online share', () => {
    const shares = new TenantShares()
    const scheduler = testScheduler({ seats: 2, slots: 8, shares })
    submit(scheduler, 'offline', { tenant: 'a', offline: true })
    step(scheduler, 0)
    step(scheduler, 100)
    expect(shares.recentServiceUs('a', 200)).toBe(0)
    submit(scheduler, 'online', { tenant: 'a' }, 200)
    step(scheduler, 200)
    expect(shares.recentServiceUs('a', 300)).toBeGreaterThan(0)
  })

  it('lose a freed seat to a waiting online call between decisions', () => {
    const scheduler = testScheduler({ seats: 2, slots: 8, steps_per_decision: 10 })
    submit(scheduler, 'short', { tenant: 'a', max_output_tokens: 2 })
    submit(scheduler, 'f1', { tenant: 'a', offline: true })
    submit(scheduler, 'f2', { tenant: 'a', offline: true })
    expect(leases(step(scheduler, 0).plan).sort()).toEqual(['f1', 'short'])
    submit(scheduler, 'online', { tenant: 'b' }, 100)
    // No seat is taken between decisions.
    expect(leases(step(scheduler, 100).plan).sort()).toEqual(['f1', 'short'])
    expect(leases(step(scheduler, 200).plan).sort()).toEqual(['f1', 'online'])
  })

  it('leave half of the queue to online calls', () => {
    const scheduler = testScheduler({ seats: 1, slots: 8, waiting_calls_max: 4 })
    const offline = ['f1', 'f2', 'f3'].map((lease) => submit(scheduler, lease, { offline: true }).ok)
    expect(offline).toEqual([true, true, false])
    const online = ['o1', 'o2', 'o3'].map((lease) => submit(scheduler, lease, {}).ok)
    expect(online).toEqual([true, true, false])
  })

  it('lose their KV before any waiting online call does', () => {
    // Room for two contexts of 32 tokens. Both wait with their KV while a third call needs room.
    const scheduler = testScheduler({
      seats: 1,
      slots: 3,
      capacity_blocks: 4,
      policy: plas(),
      prefill_chunk_tokens: 64,
    })
    const prompt = (stream: number) => Array.from({ length: 20 }, (_, at) => stream * 1000 + at)
    const call = (lease: string, given: Partial<EngineCall>, stream: number, at_us: number) =>
      scheduler.submit(engineCall({ lease, prompt: prompt(stream), max_output_tokens: 10, ...given }), at_us)
    call('offline', { tenant: 'a', offline: true }, 1, 0)
    step(scheduler, 0)
    call('long', { tenant: 'b', settled_service_us: 1e9 }, 2, 100)
    step(scheduler, 100)
    call('fresh', { tenant: 'b' }, 3, 200)
    const { plan } = step(scheduler, 200)
    expect(leases(plan)).toEqual(['fresh'])
    const kept = step(scheduler, 300)
    expect(leases(kept.plan)).toEqual(['fresh'])
    for (let at_us = 400; at_us < 1400; at_us += 100) step(scheduler, at_us)
    // `long` goes on where it was: nothing of its prompt is computed again.
    const { plan: resumed } = step(scheduler, 1400)
    expect(resumed.work[0]).toMatchObject({ lease: 'long' })
    expect(resumed.work[0]?.from).toBeGreaterThanOrEqual(20)
  })
})
