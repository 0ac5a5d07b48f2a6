import { describe, expect, it } from 'vitest'
import { BLOCK, PlacedEngine } from '../testing/placed-engine.ts'
import type { SwapConfig } from './image-store.ts'

/** Saving always pays. */
const SWAP: SwapConfig = {
  costs: { save_us_per_token: 1, restore_us_per_token: 1, base_us: 1 },
  recompute_us_per_token: 100,
  image_tokens_max: 1000,
}

describe('which idle prefix is evicted', () => {
  it('is one of a program without an open call first, though it was used last', () => {
    const engine = new PlacedEngine()
    engine.leave('a', 6)
    engine.leave('b', 6)
    engine.open('a', 7, 5)
    engine.run(engine.open('c', 12))
    expect([engine.resident('a'), engine.resident('b')]).toEqual([6, 2])
  })

  it('is the least recently used where nothing waits, and always where the policy says so', () => {
    const idle = new PlacedEngine()
    idle.leave('a', 6)
    idle.leave('b', 6)
    idle.run(idle.open('c', 12))
    expect([idle.resident('a'), idle.resident('b')]).toEqual([2, 6])
    const lru = new PlacedEngine({ retention: 'lru' })
    lru.leave('a', 6)
    lru.leave('b', 6)
    lru.open('a', 7, -1)
    lru.run(lru.open('c', 12))
    expect([lru.resident('a'), lru.resident('b')]).toEqual([2, 6])
  })

  it('of open programs, is that of the worst rank', () => {
    const engine = new PlacedEngine()
    for (const program of ['a', 'b', 'c']) engine.leave(program, 5)
    engine.open('a', 6, 2)
    engine.open('b', 6, 3)
    engine.open('c', 6, 1)
    engine.run(engine.open('d', 8, 0))
    expect(['a', 'b', 'c'].map((program) => engine.resident(program))).toEqual([5, 2, 5])
  })

  it('between tenants, is decided by use: no rank of one’s own programs costs another its prefixes', () => {
    const engine = new PlacedEngine()
    engine.leave('a', 8, 'one')
    engine.leave('b', 8, 'two')
    engine.open('a', 9, 0, 'one')
    engine.open('b', 9, 9, 'two')
    engine.run(engine.open('c', 8, 5, 'three'))
    expect([engine.resident('a', 'one'), engine.resident('b', 'two')]).toEqual([4, 8])
  })
})

describe('a newcomer', () => {
  it('waits rather than take what is kept for a waiting call before it', () => {
    const engine = new PlacedEngine()
    engine.leave('a', 12)
    const before = engine.open('a', 13, 1)
    const newcomer = engine.open('c', 10, 2)
    expect(engine.place(newcomer)).toBe(false)
    expect(engine.placement.residentTokens(before)).toBe(12 * BLOCK)
    engine.placement.force(newcomer, 100)
    expect(newcomer.slot).not.toBeNull()
    expect(engine.placement.residentTokens(before)).toBe(10 * BLOCK)
  })

  it('takes what is kept for one behind it, or for one that runs', () => {
    const behind = new PlacedEngine()
    behind.leave('a', 12)
    behind.open('a', 13, 3)
    expect(behind.place(behind.open('c', 10, 2))).toBe(true)
    const running = new PlacedEngine()
    running.leave('a', 12)
    running.run(running.open('a', 1, 1))
    expect(running.place(running.open('c', 10, 2))).toBe(true)
  })

  it('does not evict the prefix that it continues, however little is left', () => {
    const engine = new PlacedEngine()
    engine.leave('a', 12)
    engine.leave('b', 8)
    const call = engine.open('a', 18)
    expect(engine.place(call)).toBe(true)
    expect(call.computed_tokens).toBe(12 * BLOCK)
    expect(engine.resident('b')).toBe(2)
  })

  it('may evict the very call that it would copy from', () => {
    const engine = new PlacedEngine({ capacity_blocks: 10, slots: 1 })
    const source = engine.run(engine.open('a', 8))
    const call = engine.open('a', 10)
    expect(engine.place(call)).toBe(true)
    expect([source.slot, call.computed_tokens]).toEqual([null, 0])
  })
})

describe('residency of a waiting call', () => {
  it('is its prefix, what another call holds of it, its image, or its slot', () => {
    const engine = new PlacedEngine({ swap: SWAP })
    const call = engine.open('a', 10)
    expect(engine.placement.residentTokens(call)).toBe(0)
    const sibling = engine.run(engine.open('a', 5))
    expect(engine.placement.residentTokens(call)).toBe(5 * BLOCK)
    engine.close(sibling)
    expect(engine.placement.residentTokens(call)).toBe(5 * BLOCK)
    engine.run(call)
    expect(engine.placement.residentTokens(call)).toBe(10 * BLOCK)
    engine.run(engine.open('z', 15, -1))
    expect(call.slot).toBeNull()
    expect(engine.placement.residentTokens(call)).toBe(10 * BLOCK)
  })

  it('never counts another cache salt’s', () => {
    const engine = new PlacedEngine()
    engine.leave('a', 6, 'one')
    expect([engine.resident('a', 'one'), engine.resident('a', 'two')]).toEqual([6, 0])
  })

  it('names once the calls without a slot whose program lost KV', () => {
    const engine = new PlacedEngine()
    engine.leave('a', 6)
    engine.leave('b', 6)
    const a = engine.open('a', 7, 5)
    engine.open('b', 7, 4)
    const ended = engine.open('a', 7, 6)
    expect(engine.placement.takeLost()).toEqual([])
    engine.run(engine.open('c', 12))
    engine.close(ended)
    expect(engine.placement.takeLost()).toEqual([a])
    expect(engine.placement.takeLost()).toEqual([])
  })
})
