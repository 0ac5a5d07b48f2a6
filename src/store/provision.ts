/**
 * What an operator declares (tenants with their keys, regions, models, agents), as statements for D1. Pure, so that the
 * same rows come from `npm run up`, deployment and tests. Applying it again changes only what the declaring side alone
 * knows: where regions lie, what context a model's engines have, the agents' tokens. What an operator changed since
 * stays: a tenant's share and limits, a model's order, a revoked key. Nothing is deleted.
 */
import { agents, apiKeys, models, regions, tenants } from './schema.ts'
import { verifySecret } from './secret-check.ts'
import { AGENT_TOKEN_PREFIX, API_KEY_PREFIX, hashSecret } from './secrets.ts'
import { builder, type Statement } from './statements.ts'

export interface Provision {
  created_at_ms: number
  /** `borrow_gpus_max`: 0 where it is left out. */
  tenants: readonly { id: string; name: string; weight: number; borrow_gpus_max?: number }[]
  /** Plain keys; only their hashes reach the statements. */
  keys: readonly { key: string; tenant: string; name: string }[]
  /** Nearest first where a client's place is unknown. */
  regions: readonly {
    id: string
    location_hint: string | null
    latitude: number | null
    longitude: number | null
  }[]
  models: readonly {
    id: string
    ordering_service: 'modelled' | 'wall'
    context_tokens_max: number
    bytes_per_token: number
  }[]
  /** Plain tokens; only their hashes reach the statements. */
  agents: readonly { id: string; region: string; token: string }[]
}

/** For `d1.batch(statements.map(({ sql, params }) => d1.prepare(sql).bind(...params)))`, in this order (foreign keys). */
export async function provisionStatements(pepper: string, provision: Provision): Promise<Statement[]> {
  const { created_at_ms } = provision
  const statements = [...provision.tenants.map((tenant) => insertTenant({ ...tenant, created_at_ms }))]
  for (const { key, ...rest } of provision.keys) {
    const hash = await hashSecret(pepper, key)
    const checked = (await verifySecret(pepper, API_KEY_PREFIX, key)) === 'valid'
    statements.push(insertKey({ ...rest, hash, checked, created_at_ms, revoked_at_ms: null }))
  }
  provision.regions.forEach((region, position) => {
    statements.push(upsertRegion({ ...region, position }))
  })
  statements.push(...provision.models.map((model) => upsertModel({ ...model, created_at_ms })))
  for (const { token, ...rest } of provision.agents) {
    const token_hash = await hashSecret(pepper, token)
    const checked = (await verifySecret(pepper, AGENT_TOKEN_PREFIX, token)) === 'valid'
    statements.push(upsertAgent({ ...rest, token_hash, checked, created_at_ms, state: 'active' }))
  }
  return statements
}

function insertTenant(tenant: typeof tenants.$inferInsert): Statement {
  return builder.insert(tenants).values(tenant).onConflictDoNothing().toSQL()
}

function insertKey(key: typeof apiKeys.$inferInsert): Statement {
  return builder.insert(apiKeys).values(key).onConflictDoNothing().toSQL()
}

function upsertRegion(region: typeof regions.$inferInsert): Statement {
  const { id: _, ...set } = region
  return builder.insert(regions).values(region).onConflictDoUpdate({ target: regions.id, set }).toSQL()
}

function upsertModel(model: typeof models.$inferInsert): Statement {
  const set = { context_tokens_max: model.context_tokens_max }
  return builder.insert(models).values(model).onConflictDoUpdate({ target: models.id, set }).toSQL()
}

function upsertAgent(agent: typeof agents.$inferInsert): Statement {
  const { region, token_hash, checked } = agent
  return builder
    .insert(agents)
    .values(agent)
    .onConflictDoUpdate({ target: agents.id, set: { region, token_hash, checked } })
    .toSQL()
}
