/**
 * The actors as the relay and the API see them. workerd's own stub types wrap results in disposables and lose discriminated
 * unions. Every method here takes and returns plain structured-cloneable values, so the contracts hold.
 */
import { keyShard } from '../core/call/idempotency-shards.ts'
import { FIRST_SHARD } from '../core/pool/pool-shards.ts'
import { FIRST_TENANT_SHARD } from '../core/program/tenant-shards.ts'
import type { Env } from '../env.ts'
import { type ApplicationRpc, applicationActorName } from './application/application-rpc.ts'
import { type BatchRpc, batchActorName } from './batch/batch-rpc.ts'
import {
  type ArchiveRpc,
  type ClassRpc,
  type ConversationRpc,
  classActorName,
  conversationActorName,
  type IdempotencyRpc,
  idempotencyActorName,
  type PoolRpc,
  type ProgramRpc,
  poolActorName,
  programActorName,
  type TenantRpc,
  tenantActorName,
} from './contracts.ts'
import type { HostsRpc } from './hosts-rpc.ts'
import { type ResponsesRpc, responsesActorName } from './responses-rpc.ts'

/** `home`: where the object is created if it does not exist yet. Null: near the caller. */
export function programActor(
  env: Env,
  tenant: string,
  program: string,
  home: DurableObjectLocationHint | null = null,
): ProgramRpc {
  const options = home === null ? undefined : { locationHint: home }
  return env.PROGRAM.getByName(programActorName(tenant, program), options) as unknown as ProgramRpc
}

/** Left out, the tenant has one shard. */
export function idempotencyActor(env: Env, tenant: string, key: string, tenant_shards = 1): IdempotencyRpc {
  return idempotencyShard(env, tenant, keyShard(key, tenant_shards))
}

export function idempotencyShard(env: Env, tenant: string, shard: number): IdempotencyRpc {
  return env.IDEMPOTENCY.getByName(idempotencyActorName(tenant, shard)) as unknown as IdempotencyRpc
}

export function conversationActor(env: Env, tenant: string, shard: number): ConversationRpc {
  return env.CONVERSATION.getByName(conversationActorName(tenant, shard)) as unknown as ConversationRpc
}

/** The stub of a shard, for RPC and for an agent's link. The hint counts only when the object is created: objects never move. */
export function poolStub(
  env: Env,
  region: { id: string; location_hint: string | null },
  model: string,
  shard: number = FIRST_SHARD,
) {
  const name = poolActorName(region.id, model, shard)
  if (region.location_hint === null) return env.POOL.getByName(name)
  return env.POOL.getByName(name, { locationHint: region.location_hint as DurableObjectLocationHint })
}

/** Left out, the shard is the first, which speaks for the pool. */
export function poolActor(
  env: Env,
  region: { id: string; location_hint: string | null },
  model: string,
  shard?: number,
): PoolRpc {
  return poolStub(env, region, model, shard) as unknown as PoolRpc
}

export function responsesActor(env: Env, tenant: string, shard: number): ResponsesRpc {
  return env.RESPONSES.getByName(responsesActorName(tenant, shard)) as unknown as ResponsesRpc
}

export function archiveActor(env: Env, tenant: string, shard: number): ArchiveRpc {
  return env.ARCHIVE.getByName(tenantActorName(tenant, shard)) as unknown as ArchiveRpc
}

export function classActor(env: Env, tenant: string, name: string): ClassRpc {
  return env.CLASS.getByName(classActorName(tenant, name)) as unknown as ClassRpc
}

export function batchActor(env: Env, tenant: string, batch: string): BatchRpc {
  return env.BATCH.getByName(batchActorName(tenant, batch)) as unknown as BatchRpc
}

export function applicationActor(env: Env, tenant: string, application: string): ApplicationRpc {
  return env.APPLICATION.getByName(applicationActorName(tenant, application)) as unknown as ApplicationRpc
}

/** Left out, the shard is the first, which speaks for the tenant. */
export function tenantActor(env: Env, tenant: string, shard: number = FIRST_TENANT_SHARD): TenantRpc {
  return env.TENANT.getByName(tenantActorName(tenant, shard)) as unknown as TenantRpc
}

/** There is one for the deployment. */
const HOSTS_NAME = 'hosts'

/** The stub, for RPC and for an agent's host link. */
export function hostsStub(env: Env) {
  return env.HOSTS.getByName(HOSTS_NAME)
}

export function hostsActor(env: Env): HostsRpc {
  return hostsStub(env) as unknown as HostsRpc
}
