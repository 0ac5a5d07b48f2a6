/**
 * Which of its tenant's objects knows a program's run (docs/scale.md). A tenant has one object, the first shard, unless it is large.
 * A run's id names its shard, so the run stays there however many shards its tenant has later.
 */
import { hash32 } from '../wire/hash.ts'

export const TENANT_SHARDS_MAX = 16
/** It speaks for the tenant: it has the tenant's budgets and classes, and lists what all shards know. */
export const FIRST_TENANT_SHARD = 0
/** Each shard admits its share of the programs that may run, which is too coarse for fewer. */
const LIVE_PROGRAMS_MIN = 250
const SHARD_MARK = '-s'
const MARKED = /-s([1-9]\d?)$/

/** How many shards a tenant's new runs are spread over. `live_programs_max` null: no limit. */
export function shardsInUse(shards: number, live_programs_max: number | null): number {
  const most = live_programs_max === null ? shards : Math.floor(live_programs_max / LIVE_PROGRAMS_MIN)
  return Math.max(1, Math.min(shards, most, TENANT_SHARDS_MAX))
}

/** The shard of runs that a program opens. */
export function tenantShard(program: string, shards: number): number {
  return hash32(program) % shards
}

/** The shares of all shards are never more than the limit. */
export function liveProgramsShare(live_programs_max: number, shards: number): number {
  return Math.floor(live_programs_max / shards)
}

/** The run's id, which names the shard. Without a mark it is the first. */
export function inShard(run: string, shard: number): string {
  return shard === FIRST_TENANT_SHARD ? run : `${run}${SHARD_MARK}${shard}`
}

export function runShard(run: string): number {
  const [, named] = MARKED.exec(run) ?? []
  const shard = Number(named ?? FIRST_TENANT_SHARD)
  return shard < TENANT_SHARDS_MAX ? shard : FIRST_TENANT_SHARD
}

/**
 * Whether this is of a call that belongs to no program. Such a call is a program by its own id, which is its run too. The first call of
 * a conversation gives its program its id, but not the run.
 */
export function isAlone({ program, run, call }: { program: string; run: string; call: string }): boolean {
  return program === call && run === inShard(call, runShard(run))
}
