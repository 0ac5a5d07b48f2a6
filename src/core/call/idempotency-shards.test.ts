import { expect, it } from 'vitest'
import { BASE_SHARDS, InUse, keyShard, PARENT_ASKED_MS, parentShard, UNUSED_MS } from './idempotency-shards.ts'

const KEYS = Array.from({ length: 2_000 }, (_, i) => `key-${i}`)

it('with twice as many shards a key stays, or goes to the shard whose parent has it', () => {
  for (const shards of [1, 2, 4, 8]) {
    let moved = 0
    for (const key of KEYS) {
      const [before, after] = [keyShard(key, shards), keyShard(key, 2 * shards)]
      if (after === before) continue
      moved += 1
      expect(parentShard(after)).toBe(before)
    }
    expect(moved).toBeGreaterThan(KEYS.length * 0.4)
    expect(moved).toBeLessThan(KEYS.length * 0.6)
  }
})

it('from one shard to sixteen the parents of a key’s shard lead to where it was', () => {
  for (const key of KEYS) {
    const on_the_way: number[] = []
    for (let shard: number | null = keyShard(key, 16); shard !== null; shard = parentShard(shard))
      on_the_way.push(shard)
    for (const shards of [1, 2, 3, 4, 7, 8]) expect(on_the_way).toContain(keyShard(key, shards))
    expect(on_the_way.at(-1)).toBeLessThan(BASE_SHARDS)
  }
})

it('a shard is new for as long as keys may be used that were there before it, and after a pause', () => {
  const use = new InUse()
  const start_ms = 1_000_000
  let now_ms = start_ms
  for (; now_ms < start_ms + PARENT_ASKED_MS; now_ms += UNUSED_MS) expect(use.isNew(now_ms)).toBe(true)
  expect(use.isNew(now_ms)).toBe(false)
  expect(use.isNew(now_ms + UNUSED_MS)).toBe(false)
  expect(use.isNew(now_ms + 3 * UNUSED_MS)).toBe(true)
  // The clock was set back.
  expect(use.isNew(start_ms)).toBe(true)
})
