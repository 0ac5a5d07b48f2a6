import { describe, expect, it } from 'vitest'
import { KvCache, type KvClaimant, type Slot } from './kv-cache.ts'
import { PREFIX_MATCH_TOKENS_MIN } from './prefix-index.ts'
import type { Retention } from './retention.ts'
import { commonPrefixTokens } from './token-prefix.ts'

const BLOCK = 8

function claimant(prompt: number[], given: Partial<KvClaimant> = {}): KvClaimant {
  return { cache_salt: 'salt', program: 'program', computed_tokens: 0, prompt, output: [], ...given }
}
function range(count: number, start = 0): number[] {
  return Array.from({ length: count }, (_, index) => start + index)
}
function cache(slots = 3, capacity_blocks = 100): KvCache<KvClaimant> {
  return new KvCache(slots, BLOCK, capacity_blocks)
}
/** A call that came, computed all its tokens and went. */
function leavePrefix(kv: KvCache<KvClaimant>, call: KvClaimant): Slot<KvClaimant> {
  const tokens = call.prompt.length + call.output.length
  const { slot } = kv.claim(call, tokens)
  kv.release(slot, tokens)
  kv.takeOperations()
  return slot
}

describe('commonPrefixTokens', () => {
  it('compares over the border of prompt and output on either side', () => {
    const ended = { prompt: [1, 2, 3], output: [4, 5] }
    expect(commonPrefixTokens(ended, 5, { prompt: [1, 2, 3, 4, 5, 6], output: [] }, 6)).toBe(5)
    expect(commonPrefixTokens(ended, 5, { prompt: [1, 2, 3, 4, 9], output: [] }, 5)).toBe(4)
    expect(commonPrefixTokens(ended, 5, { prompt: [1], output: [2, 3, 4] }, 4)).toBe(4)
    expect(commonPrefixTokens(ended, 5, { prompt: [9], output: [] }, 1)).toBe(0)
  })

  it('looks no further than the tokens that count on either side', () => {
    const same = { prompt: range(10), output: [] }
    expect(commonPrefixTokens(same, 4, same, 10)).toBe(4)
    expect(commonPrefixTokens(same, 10, same, 3)).toBe(3)
  })
})

