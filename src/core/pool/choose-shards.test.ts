import { describe, expect, it } from 'vitest'
import {
  agentOfEngine,
  ONE_SHARD,
  SHARD_LOAD_MARGIN,
  SHARD_VIEW_MS_MAX,
  shardLoad,
  shardsToAsk,
} from './choose-shards.ts'
import type { ShardsView } from './pool-shards.ts'
import type { EngineSnapshot, PoolSnapshot } from './pool-types.ts'
import { RegionWalk } from './regions.ts'

const VIEW: ShardsView = {
  version: 1,
  shards: [0, 1, 2, 3].map((shard) => ({ shard, seats: 100 })),
  agents: { 'agent-0': 0, 'agent-3': 3 },
}
const PIN = { region: 'r', model: 'm', engine: 'agent-3-e7', epoch: 'x' }
const unknown = () => null
const draw = (program: string, view = VIEW, loadOf: (shard: number) => number | null = unknown) =>
  shardsToAsk(view, { program, pin: null, loadOf }).others
const programs = Array.from({ length: 4_000 }, (_, at) => `program-${at}`)

describe('the shards that a call asks', () => {
  it('are the first, where no others are known', () => {
    expect(shardsToAsk(null, { program: 'p', pin: PIN, loadOf: unknown })).toEqual(ONE_SHARD)
    const one = { version: 2, shards: [{ shard: 0, seats: 9 }], agents: {} }
    expect(shardsToAsk(one, { program: 'p', pin: PIN, loadOf: unknown })).toEqual(ONE_SHARD)
  })

  it('begin with the pin’s, and leave it out of the two that are drawn', () => {
    for (const program of programs.slice(0, 100)) {
      const { home, others } = shardsToAsk(VIEW, { program, pin: PIN, loadOf: unknown })
      expect(home).toBe(3)
      expect(others).not.toContain(3)
    }
    const gone = { ...PIN, engine: 'agent-9-e0' }
    expect(shardsToAsk(VIEW, { program: 'p', pin: gone, loadOf: unknown }).home).toBeNull()
  })

  it('are the same for each call of a program, and the first tells of changes', () => {
    for (const program of programs.slice(0, 100)) {
      expect(draw(program)).toEqual(draw(program))
      expect(draw(program)).toContain(0)
      expect(new Set(draw(program)).size).toBe(draw(program).length)
    }
  })

  it('are drawn by their seats', () => {
    const uneven = { ...VIEW, shards: VIEW.shards.map(({ shard }) => ({ shard, seats: shard === 2 ? 300 : 100 })) }
    const share = (view: ShardsView, of: number) =>
      programs.filter((program) => draw(program, view)[0] === of).length / programs.length
    expect(share(VIEW, 2)).toBeCloseTo(1 / 4, 1)
    expect(share(uneven, 2)).toBeCloseTo(1 / 2, 1)
  })

  it('stay those of a program when another shard comes or goes', () => {
    const more = { ...VIEW, shards: [...VIEW.shards, { shard: 4, seats: 100 }] }
    const moved = programs.filter((program) => draw(program, more)[0] !== draw(program)[0])
    expect(moved.length / programs.length).toBeCloseTo(1 / 5, 1)
    for (const program of moved) expect(draw(program, more)[0]).toBe(4)
  })

  it('change places when the second is emptier by the margin, and its load is known', () => {
    const [first, second] = draw('p') as [number, number]
    const loads = (mine: number | null, other: number | null) => (shard: number) =>
      shard === first ? mine : shard === second ? other : null
    expect(draw('p', VIEW, loads(0, -SHARD_LOAD_MARGIN - 0.01))[0]).toBe(second)
    expect(draw('p', VIEW, loads(0, -SHARD_LOAD_MARGIN))[0]).toBe(first)
    expect(draw('p', VIEW, loads(9, null))[0]).toBe(first)
    expect(draw('p', VIEW, loads(null, -1))[0]).toBe(first)
  })
})

it('the load of a shard is that of its ready engines, and an old view has none', () => {
  const engine = { state: 'ready', seats: 4, waiting: 1, running: 4, leases_since_report: 1 } as EngineSnapshot
  const seen = { taken_at_ms: 1_000, engines: [engine, { ...engine, state: 'silent' }] } as unknown as PoolSnapshot
  expect(shardLoad(seen, 1_000 + SHARD_VIEW_MS_MAX)).toBe(0.5)
  expect(shardLoad(seen, 1_001 + SHARD_VIEW_MS_MAX)).toBeNull()
  expect(shardLoad({ ...seen, engines: [] }, 1_000)).toBeNull()
})

it('an engine is its agent’s up to the last dash', () => {
  expect(agentOfEngine('agent-3-e7')).toBe('agent-3')
  expect(agentOfEngine('odd')).toBe('')
})

describe('a walk through a pool of shards', () => {
  const call = { pin: PIN, prompt_tokens_estimate: 1e6 }
  const shardsOf = () => ({ home: 3, others: [1, 2, 0] })
  const walkOf = (regions: string[]) => new RegionWalk(regions, call, 0.25, 2048, shardsOf)
  const granted = { status: 'leased' } as never

  it('ends in the pin’s shard, if that has room', () => {
    const walk = walkOf(['r'])
    expect(walk.next()).toEqual({ region: 'r', shard: 3, max_load: 0.25, spilled: false })
    walk.answer(granted)
    expect(walk.verdict()).toMatchObject({ status: 'leased', region: 'r', shard: 3, spilled: false })
  })

  it('asks the better of two for less than the pin’s shard has, and comes back when there is none', () => {
    const walk = walkOf(['r'])
    walk.next()
    walk.answer({ status: 'busy', load: 0.5 })
    expect(walk.next()).toEqual({ region: 'r', shard: 1, max_load: 0.5, spilled: true, left_pin: true })
    walk.answer({ status: 'busy', load: 0.8 })
    expect(walk.next()).toEqual({ region: 'r', shard: 3, max_load: null, spilled: false })
  })

  it('goes on to the next region before it asks all shards, and on to further shards where one has no engine', () => {
    const walk = walkOf(['r', 'far'])
    walk.next()
    walk.answer({ status: 'none', retry_after_s: 5 })
    expect(walk.next()).toEqual({ region: 'r', shard: 1, max_load: 0.25, spilled: false })
    walk.answer({ status: 'unreachable' })
    expect(walk.next()).toMatchObject({ region: 'r', shard: 2 })
    walk.answer({ status: 'busy', load: 3 })
    expect(walk.next()).toMatchObject({ region: 'far' })
  })

  it('learns of shards while it goes', () => {
    let known = ONE_SHARD
    const walk = new RegionWalk(['r'], call, 0.25, 2048, () => known)
    expect(walk.next()).toEqual({ region: 'r', max_load: null, spilled: false })
    known = { home: 3, others: [1, 2, 0] }
    walk.answer({ status: 'none', retry_after_s: 5 })
    expect(walk.next()).toMatchObject({ region: 'r', shard: 3, spilled: false })
  })

  it('ends when no shard has an engine', () => {
    const walk = walkOf(['r'])
    let asked = 0
    for (; walk.next() !== null; asked += 1) walk.answer({ status: 'none', retry_after_s: 5 })
    expect(asked).toBe(4)
    expect(walk.verdict()).toEqual({ status: 'none', retry_after_s: 5 })
  })
})
