/** Statements as text and parameters: built in one place, run in another (D1, Miniflare, a batch that is one transaction). */
import type { SQL } from 'drizzle-orm'
import { SQLiteAsyncDialect } from 'drizzle-orm/sqlite-core'
import { drizzle } from 'drizzle-orm/sqlite-proxy'

export interface Statement {
  sql: string
  params: unknown[]
}

/** Writes SQL and never runs it: `builder.update(…).toSQL()`. */
export const builder = drizzle(async () => ({ rows: [] }))

const dialect = new SQLiteAsyncDialect()

export function statementOf(query: SQL): Statement {
  const { sql, params } = dialect.sqlToQuery(query)
  return { sql, params }
}

/** All or nothing. Rows of the last statement. */
export async function inOneTransaction<Row>(d1: D1Database, statements: readonly Statement[]): Promise<Row[]> {
  const results = await d1.batch<Row>(statements.map(({ sql, params }) => d1.prepare(sql).bind(...params)))
  return results.at(-1)?.results ?? []
}