describe('KvCache', () => {
  it('continues a prefix, cuts off the rest, and always leaves one token to compute', () => {
    const kv = cache()
    const slot = leavePrefix(kv, claimant(range(40)))
    const longer = kv.claim(claimant(range(50)), 50)
    expect(longer).toEqual({ slot, kept_tokens: 40 })
    expect(kv.takeOperations()).toEqual([])
    kv.release(longer.slot, 50)
    const equal = kv.claim(claimant(range(50)), 50)
    expect(equal).toEqual({ slot, kept_tokens: 49 })
    expect(kv.takeOperations()).toEqual([{ op: 'truncate', slot: slot.id, tokens: 49 }])
  })

  it('continues the output of the call before', () => {
    const kv = cache()
    leavePrefix(kv, claimant(range(30), { output: [500, 501, 502] }))
    expect(kv.claim(claimant([...range(30), 500, 501, 502, 9]), 34).kept_tokens).toBe(33)
  })

  it('never reuses across cache salts, even when it must take that very slot', () => {
    const kv = cache(1)
    leavePrefix(kv, claimant(range(40)))
    const { slot, kept_tokens } = kv.claim(claimant(range(40), { cache_salt: 'other' }), 40)
    expect(kept_tokens).toBe(0)
    expect(kv.takeOperations()).toEqual([{ op: 'truncate', slot: slot.id, tokens: 0 }])
  })

  it('takes the longest match of several', () => {
    const kv = cache()
    leavePrefix(kv, claimant(range(20)))
    const longest = leavePrefix(kv, claimant([...range(30), 99], { program: 'sibling' }))
    expect(kv.claim(claimant(range(60)), 60)).toEqual({ slot: longest, kept_tokens: 30 })
  })

  it('prefers an empty slot to a match below the minimum', () => {
    const kv = cache()
    const slot = leavePrefix(kv, claimant(range(40)))
    const below = [...range(PREFIX_MATCH_TOKENS_MIN - 1), 900, 901]
    expect(kv.claim(claimant(below), below.length).slot).not.toBe(slot)
    const at = [...range(PREFIX_MATCH_TOKENS_MIN), 900, 901]
    expect(kv.claim(claimant(at), at.length)).toEqual({ slot, kept_tokens: PREFIX_MATCH_TOKENS_MIN })
  })

  it('does not destroy more of another program than it keeps, but may cut back its own', () => {
    const foreign = cache()
    const slot = leavePrefix(foreign, claimant(range(41)))
    const call = [...range(20), 900]
    expect(foreign.claim(claimant(call, { program: 'other' }), 21).slot).not.toBe(slot)
    const shared = cache()
    const half = leavePrefix(shared, claimant(range(40)))
    expect(shared.claim(claimant(call, { program: 'other' }), 21)).toEqual({ slot: half, kept_tokens: 20 })
    const own = cache()
    const mine = leavePrefix(own, claimant(range(400)))
    expect(own.claim(claimant(call), 21)).toEqual({ slot: mine, kept_tokens: 20 })
  })

  it('with no empty slot, takes the least recently used one and keeps the prefix that matches', () => {
    const kv = cache(2)
    const first = leavePrefix(kv, claimant([...range(4), ...range(60, 100)]))
    leavePrefix(kv, claimant(range(60, 200)))
    expect(kv.claim(claimant([...range(4), ...range(6, 900)], { program: 'other' }), 10)).toEqual({
      slot: first,
      kept_tokens: 4,
    })
    expect(kv.takeOperations()).toEqual([{ op: 'truncate', slot: first.id, tokens: 4 }])
  })

  it('takes the lowest empty slot', () => {
    const kv = cache(3)
    const ids = [1, 2, 3].map((stream) => kv.claim(claimant(range(5, stream * 100)), 5).slot.id)
    expect(ids).toEqual([0, 1, 2])
    kv.release(kv.slots[1] as Slot<KvClaimant>, 0)
    expect(kv.claim(claimant(range(5, 900)), 5).slot.id).toBe(1)
  })

  it('counts blocks of holders and of idle prefixes, and takes the latter from the end, as few as a call needs', () => {
    const kv = cache(3, 10)
    leavePrefix(kv, claimant(range(3 * BLOCK, 100)))
    leavePrefix(kv, claimant(range(3 * BLOCK, 200)))
    expect([kv.free_blocks, kv.idle_blocks, kv.held_blocks]).toEqual([4, 6, 0])
    const { slot } = kv.claim(claimant(range(4 * BLOCK, 300)), 4 * BLOCK)
    expect([kv.free_blocks, kv.idle_blocks, kv.held_blocks]).toEqual([0, 6, 4])
    expect(kv.grow(slot, 5)).toBe(true)
    expect(kv.takeOperations()).toEqual([{ op: 'truncate', slot: 0, tokens: 2 * BLOCK }])
    expect([kv.free_blocks, kv.idle_blocks, kv.held_blocks]).toEqual([0, 5, 5])
    expect(kv.grow(slot, 11)).toBe(false)
    expect(kv.takeOperations()).toEqual([])
    expect(kv.grow(slot, 10)).toBe(true)
    expect([kv.free_blocks, kv.idle_blocks, kv.held_blocks]).toEqual([0, 0, 10])
    expect(kv.held_blocks).toBe(10)
  })

  it('leaves nearly all of a long prefix when a call grows by a block', () => {
    const kv = cache(3, 102)
    const long = range(100 * BLOCK)
    leavePrefix(kv, claimant(long))
    const { slot } = kv.claim(claimant(range(2 * BLOCK, 5000)), 2 * BLOCK)
    expect(kv.grow(slot, 3)).toBe(true)
    expect(kv.match(claimant([...long, 1]), 100 * BLOCK + 1).tokens).toBe(99 * BLOCK)
  })

  it('does not keep a rest that is too short to be looked for', () => {
    const kv = cache(2, 4)
    const slot = leavePrefix(kv, claimant(range(2 * BLOCK)))
    const other = kv.claim(claimant(range(2 * BLOCK, 500)), 2 * BLOCK)
    expect(kv.grow(other.slot, 3)).toBe(true)
    expect(kv.takeOperations()).toEqual([{ op: 'truncate', slot: slot.id, tokens: 0 }])
    expect([kv.free_blocks, kv.idle_blocks]).toEqual([1, 0])
  })

  it('where slots run out, empties one of which others hold the most, else the least recently used', () => {
    const kv = new KvCache<KvClaimant>(3, BLOCK, 100, { copies_prefixes: true })
    const head = range(4 * BLOCK)
    leavePrefix(kv, claimant(range(3 * BLOCK, 500), { program: 'alone' }))
    const first = leavePrefix(kv, claimant([...head, ...range(BLOCK, 100)], { program: 'first' }))
    leavePrefix(kv, claimant([...head, ...range(BLOCK, 200)], { program: 'second' }))
    expect(kv.claim(claimant(range(BLOCK, 900)), BLOCK).slot).toBe(first)
    expect(kv.claim(claimant(range(BLOCK, 950)), BLOCK).slot.id).toBe(0)
  })

  it('leaves a slot that is shielded from the newcomer, even if others hold most of it', () => {
    const retention: Retention<KvClaimant> = {
      keptFor: (prefix) => (prefix.program === 'first' ? prefix : null),
      outlasts: () => null,
      isPinned: () => false,
      shieldsFrom: () => true,
      isShielded: () => true,
    }
    const kv = new KvCache<KvClaimant>(4, BLOCK, 12, { copies_prefixes: true, retention })
    const shielded = leavePrefix(kv, claimant(range(8 * BLOCK), { program: 'first' }))
    const copying = claimant([...range(6 * BLOCK), ...range(BLOCK, 500)], { program: 'second' })
    expect(kv.claim(copying, 7 * BLOCK, { force: false }).kept_tokens).toBe(6 * BLOCK)
    kv.claim(claimant(range(BLOCK, 600), { program: 'third' }), BLOCK)
    const other = leavePrefix(kv, claimant(range(2 * BLOCK, 700), { program: 'fourth' }))
    const newcomer = kv.claim(claimant(range(2 * BLOCK, 800), { program: 'last' }), 2 * BLOCK, { force: false })
    expect(newcomer.slot).toBe(other)
    expect([shielded.prefix?.program, shielded.resident_tokens]).toEqual(['first', 8 * BLOCK])
    expect([kv.held_blocks, kv.idle_blocks]).toEqual([10, 2])
  })

  it('gives a claim the slot of a shielded prefix that went while the claim was prepared', () => {
    const retention: Retention<KvClaimant> = {
      keptFor: (prefix) => (prefix.program === 'first' ? prefix : null),
      outlasts: () => null,
      isPinned: () => false,
      shieldsFrom: () => true,
      isShielded: () => true,
    }
    const kv = new KvCache<KvClaimant>(1, BLOCK, 10, { copies_prefixes: true, retention })
    const first = leavePrefix(kv, claimant(range(8 * BLOCK), { program: 'first' }))
    const claim = kv.prepare(claimant(range(4 * BLOCK, 500), { program: 'second' }), 4 * BLOCK)
    expect(kv.canComplete(claim)).toBe(false)
    kv.drop(first)
    expect(kv.canComplete(claim)).toBe(true)
    expect(kv.complete(claim).slot).toBe(first)
    expect([kv.held_blocks, kv.idle_blocks, kv.free_blocks]).toEqual([4, 0, 6])
    kv.release(first, 4 * BLOCK)
    expect([kv.held_blocks, kv.idle_blocks, kv.free_blocks]).toEqual([0, 4, 6])
  })

  it('takes what several idle prefixes share only after what each has alone', () => {
    const kv = new KvCache<KvClaimant>(4, BLOCK, 12, { copies_prefixes: true })
    const head = range(4 * BLOCK)
    const first = leavePrefix(kv, claimant([...head, ...range(2 * BLOCK, 100)]))
    const second = leavePrefix(kv, claimant([...head, ...range(2 * BLOCK, 200)], { program: 'other' }))
    expect(kv.idle_blocks).toBe(8)
    const { slot } = kv.claim(claimant(range(4 * BLOCK, 300)), 4 * BLOCK)
    expect(kv.grow(slot, 8)).toBe(true)
    expect(kv.takeOperations()).toEqual([
      { op: 'truncate', slot: first.id, tokens: 0 },
      { op: 'truncate', slot: second.id, tokens: 4 * BLOCK },
    ])
    expect(kv.idle_blocks).toBe(4)
  })

  it('takes from a claimed prefix only the blocks of what is kept', () => {
    const kv = cache(1, 10)
    leavePrefix(kv, claimant(range(8 * BLOCK)))
    kv.claim(claimant([...range(2 * BLOCK), 900]), 2 * BLOCK + 1)
    expect([kv.free_blocks, kv.idle_blocks, kv.held_blocks]).toEqual([7, 0, 3])
  })

  it('forgets an evicted holder’s KV at once', () => {
    const kv = cache(1)
    const { slot } = kv.claim(claimant(range(40)), 40)
    kv.evict(slot, 40)
    expect(kv.takeOperations()).toEqual([{ op: 'truncate', slot: 0, tokens: 0 }])
    expect(kv.claim(claimant(range(40)), 40).kept_tokens).toBe(0)
    expect(kv.takeOperations()).toEqual([])
  })

  it('hands out operations once, and a list that was handed out stays as it was', () => {
    const kv = cache(1)
    const none = kv.takeOperations()
    const { slot } = kv.claim(claimant(range(40)), 40)
    kv.evict(slot, 40)
    expect(none).toEqual([])
    expect(kv.takeOperations()).toHaveLength(1)
    expect(kv.takeOperations()).toHaveLength(0)
  })
})
