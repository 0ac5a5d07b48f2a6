import { describe, expect, it } from 'vitest'
import { ImageStore, type SwapConfig } from './memory/image-store.ts'
import { KvCache } from './memory/kv-cache.ts'
import type { SchedulerConfig } from './scheduler-config.ts'
import { engineCall, testConfig, testScheduler, tokens } from './testing/calls.ts'
import { leases, plas, step } from './testing/steps.ts'
import { type VirtualEvent, virtualRun } from './testing/virtual-run.ts'

/** Saving and restoring 5 tokens costs 30 us, and as many more cost 10 us each five; computing them costs 25 us each five. */
const SWAP: SwapConfig = {
  costs: { save_us_per_token: 1, restore_us_per_token: 1, base_us: 10 },
  recompute_us_per_token: 5,
  image_tokens_max: 1000,
}

describe('ImageStore', () => {
  it('saves where that is predicted to take less time than computing again', () => {
    // 2 · 10 + 2 n < 5 n from n = 7 on.
    const images = new ImageStore(SWAP)
    expect(images.take(6)).toBeNull()
    expect(images.take(7)).toEqual({ id: 0, tokens: 7, stored_tokens: 7 })
  })

  it('saves to the last token of its capacity, and again when images are given back', () => {
    const images = new ImageStore({ ...SWAP, image_tokens_max: 20 })
    const first = images.take(10)
    expect(images.take(11)).toBeNull()
    expect(images.take(10)).toEqual({ id: 1, tokens: 10, stored_tokens: 10 })
    expect([images.used_tokens, images.take(7)]).toEqual([20, null])
    if (first !== null) images.give(first)
    expect(images.take(10)).toEqual({ id: 2, tokens: 10, stored_tokens: 10 })
  })

  it('saves nothing for a backend that cannot', () => {
    expect(new ImageStore(null).take(1000)).toBeNull()
  })
})

