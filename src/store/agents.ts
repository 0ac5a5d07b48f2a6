/**
 * Agents by token hash. An agent speaks for its own id in its own region only. The id of its ticket key follows from its
 * token, so a new token makes a new key, and engines reject tickets under the old one.
 *
 * A removed agent opens no link. It may deliver records of calls that it served before for REMOVED_RECORDS_MS: they carry
 * a proof (core) and lose the tenant nothing.
 */
import { and, asc, eq, gt, ne, sql } from 'drizzle-orm'
import type { Env } from '../env.ts'
import { type AuditedObject, type AuditedOutcome, type Auditor, audited } from './audit.ts'
import { database, fromStore } from './database.ts'
import { IsolateCache } from './isolate-cache.ts'
import { agents } from './schema.ts'
import { UNCHECKED_HASH_CHARS, UNCHECKED_LISTED_MAX, UncheckedSecrets, verifySecret } from './secret-check.ts'
import { AGENT_TOKEN_PREFIX, bearer, hashSecret, ticketKidOf } from './secrets.ts'
import { builder } from './statements.ts'

/** Longer than any call may run on its engine, and an hour of an outbox that could not reach us. */
export const REMOVED_RECORDS_MS = 2 * 60 * 60 * 1000

export interface AgentIdentity {
  agent: string
  region: string
  state: Agent['state']
  /** Id of the key that signs this agent's tickets. */
  ticket_kid: string
}

export type AgentAuthentication =
  | { status: 'agent'; identity: AgentIdentity }
  | { status: 'refused'; reason: 'missing' | 'unknown' }

export type Agent = Omit<typeof agents.$inferSelect, 'token_hash' | 'checked'>

type Known = AgentIdentity & { removed_at_ms: number | null }

const cache = new IsolateCache<Known>()
const unchecked = new UncheckedSecrets()

/**
 * Which agent sends this request, by `Authorization: Bearer sya-…`. `fresh`: D1 is asked, and what the isolate remembers
 * counts only if D1 does not answer. Throws StoreUnavailable if D1 must be asked and does not answer.
 */
export async function authenticateAgent(
  request: Request,
  env: Env,
  now_ms: number = Date.now(),
  age: 'cached' | 'fresh' = 'cached',
): Promise<AgentAuthentication> {
  const token = bearer(request.headers)
  if (token === null) return { status: 'refused', reason: 'missing' }
  if (!token.startsWith(AGENT_TOKEN_PREFIX)) return { status: 'refused', reason: 'unknown' }
  const hash = await hashSecret(env.KEY_PEPPER, token)
  const load = () => lookUp(env, token, hash, now_ms)
  const known = age === 'fresh' ? await cache.refresh(hash, now_ms, load) : await cache.get(hash, now_ms, load)
  if (known === null) return { status: 'refused', reason: 'unknown' }
  const { removed_at_ms, ...identity } = known
  const isOver = removed_at_ms !== null && now_ms - removed_at_ms > REMOVED_RECORDS_MS
  return isOver ? { status: 'refused', reason: 'unknown' } : { status: 'agent', identity }
}

/** D1 is asked only for tokens that may exist. */
async function lookUp(env: Env, token: string, hash: string, now_ms: number): Promise<Known | null> {
  const check = await verifySecret(env.KEY_PEPPER, AGENT_TOKEN_PREFIX, token)
  if (check === 'invalid') return null
  const list = () => fromStore(() => uncheckedHashes(env.DB))
  if (check === 'unchecked' && !(await unchecked.mayExist(hash, now_ms, list))) return null
  return fromStore(() => agentByTokenHash(env.DB, hash))
}

async function uncheckedHashes(d1: D1Database): Promise<string[]> {
  const rows = await database(d1)
    .select({ start: sql<string>`substr(${agents.token_hash}, 1, ${UNCHECKED_HASH_CHARS})` })
    .from(agents)
    .where(sql`checked = 0`)
    .orderBy(asc(agents.token_hash))
    .limit(UNCHECKED_LISTED_MAX)
  return rows.map(({ start }) => start)
}

async function agentByTokenHash(d1: D1Database, hash: string): Promise<Known | null> {
  const { id: agent, region, state, removed_at_ms } = agents
  const row = await database(d1)
    .select({ agent, region, state, removed_at_ms })
    .from(agents)
    .where(eq(agents.token_hash, hash))
    .get()
  return row === undefined ? null : { ...row, ticket_kid: ticketKidOf(hash) }
}

const columns = {
  id: agents.id,
  region: agents.region,
  created_at_ms: agents.created_at_ms,
  state: agents.state,
  removed_at_ms: agents.removed_at_ms,
}

/** `refused`: an agent of this id exists, or once did. The region must be there. */
export function insertAgent(
  d1: D1Database,
  auditor: Auditor,
  agent: { id: string; region: string; token_hash: string; checked: boolean },
): Promise<AuditedOutcome> {
  const row = { ...agent, created_at_ms: auditor.at_ms, state: 'active' as const }
  const change = builder.insert(agents).values(row).onConflictDoNothing().toSQL()
  return audited(d1, auditor, 'created', 'agent.create', objectOf(agent.id), change)
}

export type AgentAction = 'rotate' | 'drain' | 'undrain' | 'remove'

/** `refused`: there is no such agent, or it was removed. */
export function changeAgent(
  d1: D1Database,
  auditor: Auditor,
  id: string,
  action: AgentAction,
  change: Partial<typeof agents.$inferInsert>,
): Promise<AuditedOutcome> {
  const object = objectOf(id)
  const present = and(eq(agents.id, id), ne(agents.state, 'removed'))
  const statement = builder.update(agents).set(change).where(present).toSQL()
  return audited(d1, auditor, 'changed', `agent.${action}`, { ...object, guard: sql`${present}` }, statement)
}

export async function agentById(d1: D1Database, id: string): Promise<Agent | null> {
  return (await database(d1).select(columns).from(agents).where(eq(agents.id, id)).get()) ?? null
}

/** In order of their ids, after `after`. */
export async function agentsPage(
  d1: D1Database,
  filter: { region: string | null; after: string | null },
  limit: number,
): Promise<Agent[]> {
  const ofRegion = filter.region === null ? undefined : eq(agents.region, filter.region)
  const beyond = filter.after === null ? undefined : gt(agents.id, filter.after)
  return database(d1).select(columns).from(agents).where(and(ofRegion, beyond)).orderBy(asc(agents.id)).limit(limit)
}

function objectOf(id: string): AuditedObject {
  return { name: `agent:${id}`, table: agents, where: sql`${agents.id} = ${id}` }
}
