/**
 * Changes that are audited. An operator's change and its audit row are one D1 batch, which is one transaction, so neither
 * exists without the other. SQL reads the values before and after inside that transaction, so two operators at once cannot
 * record each other's changes. Hashes of secrets are left out. A key is named by its id.
 */
import { and, desc, eq, getTableColumns, lt, type SQL, sql } from 'drizzle-orm'
import type { SQLiteTable } from 'drizzle-orm/sqlite-core'
import { z } from 'zod'
import { database, inOneTransaction } from './database.ts'
import { audit } from './schema.ts'
import { hashSecret } from './secrets.ts'
import { type Statement, statementOf } from './statements.ts'

const FINGERPRINT_CHARS = 12
const ID_TIME_CHARS = 9
const ID_RANDOM_CHARS = 12
/** Columns that no audit row and no answer shows. */
const SECRET_COLUMNS: readonly string[] = ['hash', 'token_hash']
/** Columns that hold JSON: shown as what they hold. */
const JSON_COLUMNS: readonly string[] = ['models', 'regions', 'class_weights', 'price_changes', 'budget']

export interface Auditor {
  /** Fingerprint of the key that acts. */
  actor: string
  at_ms: number
}

export interface AuditedObject {
  /** Kind and id, `tenant:acme`. */
  name: string
  table: SQLiteTable
  /** Picks the one row. */
  where: SQL
  /** What must hold of it to be changed, where that is more than being there. */
  guard?: SQL
  /** Fields shown beside the columns. */
  extra?: Readonly<Record<string, SQL>>
}

const Row = z.record(z.string(), z.unknown())
export type AuditedRow = z.infer<typeof Row>

/** `created`: the row must not be there before. `changed`: it must. `refused`: it was not so, and nothing was changed. */
export type AuditedOutcome = { status: 'done'; after: AuditedRow } | { status: 'refused' }

export async function auditorOf(pepper: string, adminKey: string, at_ms: number): Promise<Auditor> {
  const fingerprint = (await hashSecret(pepper, adminKey)).slice(0, FINGERPRINT_CHARS)
  return { actor: `admin-${fingerprint}`, at_ms }
}

/** `change` must itself do nothing where the object is (or is not) there: it runs in any case. */
export async function audited(
  d1: D1Database,
  auditor: Auditor,
  kind: 'created' | 'changed',
  action: string,
  object: AuditedObject,
  change: Statement,
): Promise<AuditedOutcome> {
  const id = auditId(auditor.at_ms)
  const shown = sql`(SELECT ${viewOf(object)} FROM ${object.table} WHERE ${object.where})`
  const exists = sql`EXISTS (SELECT 1 FROM ${object.table} WHERE ${object.guard ?? object.where})`
  const { actor, at_ms } = auditor
  const rows = await inOneTransaction<{ after_json: string }>(d1, [
    statementOf(
      sql`INSERT INTO audit (id, at_ms, actor, action, object, before_json)
        SELECT ${id}, ${at_ms}, ${actor}, ${action}, ${object.name}, ${shown}
        WHERE ${kind === 'created' ? sql`NOT ${exists}` : exists}`,
    ),
    change,
    statementOf(sql`UPDATE audit SET after_json = ${shown} WHERE id = ${id}`),
    statementOf(sql`SELECT after_json FROM audit WHERE id = ${id}`),
  ])
  const [row] = rows
  return row === undefined ? { status: 'refused' } : { status: 'done', after: Row.parse(JSON.parse(row.after_json)) }
}

/**
 * An act that changes no row of D1, as ending a program. Its row is written before the act, so no act goes without one.
 * `change`: what it changes, where that is a value.
 */
export async function auditAct(
  d1: D1Database,
  auditor: Auditor,
  action: string,
  object: string,
  change: { before: AuditedRow; after: AuditedRow } | null = null,
): Promise<void> {
  const { actor, at_ms } = auditor
  const before_json = change === null ? null : JSON.stringify(change.before)
  const after_json = change === null ? null : JSON.stringify(change.after)
  await database(d1)
    .insert(audit)
    .values({ id: auditId(at_ms), at_ms, actor, action, object, before_json, after_json })
}

/** A table's row as JSON, without secrets. */
function viewOf({ table, extra = {} }: AuditedObject): SQL {
  const parts: SQL[] = Object.entries(extra).flatMap(([name, value]) => [sql.raw(`'${name}'`), value])
  for (const [name, column] of Object.entries(getTableColumns(table))) {
    if (SECRET_COLUMNS.includes(name)) continue
    parts.push(sql.raw(`'${name}'`), JSON_COLUMNS.includes(name) ? sql`json(${column})` : sql`${column}`)
  }
  return sql`json_object(${sql.join(parts, sql`, `)})`
}

function auditId(at_ms: number): string {
  const random = crypto.randomUUID().replaceAll('-', '').slice(0, ID_RANDOM_CHARS)
  return `${at_ms.toString(36).padStart(ID_TIME_CHARS, '0')}-${random}`
}

export interface AuditEntry {
  id: string
  at_ms: number
  actor: string
  action: string
  object: string
  before: AuditedRow | null
  after: AuditedRow | null
}

/** The latest first, after `position`. */
export async function auditPage(
  d1: D1Database,
  filter: { object: string | null; after: string | null },
  limit: number,
): Promise<AuditEntry[]> {
  const ofObject = filter.object === null ? undefined : eq(audit.object, filter.object)
  const older = filter.after === null ? undefined : lt(audit.id, filter.after)
  const rows = await database(d1).select().from(audit).where(and(ofObject, older)).orderBy(desc(audit.id)).limit(limit)
  return rows.map(({ before_json, after_json, ...row }) => ({
    ...row,
    before: before_json === null ? null : Row.parse(JSON.parse(before_json)),
    after: after_json === null ? null : Row.parse(JSON.parse(after_json)),
  }))
}
