import { expect, it } from 'vitest'
import { runName } from './process-table.ts'
import {
  inShard,
  isAlone,
  liveProgramsShare,
  runShard,
  shardsInUse,
  TENANT_SHARDS_MAX,
  tenantShard,
} from './tenant-shards.ts'

it('a run stays in the shard that its id names', () => {
  for (let shard = 0; shard < TENANT_SHARDS_MAX; shard += 1) {
    expect(runShard(inShard(runName(1_700_000_000_000, 'suffix'), shard))).toBe(shard)
  }
})

it.each([
  '',
  'run',
  'a-b',
  'a-b-c',
  'a-b-s',
  'a-b-s0',
  'a-b-s01',
  'a-b-s-1',
  'a-b-s1.5',
  `a-b-s${TENANT_SHARDS_MAX}`,
  'a-b-s1e9',
])('an id of another form is in the first shard: %j', (run) => expect(runShard(run)).toBe(0))

it('spreads programs over all shards, and a program is always in the same one', () => {
  const counts = new Array(8).fill(0)
  for (let i = 0; i < 8_000; i += 1) counts[tenantShard(`program-${i}`, 8)] += 1
  expect(Math.min(...counts)).toBeGreaterThan(850)
  expect(Math.max(...counts)).toBeLessThan(1_150)
  expect(tenantShard('program-7', 8)).toBe(tenantShard('program-7', 8))
})

it.each([
  [1, null, 1],
  [4, null, 4],
  [99, null, TENANT_SHARDS_MAX],
  [4, 10_000, 4],
  [4, 999, 3],
  [4, 100, 1],
])('of %i shards with room for %j programs it uses %i', (shards, live_programs_max, used) => {
  expect(shardsInUse(shards, live_programs_max)).toBe(used)
  if (live_programs_max !== null) {
    expect(used * liveProgramsShare(live_programs_max, used)).toBeLessThanOrEqual(live_programs_max)
  }
})

it('a call alone has its own id as its run, in any shard; the first call of a conversation has not', () => {
  const call = '0190c9e2-5a71-7d3e-a1f0-6d2f8f1c5e5a'
  for (const shard of [0, 3]) expect(isAlone({ call, program: call, run: inShard(call, shard) })).toBe(true)
  expect(isAlone({ call, program: call, run: inShard(runName(1_700_000_000_000, 'suffix'), 3) })).toBe(false)
  expect(isAlone({ call, program: 'named', run: call })).toBe(false)
})
