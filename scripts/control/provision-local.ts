/** The rows that a system on one machine needs: one tenant with its key, the regions, the model, one agent per region. */
import { type Provision, provisionStatements } from '../../src/store/provision.ts'
import type { Secrets } from '../ops/secrets.ts'
import type { SqlDatabase } from './d1-migrations.ts'
import { regionPlace } from './regions.ts'

const LOCAL_TENANT = 'local'
/** What English prose has with a vocabulary of 49,152 (SmolLM2); engines report their own measurement after one call. */
const BYTES_PER_TOKEN_FIRST = 4

export interface LocalSystem {
  regions: readonly string[]
  model: string
  context_tokens_max: number
  secrets: Secrets
  now_ms: number
}

/** The one agent of a region. */
export function agentIdOf(region: string): string {
  return `${region}-1`
}

export async function provisionLocal(database: SqlDatabase, system: LocalSystem): Promise<void> {
  const provision = localProvision(system)
  const statements = await provisionStatements(system.secrets.keyPepper, provision)
  await database.batch(statements.map(({ sql, params }) => database.prepare(sql).bind(...params)))
}

export function localProvision({ regions, model, context_tokens_max, secrets, now_ms }: LocalSystem): Provision {
  return {
    created_at_ms: now_ms,
    tenants: [{ id: LOCAL_TENANT, name: 'This machine', weight: 1 }],
    keys: [{ key: secrets.apiKey, tenant: LOCAL_TENANT, name: 'npm run up' }],
    regions: regions.map((id) => ({ id, ...regionPlace(id) })),
    models: [{ id: model, ordering_service: 'modelled', context_tokens_max, bytes_per_token: BYTES_PER_TOKEN_FIRST }],
    agents: regions.map((region) => {
      const id = agentIdOf(region)
      const token = secrets.agentTokens[id]
      if (token === undefined) throw new Error(`agent ${id} has no token`)
      return { id, region, token }
    }),
  }
}
