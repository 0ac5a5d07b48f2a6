/**
 * Many rows in one statement. D1 and the SQLite of actors bind at most 100 parameters to one, so the rows travel as one JSON parameter
 * and `json_each` takes them apart; columns come from the Drizzle table, so that schema and statement cannot differ.
 */
import { getTableColumns, getTableName } from 'drizzle-orm'
import type { SQLiteTable } from 'drizzle-orm/sqlite-core'
import type { Statement } from './statements.ts'

/** Rows per statement: a lease row is under 1.5 kB, a parameter at most 2 MB. */
export const ROWS_PER_STATEMENT_MAX = 1_000

/**
 * One statement per ROWS_PER_STATEMENT_MAX rows; on conflict every column is replaced, where `unless` does not hold. Nothing
 * is written unless `where` holds.
 */
export function bulkUpsert<T extends SQLiteTable>(
  table: T,
  rows: readonly T['$inferInsert'][],
  key: readonly (keyof T['$inferSelect'] & string)[],
  { unless = null, where = null }: { unless?: string | null; where?: Statement | null } = {},
): Statement[] {
  const columns = Object.values(getTableColumns(table)).map((column) => column.name)
  const extracted = columns.map((column) => `json_extract(value, '$.${column}')`)
  const replaced = columns.filter((column) => !key.includes(column)).map((column) => `${column} = excluded.${column}`)
  const guard = unless === null ? '' : ` WHERE NOT (${unless})`
  const text = [
    `INSERT INTO ${getTableName(table)} (${columns.join(', ')})`,
    // `WHERE true`: without it SQLite's parser reads ON CONFLICT as a join's ON.
    `SELECT ${extracted.join(', ')} FROM json_each(?) WHERE ${where?.sql ?? 'true'}`,
    `ON CONFLICT (${key.join(', ')}) DO UPDATE SET ${replaced.join(', ')}${guard}`,
  ].join(' ')
  const statements: Statement[] = []
  for (let from = 0; from < rows.length; from += ROWS_PER_STATEMENT_MAX) {
    const values = JSON.stringify(rows.slice(from, from + ROWS_PER_STATEMENT_MAX))
    statements.push({ sql: text, params: [values, ...(where?.params ?? [])] })
  }
  return statements
}
