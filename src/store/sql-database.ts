/** The SQLite of an actor in D1's interface, so that the same statements read and write both. */
import type { SqlRows, Statement } from './statements.ts'

/** Runs all statements in one transaction, or none. One answer for each. */
export type RunStatements = (statements: readonly Statement[]) => Promise<SqlRows[]>

/** What this project and Drizzle use of D1. */
export function databaseOver(run: RunStatements): D1Database {
  const texts = new WeakMap<object, Statement>()
  const prepared = (statement: Statement): object => {
    const one = async (): Promise<SqlRows> => (await run([statement]))[0] ?? { columns: [], rows: [] }
    const made = {
      bind: (...params: unknown[]) => prepared({ sql: statement.sql, params }),
      all: async () => resultOf(await one()),
      run: async () => resultOf(await one()),
      raw: async () => (await one()).rows,
    }
    texts.set(made, statement)
    return made
  }
  const batch = async (batch: readonly object[]) => {
    const statements = batch.map((one) => {
      const statement = texts.get(one)
      if (statement === undefined) throw new Error('a batch takes statements of its own database')
      return statement
    })
    return (await run(statements)).map(resultOf)
  }
  const database: unknown = { prepare: (sql: string) => prepared({ sql, params: [] }), batch }
  return database as D1Database
}

function resultOf({ columns, rows }: SqlRows) {
  const results = rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at]])))
  return { success: true, results, meta: {} }
}

/** Whether it changes nothing: an actor that has stored nothing then has nothing to say, and needs no tables for it. */
export function onlyReads({ sql }: Statement): boolean {
  return /^\s*select\b/i.test(sql)
}
