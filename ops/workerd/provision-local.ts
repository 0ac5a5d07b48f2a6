/** The rows that a system on one machine needs: one tenant with its key, the regions, the model, the agents of each region. */
import { type Provision, provisionStatements } from '../../src/store/provision.ts'
import type { Secrets } from '../system/secrets.ts'
import { agentIdsOf } from './agent-ids.ts'
import type { SqlDatabase } from './d1-migrations.ts'
import { regionPlace } from './regions.ts'

const LOCAL_TENANT = 'local'
/** As many as one machine has. */
const LOCAL_BORROW_GPUS_MAX = 64
/** What English prose has with a vocabulary of 49,152 (SmolLM2); engines report their own measurement after one call. */
const BYTES_PER_TOKEN_FIRST = 4

export interface LocalSystem {
  regions: readonly string[]
  /** 1 where it is left out. */
  agents_per_region?: number
  models: readonly { id: string; context_tokens: number }[]
  secrets: Secrets
  now_ms: number
}

export async function provisionLocal(database: SqlDatabase, system: LocalSystem): Promise<void> {
  const provision = localProvision(system)
  const statements = await provisionStatements(system.secrets.keyPepper, provision)
  await database.batch(statements.map(({ sql, params }) => database.prepare(sql).bind(...params)))
}

export function localProvision(system: LocalSystem): Provision {
  const { regions, agents_per_region = 1, models, secrets, now_ms } = system
  const agents = regions.flatMap((region) => agentIdsOf(region, agents_per_region).map((id) => ({ id, region })))
  return {
    created_at_ms: now_ms,
    tenants: [{ id: LOCAL_TENANT, name: 'This machine', weight: 1, borrow_gpus_max: LOCAL_BORROW_GPUS_MAX }],
    keys: [{ key: secrets.apiKey, tenant: LOCAL_TENANT, name: 'npm run up' }],
    regions: regions.map((id) => ({ id, ...regionPlace(id) })),
    models: models.map(({ id, context_tokens }) => ({
      ...{ id, ordering_service: 'modelled' as const, context_tokens_max: context_tokens },
      bytes_per_token: BYTES_PER_TOKEN_FIRST,
    })),
    agents: agents.map(({ id, region }) => {
      const token = secrets.agentTokens[id]
      if (token === undefined) throw new Error(`agent ${id} has no token`)
      return { id, region, token }
    }),
  }
}
