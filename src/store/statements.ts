/** Statements as text and parameters: built in one place, run in another (D1, Miniflare, a batch that is one transaction). */
import type { SQL } from 'drizzle-orm'
import { SQLiteAsyncDialect } from 'drizzle-orm/sqlite-core'
import { drizzle } from 'drizzle-orm/sqlite-proxy'

export interface Statement {
  sql: string
  params: unknown[]
}

export type SqlValue = string | number | null | ArrayBuffer

/** What a statement answers. */
export interface SqlRows {
  columns: string[]
  rows: SqlValue[][]
}

/** Writes SQL and never runs it: `builder.update(…).toSQL()`. */
export const builder = drizzle(async () => ({ rows: [] }))

const dialect = new SQLiteAsyncDialect()

export function statementOf(query: SQL): Statement {
  const { sql, params } = dialect.sqlToQuery(query)
  return { sql, params }
}
