import { expect, it } from 'vitest'
import { POOLS_REMEMBERED_MAX, PoolMemory } from './pool-memory.ts'
import { MODEL, snapshotOf } from './testing/world.ts'

it('keeps the last snapshot of a pool', () => {
  const pools = new PoolMemory()
  pools.remember(snapshotOf(['a']))
  pools.remember({ ...snapshotOf(['b']), version: 2 })
  expect(pools.recall('near', MODEL)).toMatchObject({ version: 2, engines: [{ engine: 'b' }] })
  expect(pools.recall('near', 'other')).toBeNull()
  expect(pools.size).toBe(1)
})

it('holds as many pools as its bound; one more puts out the one heard of longest ago', () => {
  const pools = new PoolMemory()
  for (let region = 0; region < POOLS_REMEMBERED_MAX; region += 1) pools.remember(snapshotOf([], `r${region}`))
  expect(pools.size).toBe(POOLS_REMEMBERED_MAX)
  pools.remember(snapshotOf([], 'r0'))
  pools.remember(snapshotOf([], 'another'))
  expect(pools.size).toBe(POOLS_REMEMBERED_MAX)
  expect(pools.recall('r0', MODEL)).not.toBeNull()
  expect(pools.recall('r1', MODEL)).toBeNull()
})

it('takes the ratio of bytes to tokens from the first region that has measured it', () => {
  const pools = new PoolMemory()
  pools.remember(snapshotOf([], 'near'))
  pools.remember({ ...snapshotOf([], 'far'), bytes_per_token: 3.5 })
  expect(pools.bytesPerToken(['near', 'far'], MODEL)).toBe(3.5)
  expect(pools.bytesPerToken(['near'], MODEL)).toBeNull()
})
