/**
 * What of a client's body goes to a front: its binding fields, and the hints that the front applies. The relay sorts the
 * same fields by the same table before it dispatches (src/protocol/request-fields.ts). Here it is done again, because the
 * hints depend on the engine, and because relay and agent may be of different versions.
 */
import { sortFields } from '../../../src/core/call/request-fields.ts'
import {
  CHAT_BODY_FIELDS,
  COMPLETION_BODY_FIELDS,
  EMBEDDING_BODY_FIELDS,
  type FieldTable,
  NATIVE_BODY_FIELDS,
} from '../../../src/protocol/request-fields.ts'
import type { Dialect } from '../fronts/engine-front.ts'

const TABLES: Readonly<Record<Dialect, FieldTable>> = {
  chat: CHAT_BODY_FIELDS,
  completions: COMPLETION_BODY_FIELDS,
  embeddings: EMBEDDING_BODY_FIELDS,
  ...NATIVE_BODY_FIELDS,
}

export interface AcceptedFields {
  body: unknown
  /** Hints that the client gave and the engine does not apply. */
  not_applied: readonly string[]
}

export function acceptFields(dialect: Dialect, body: unknown, hints: ReadonlySet<string>): AcceptedFields {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return { body, not_applied: [] }
  const sorted = sortFields(body as Record<string, unknown>, TABLES[dialect], (field) => hints.has(field))
  const not_applied = sorted.hints.fields.map(({ field }) => field).filter((field) => !hints.has(field))
  return { body: sorted.body, not_applied }
}
