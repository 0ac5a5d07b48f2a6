/** Agents by token hash. An agent speaks for its own id in its own region only. */
import { and, eq } from 'drizzle-orm'
import type { Env } from '../env.ts'
import { database, fromStore } from './database.ts'
import { IsolateCache } from './isolate-cache.ts'
import { agents } from './schema.ts'
import { AGENT_TOKEN_PREFIX, bearer, hashSecret } from './secrets.ts'

export interface AgentIdentity {
  agent: string
  region: string
}

export type AgentAuthentication =
  | { status: 'agent'; identity: AgentIdentity }
  | { status: 'refused'; reason: 'missing' | 'unknown' }

const cache = new IsolateCache<AgentIdentity>()

/** Which agent sends this request, by `Authorization: Bearer sya-…`. Throws StoreUnavailable if D1 must be asked and does not answer. */
export async function authenticateAgent(
  request: Request,
  env: Env,
  now_ms: number = Date.now(),
): Promise<AgentAuthentication> {
  const token = bearer(request.headers)
  if (token === null) return { status: 'refused', reason: 'missing' }
  if (!token.startsWith(AGENT_TOKEN_PREFIX)) return { status: 'refused', reason: 'unknown' }
  const hash = await hashSecret(env.KEY_PEPPER, token)
  const identity = await cache.get(hash, now_ms, () => fromStore(() => agentByTokenHash(env.DB, hash)))
  return identity === null ? { status: 'refused', reason: 'unknown' } : { status: 'agent', identity }
}

async function agentByTokenHash(d1: D1Database, hash: string): Promise<AgentIdentity | null> {
  const row = await database(d1)
    .select({ agent: agents.id, region: agents.region })
    .from(agents)
    .where(and(eq(agents.token_hash, hash), eq(agents.state, 'active')))
    .get()
  return row ?? null
}
