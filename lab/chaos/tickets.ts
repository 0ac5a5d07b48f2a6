/**
 * Tickets that must open nothing: replayed, expired, altered, for another engine, epoch or agent, or signed with a key that
 * is not the agent's. They go straight to an agent's data plane, as an attacker on its network would send them.
 */
import { existsSync } from 'node:fs'
import Database from 'better-sqlite3'
import type { Secrets } from '../../ops/system/secrets.ts'
import {
  deriveTicketKey,
  importTicketKey,
  signTicket,
  TICKET_CLOCK_TOLERANCE_S,
  TICKET_LIFETIME_S,
  type TicketClaims,
} from '../../src/protocol/index.ts'
import { hashSecret, ticketKidOf } from '../../src/store/secrets.ts'
import type { Fleet, FleetAgent } from './fleet.ts'

const TIMEOUT_MS = 5000
/** By any clock of a chaos run: they are set by minutes (apply-fault.ts). */
const LONG_EXPIRED_S = 3600

export interface ForgedTicket {
  what: string
  ticket: string
  refused_with: string
}

/** The claims of the agent's last lease; null: it has served no call. */
export function lastClaims(agent: Pick<FleetAgent, 'outbox'>): TicketClaims | null {
  if (!existsSync(agent.outbox)) return null
  const database = new Database(agent.outbox, { readonly: true })
  const row = database.prepare('select claims from leases order by rowid desc limit 1').get() as
    | { claims: string }
    | undefined
  database.close()
  return row === undefined ? null : (JSON.parse(row.claims) as TicketClaims)
}

/** A good ticket, as the control plane of these secrets signs it. */
export async function signedFor(secrets: Secrets, agent: string, claims: TicketClaims): Promise<string> {
  const kid = ticketKidOf(await hashSecret(secrets.keyPepper, secrets.agentTokens[agent] ?? ''))
  const key = await importTicketKey(await deriveTicketKey(secrets.ticketSecret, kid, agent))
  return signTicket(claims, key, kid, Date.now() / 1000)
}

/** `expired_s`: for how long the expired one is. */
export async function forgedTickets(
  fleet: Fleet,
  agent: FleetAgent,
  used: TicketClaims,
  expired_s = 5,
): Promise<ForgedTicket[]> {
  const { ticketSecret, keyPepper, agentTokens } = fleet.secrets
  const key_id = ticketKidOf(await hashSecret(keyPepper, agentTokens[agent.id] ?? ''))
  const keyOf = async (secret: string, id: string): Promise<CryptoKey> =>
    importTicketKey(await deriveTicketKey(secret, key_id, id))
  const key = await keyOf(ticketSecret, agent.id)
  const now_s = Date.now() / 1000
  const fresh = { ...used, lease: crypto.randomUUID() }
  const sign = (claims: TicketClaims, by = key, kid = key_id, at_s = now_s): Promise<string> =>
    signTicket(claims, by, kid, at_s)
  const whole = await sign(fresh)
  const [head, , signature] = whole.split('.') as [string, string, string]
  const otherPayload = (await sign({ ...fresh, settled_service_us: 0, tenant_weight: 1000 })).split('.')[1]
  const too_old_s = now_s - TICKET_LIFETIME_S - TICKET_CLOCK_TOLERANCE_S - expired_s
  return [
    { what: 'replayed', ticket: await sign(used), refused_with: 'lease_used' },
    { what: 'expired', ticket: await sign(fresh, key, key_id, too_old_s), refused_with: 'ticket_invalid' },
    { what: 'altered', ticket: `${head}.${otherPayload}.${signature}`, refused_with: 'ticket_invalid' },
    { what: 'of another engine', ticket: await sign({ ...fresh, engine: 'e9' }), refused_with: 'ticket_wrong_engine' },
    { what: 'of another agent', ticket: await sign({ ...fresh, agent: 'a9' }), refused_with: 'ticket_wrong_engine' },
    { what: 'of another epoch', ticket: await sign({ ...fresh, epoch: 'past' }), refused_with: 'epoch_gone' },
    {
      what: 'of another agent’s key',
      ticket: await sign(fresh, await keyOf(ticketSecret, 'a9')),
      refused_with: 'ticket_invalid',
    },
    {
      what: 'of another secret',
      ticket: await sign(fresh, await keyOf('guess', agent.id)),
      refused_with: 'ticket_invalid',
    },
    { what: 'of an unknown key', ticket: await sign(fresh, key, '9'), refused_with: 'ticket_invalid' },
  ]
}

export type Shown = { status: 'refused'; code: string } | { status: 'served' } | { status: 'unreachable' }

export async function showTicket(agent: FleetAgent, model: string, ticket: string): Promise<Shown> {
  try {
    const response = await fetch(`${agent.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ticket}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'x' }], max_tokens: 1, stream: true }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
    const text = await response.text()
    if (response.status === 200) return { status: 'served' }
    return { status: 'refused', code: (JSON.parse(text) as { error: { code: string } }).error.code }
  } catch {
    // An agent that is down or stopped by another fault opens nothing either.
    return { status: 'unreachable' }
  }
}

/** What was served, or refused for another reason than it should have been. */
export async function forgeTickets(fleet: Fleet, agent: FleetAgent): Promise<string[]> {
  const used = lastClaims(agent)
  if (used === null) return []
  const found: string[] = []
  for (const { what, ticket } of await forgedTickets(fleet, agent, used, LONG_EXPIRED_S)) {
    const shown = await showTicket(agent, fleet.options.model, ticket)
    if (shown.status === 'served') found.push(`${agent.id} served a ticket that was ${what}`)
  }
  return found
}
