import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PLACE_KEPT_MS, PoolShards, SHARD_ENGINES_MAX, SHARDS_MAX, type ShardMember } from './pool-shards.ts'

const member = (agent: string, shard: number, engines = 1): ShardMember => ({
  agent,
  shard,
  engines,
  seats: 8 * engines,
})

/** Opens the agent's link where the table says, until it stays. */
function join(shards: PoolShards, agent: string, engines = 1, now_ms = 0): number | null {
  let shard = shards.place(agent, now_ms)
  for (let tries = 0; shard !== null && tries < 3; tries += 1) {
    const belongs = shards.joined(member(agent, shard, engines), now_ms)
    if (belongs === shard) return shard
    shard = belongs
  }
  return shard
}

describe('the shards of a pool', () => {
  it(`have at most ${SHARD_ENGINES_MAX} engines each, and there are more only when one is full`, () => {
    const shards = new PoolShards()
    for (let at = 0; at < SHARD_ENGINES_MAX; at += 1) expect(join(shards, `a${at}`)).toBe(0)
    expect(shards.view().shards).toEqual([{ shard: 0, seats: 8 * SHARD_ENGINES_MAX }])
    expect(join(shards, 'one-more')).toBe(1)
    expect(shards.shards).toEqual([0, 1])
  })

  it('keep an agent where it is, and its engines together', () => {
    const shards = new PoolShards(4)
    expect(join(shards, 'a', 3)).toBe(0)
    expect(join(shards, 'b', 2)).toBe(1)
    expect(join(shards, 'c', 1)).toBe(0)
    expect(join(shards, 'b', 2)).toBe(1)
    expect(shards.shardOf('b')).toBe(1)
    expect(shards.view().agents).toEqual({ a: 0, b: 1, c: 0 })
  })

  it('move an agent that says it has more engines than there is room for', () => {
    const shards = new PoolShards(4)
    join(shards, 'a', 3)
    expect(shards.place('b', 0)).toBe(0)
    expect(shards.joined(member('b', 0, 2), 0)).toBe(1)
    expect(shards.place('b', 0)).toBe(1)
    expect(shards.joined(member('b', 1, 2), 0)).toBe(1)
    expect(shards.joined(member('b', 0, 2), 0)).toBe(1)
  })

  it('give an agent with more engines than a shard may have one of its own', () => {
    const shards = new PoolShards(4)
    join(shards, 'a')
    expect(join(shards, 'large', 9)).toBe(1)
    expect(join(shards, 'b')).toBe(0)
  })

  it(`refuse an agent when ${SHARDS_MAX} shards are full`, () => {
    const shards = new PoolShards(1)
    for (let at = 0; at < SHARDS_MAX; at += 1) expect(join(shards, `a${at}`)).toBe(at)
    expect(join(shards, 'one-more')).toBeNull()
    shards.has(3, [])
    expect(join(shards, 'one-more')).toBe(3)
  })

  it('forget an agent that has not said hello for a while, and one that its shard does not have', () => {
    const shards = new PoolShards(1)
    join(shards, 'a')
    expect(shards.place('absent', 0)).toBe(1)
    expect(shards.place('b', PLACE_KEPT_MS - 1)).toBe(2)
    expect(shards.place('c', PLACE_KEPT_MS)).toBe(1)
    shards.has(0, [])
    expect(shards.shardOf('a')).toBeNull()
  })

  it('are fewer again when the engines fit into fewer, one agent moving at a time', () => {
    const shards = new PoolShards(4)
    for (const agent of ['a', 'b', 'c', 'd', 'e', 'f']) join(shards, agent)
    expect(shards.move(0)).toBeNull()
    shards.has(0, ['a'])
    expect(shards.move(0)).toEqual({ agent: 'e', from: 1 })
    expect(shards.move(0)).toBeNull()
    expect(shards.place('e', 0)).toBe(0)
    shards.joined(member('e', 0), 0)
    expect(shards.move(0)).toEqual({ agent: 'f', from: 1 })
    shards.joined(member('f', 0), 0)
    expect(shards.shards).toEqual([0])
    expect(shards.move(0)).toBeNull()
  })

  it('have another version whenever they are others', () => {
    const shards = new PoolShards(2)
    const seen = new Set([shards.version])
    const isNew = () => seen.size < seen.add(shards.version).size
    join(shards, 'a')
    expect(isNew()).toBe(true)
    join(shards, 'a')
    expect(isNew()).toBe(false)
    join(shards, 'a', 2)
    expect(isNew()).toBe(true)
    shards.has(0, ['a'])
    expect(isNew()).toBe(false)
    shards.has(0, [])
    expect(isNew()).toBe(true)
  })

  it('come back as they were', () => {
    const shards = new PoolShards(2)
    for (const agent of ['a', 'b', 'c']) join(shards, agent)
    const again = new PoolShards(2, 77, shards.members())
    expect(again.view()).toEqual({ ...shards.view(), version: 77 })
  })

  it('hold whatever joins and leaves, each agent in one shard that is not too full', () => {
    const event = fc.record({ agent: fc.integer({ min: 0, max: 30 }), engines: fc.integer({ min: 0, max: 6 }) })
    fc.assert(
      fc.property(fc.array(event, { maxLength: 80 }), (events) => {
        const shards = new PoolShards(4)
        const live = new Map<string, { shard: number; engines: number }>()
        const settle = (agent: string, engines: number) => {
          const shard = join(shards, agent, engines)
          if (shard !== null) live.set(agent, { shard, engines })
        }
        for (const { agent: at, engines } of events) {
          const agent = `a${at}`
          const before = live.get(agent)
          live.delete(agent)
          if (engines > 0) settle(agent, engines)
          else if (before !== undefined)
            shards.has(
              before.shard,
              [...live].filter(([, one]) => one.shard === before.shard).map(([name]) => name),
            )
          for (let move = shards.move(0); move !== null; move = shards.move(0)) {
            settle(move.agent, live.get(move.agent)?.engines ?? 1)
          }
        }
        const of = Map.groupBy(live.values(), ({ shard }) => shard)
        for (const there of of.values()) {
          const engines = there.reduce((sum, one) => sum + one.engines, 0)
          expect(there.length === 1 || engines <= 4).toBe(true)
        }
        for (const [agent, { shard }] of live) expect(shards.shardOf(agent)).toBe(shard)
      }),
    )
  })
})