describe('swapping', () => {
  const config = { seats: 1, slots: 1, policy: plas(), swap: SWAP }
  const long = engineCall({ lease: 'long', settled_service_us: 1e9, max_output_tokens: 3 })

  it('saves an evicted call and restores it, so that it goes on at its next token', () => {
    const scheduler = testScheduler(config)
    scheduler.submit(long, 0)
    step(scheduler, 0)
    scheduler.submit(engineCall({ lease: 'short', max_output_tokens: 1, prompt: [99, 98] }), 100)
    expect(step(scheduler, 100).plan.operations).toEqual([{ op: 'save', slot: 0, image: 0, tokens: 10 }])
    expect(scheduler.status()).toMatchObject({ image_tokens: 10, queued_tokens: 0 })
    expect(step(scheduler, 200).plan).toMatchObject({
      operations: [
        { op: 'truncate', slot: 0, tokens: 0 },
        { op: 'restore', slot: 0, image: 0, tokens: 10 },
        { op: 'drop_image', image: 0 },
      ],
      work: [{ lease: 'long', from: 10, to: 11, samples: true }],
    })
    expect(scheduler.status().image_tokens).toBe(0)
    const { ended } = step(scheduler, 300)
    const swapped = { swapped_out_tokens: 10, swapped_in_tokens: 10, recomputed_tokens: 0, preemptions: 1 }
    expect(ended).toMatchObject([{ measurement: swapped }])
  })

  it('counts how long steps waited for a call’s images, for that call alone', () => {
    const scheduler = testScheduler(config)
    const stepMoving = (at_us: number, image_us: number | null) => {
      const plan = scheduler.plan(at_us)
      const sampled = new Map(plan.work.map(({ lease }) => [lease, { token: 7, end: false }]))
      const moved = image_us === null ? {} : { moved_us: new Map([[0, image_us]]) }
      return scheduler.commit(plan, { sampled, ...moved }, at_us, at_us + 100).ended
    }
    scheduler.submit(long, 0)
    stepMoving(0, null)
    scheduler.submit(engineCall({ lease: 'short', max_output_tokens: 1, prompt: [99, 98] }), 100)
    expect(stepMoving(100, 30.4)).toMatchObject([{ lease: 'short', measurement: { swap_us: 0 } }])
    expect([...stepMoving(200, 12.2), ...stepMoving(300, null)]).toMatchObject([
      {
        lease: 'long',
        measurement: { swap_us: 43, swapped_out_tokens: 10, swapped_in_tokens: 10, pauses: [[100, 200, true]] },
      },
    ])
  })

  it('forgets the time of an image whose call ended while it was saved', () => {
    const scheduler = testScheduler(config)
    scheduler.submit(long, 0)
    step(scheduler, 0)
    scheduler.submit(engineCall({ lease: 'short', max_output_tokens: 2, prompt: [99, 98] }), 100)
    const plan = scheduler.plan(100)
    expect(scheduler.cancel('long', 150)).toMatchObject({ measurement: { swap_us: 0 } })
    const sampled = new Map([['short', { token: 7, end: false }]])
    scheduler.commit(plan, { sampled, moved_us: new Map([[0, 30]]) }, 100, 200)
    expect(step(scheduler, 200).ended).toMatchObject([{ lease: 'short', measurement: { swap_us: 0 } }])
  })

  it('counts the tokens that a call which was not saved computes again', () => {
    const scheduler = testScheduler({ ...config, swap: null })
    scheduler.submit(long, 0)
    step(scheduler, 0)
    scheduler.submit(engineCall({ lease: 'short', max_output_tokens: 1, prompt: [99, 98] }), 100)
    const ended = [100, 200, 300].flatMap((at_us) => step(scheduler, at_us).ended)
    const again = { swapped_out_tokens: 0, swapped_in_tokens: 0, recomputed_tokens: 10, preemptions: 1 }
    expect(ended).toMatchObject([{ lease: 'short', measurement: { recomputed_tokens: 0 } }, { measurement: again }])
  })

  it('forgets the image of a call that ends swapped out, with the next step that there is', () => {
    const scheduler = testScheduler(config)
    scheduler.submit(long, 0)
    step(scheduler, 0)
    scheduler.submit(engineCall({ lease: 'short', max_output_tokens: 1, prompt: [99, 98] }), 100)
    step(scheduler, 100)
    scheduler.cancel('long', 200)
    expect(scheduler.status().image_tokens).toBe(0)
    expect(scheduler.plan(200)).toMatchObject({ operations: [], work: [] })
    scheduler.submit(engineCall({ lease: 'later', prompt: [5] }), 300)
    expect(scheduler.plan(300).operations).toContainEqual({ op: 'drop_image', image: 0 })
  })

  it.each([{ recompute_us_per_token: -1 }, { image_tokens_max: Number.NaN }])('refuses %o', (given) => {
    expect(() => testConfig({ swap: { ...SWAP, ...given } })).toThrow(RangeError)
  })

  it('with fewer slots than calls gives the tokens of an unpreempted run, restored into other slots', () => {
    const events: VirtualEvent[] = Array.from({ length: 12 }, (_, index) => ({
      at_us: index * 900,
      do: 'submit',
      call: engineCall({
        lease: `${index}`,
        prompt: tokens(20 + index, index),
        max_output_tokens: 30,
        settled_service_us: (12 - index) * 1e6,
      }),
    }))
    const run = (given: Partial<SchedulerConfig>) => virtualRun(testConfig({ policy: plas(), ...given }), events)
    const crowded = run({ seats: 2, slots: 3, swap: SWAP })
    const roomy = run({ seats: 12, slots: 12, max_step_tokens: 1024 })
    let swapped_in_tokens = 0
    for (const [lease, { measurement }] of crowded.ended) {
      swapped_in_tokens += measurement.swapped_in_tokens
      expect(crowded.output.get(lease)).toEqual(roomy.output.get(lease))
      expect(roomy.ended.get(lease)?.measurement.preemptions).toBe(0)
    }
    expect(swapped_in_tokens).toBeGreaterThan(0)
    const slotsOf = (op: 'save' | 'restore') =>
      new Map(
        crowded.plans.flatMap(({ operations }) => operations).flatMap((o) => (o.op === op ? [[o.image, o.slot]] : [])),
      )
    const saved = slotsOf('save')
    expect([...slotsOf('restore')].some(([image, slot]) => saved.get(image) !== slot)).toBe(true)
    // Nothing is computed twice: every token of every call once.
    const computed = crowded.ledger.reduce((sum, row) => sum + row.computed_tokens, 0)
    expect(computed).toBe(events.reduce((sum, _, index) => sum + 20 + index + 30 - 1, 0))
  })
})

