/**
 * What the control plane noticed about an agent, as audit rows: a flood of frames, records that cannot be true. There is
 * one row per agent, action and hour, with what was seen first in that hour. So an agent cannot fill the table.
 */
import { database } from './database.ts'
import { audit } from './schema.ts'
import { hashSecret } from './secrets.ts'

/** `actor` of such a row. */
export const NOTICED_BY = 'control-plane'
const HOUR_MS = 60 * 60_000
const ID_TIME_CHARS = 9
const ID_HASH_CHARS = 12
/** Rows that an isolate remembers to have written. */
const REMEMBERED_MAX = 1_000

export interface AgentFlag {
  agent: string
  /** `agent.flooded`: its links were closed. `agent.record_lowered`: a record stated more than its call can have used. */
  action: 'agent.flooded' | 'agent.record_lowered'
  seen: Readonly<Record<string, string | number | readonly string[]>>
}

const written = new Set<string>()

export async function flagAgent(d1: D1Database, { agent, action, seen }: AgentFlag, now_ms: number): Promise<void> {
  const hour_ms = now_ms - (now_ms % HOUR_MS)
  // Not a secret: the hash only makes the id short.
  const hash = (await hashSecret(action, agent)).slice(0, ID_HASH_CHARS)
  const id = `${hour_ms.toString(36).padStart(ID_TIME_CHARS, '0')}-${hash}`
  if (written.has(id)) return
  await database(d1)
    .insert(audit)
    .values({
      ...{ id, at_ms: now_ms, actor: NOTICED_BY, action, object: `agent:${agent}` },
      ...{ before_json: null, after_json: JSON.stringify(seen) },
    })
    .onConflictDoNothing()
  written.add(id)
  for (const oldest of written) {
    if (written.size <= REMEMBERED_MAX) break
    written.delete(oldest)
  }
}
