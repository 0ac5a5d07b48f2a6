/** Which databases may have rows of a tenant's ended programs (store/archive.ts). D1 has those that were archived before ArchiveActors kept them. */
import { runShard } from '../core/program/tenant-shards.ts'
import type { Env } from '../env.ts'
import type { ArchiveStore, Databases } from '../store/archive.ts'
import { databaseOver } from '../store/sql-database.ts'
import { archiveActor, tenantActor } from './stubs.ts'

/** All of them. Rejects if the tenant's actor cannot be reached. */
export async function archiveDatabases(env: Env, tenant: string): Promise<Databases> {
  const shards = await tenantActor(env, tenant).shardCount()
  const { databases } = storeOf(env, tenant, [...Array(shards).keys()])
  return databases
}

/** Those that may have this run. */
export function archiveStoreOfRun(env: Env, tenant: string, run: string): ArchiveStore {
  return storeOf(env, tenant, [runShard(run)])
}

function storeOf(env: Env, tenant: string, shards: readonly number[]): ArchiveStore {
  const own = shards.map((shard) => {
    const actor = archiveActor(env, tenant, shard)
    return databaseOver((statements) => actor.run(statements))
  })
  return { databases: [...own, env.DB], BUCKET: env.BUCKET }
}