describe('copying prefixes', () => {
  const claimant = (prompt: number[], given = {}) => ({
    cache_salt: 'salt',
    program: 'program',
    computed_tokens: 0,
    prompt,
    output: [],
    ...given,
  })
  const system = tokens(40)

  it('copies a live call’s prefix into another slot, within one salt only', () => {
    const kv = new KvCache<ReturnType<typeof claimant>>(3, 8, 100, { copies_prefixes: true })
    const live = claimant([...system, 1], { computed_tokens: 41 })
    kv.claim(live, 41)
    const { kept_tokens } = kv.claim(claimant([...system, 2, 3], { program: 'other' }), 42)
    expect(kept_tokens).toBe(40)
    expect(kv.takeOperations()).toEqual([{ op: 'copy', from: 0, slot: 1, tokens: 40 }])
    expect(kv.claim(claimant([...system, 2, 3], { cache_salt: 'another' }), 42).kept_tokens).toBe(0)
    expect(kv.takeOperations()).toEqual([])
  })

  it('copies an idle prefix of another program while a slot is empty, and takes its own', () => {
    const kv = new KvCache<ReturnType<typeof claimant>>(2, 8, 100, { copies_prefixes: true })
    const { slot } = kv.claim(claimant([...system, 1]), 41)
    kv.release(slot, 41)
    const own = kv.claim(claimant([...system, 1, 5, 6]), 43)
    expect([own.slot.id, own.kept_tokens, kv.takeOperations()]).toEqual([0, 41, []])
    kv.release(own.slot, 43)
    const other = kv.claim(claimant([...system, 9], { program: 'other' }), 41)
    expect([other.slot.id, other.kept_tokens]).toEqual([1, 40])
    expect(kv.takeOperations()).toEqual([{ op: 'copy', from: 0, slot: 1, tokens: 40 }])
  })

  it('counts the full blocks of a copy once, and pays for what follows them', () => {
    const kv = new KvCache<ReturnType<typeof claimant>>(3, 8, 10, { copies_prefixes: true })
    const { slot } = kv.claim(claimant([...system, 1]), 41)
    kv.release(slot, 41)
    const other = kv.claim(claimant([...system, 9], { program: 'other', computed_tokens: 41 }), 41)
    expect(kv.takeOperations()).toEqual([{ op: 'copy', from: 0, slot: 1, tokens: 40 }])
    expect([kv.held_blocks, kv.idle_blocks, kv.free_blocks]).toEqual([6, 1, 3])
    const third = kv.claim(claimant([...system, 7], { program: 'third' }), 41)
    expect([kv.held_blocks, kv.idle_blocks, kv.free_blocks]).toEqual([7, 1, 2])
    kv.release(other.slot, 0)
    expect([kv.held_blocks, kv.idle_blocks, kv.free_blocks]).toEqual([6, 1, 3])
    kv.release(third.slot, 0)
    expect([kv.held_blocks, kv.idle_blocks, kv.free_blocks]).toEqual([0, 6, 4])
  })

  it('shares no block between cache salts, nor where the backend does not copy', () => {
    const salts = new KvCache<ReturnType<typeof claimant>>(2, 8, 20, { copies_prefixes: true })
    salts.claim(claimant([...system, 1], { computed_tokens: 41 }), 41)
    salts.claim(claimant([...system, 2], { cache_salt: 'another' }), 41)
    expect(salts.held_blocks).toBe(12)
    const contiguous = new KvCache<ReturnType<typeof claimant>>(2, 8, 20)
    contiguous.claim(claimant([...system, 1], { computed_tokens: 41 }), 41)
    contiguous.claim(claimant([...system, 2], { program: 'other' }), 41)
    expect(contiguous.held_blocks).toBe(12)
  })

  it('copies rather than cut back its own prefix: the other branch stays', () => {
    const kv = new KvCache<ReturnType<typeof claimant>>(2, 8, 20, { copies_prefixes: true })
    const { slot } = kv.claim(claimant([...system, ...tokens(20, 1)]), 60)
    kv.release(slot, 60)
    const branch = kv.claim(claimant([...system, ...tokens(20, 2)]), 60)
    expect([branch.slot.id, branch.kept_tokens, kv.takeOperations()]).toEqual([
      1,
      40,
      [{ op: 'copy', from: 0, slot: 1, tokens: 40 }],
    ])
    kv.release(branch.slot, 60)
    expect(kv.claim(claimant([...system, ...tokens(30, 1)]), 70)).toEqual({ slot, kept_tokens: 60 })
  })

  it('lets programs of one tenant share a system prompt, and no other tenant', () => {
    const call = (lease: string, tenant: string, last: number) =>
      engineCall({ lease, tenant, prompt: [...system, last], max_output_tokens: 30 })
    const events: VirtualEvent[] = [
      { at_us: 0, do: 'submit', call: call('first', 'one', 1) },
      { at_us: 5000, do: 'submit', call: call('second', 'one', 2) },
      { at_us: 5000, do: 'submit', call: call('foreign', 'two', 3) },
    ]
    const run = virtualRun(testConfig({ seats: 3, copies_prefixes: true }), events)
    const cached = (lease: string) => run.ended.get(lease)?.measurement.cached_tokens
    expect([cached('first'), cached('second'), cached('foreign')]).toEqual([0, 40, 0])
    const uncopied = virtualRun(testConfig({ seats: 3 }), events)
    expect(uncopied.ended.get('second')?.measurement.cached_tokens).toBe(0)
    expect(leases(run.plans[0] as never)).toEqual(['first'])
  })
})
