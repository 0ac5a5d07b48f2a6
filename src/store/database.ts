/**
 * D1 through Drizzle. A statement that fails throws: D1 is a dependency, and callers say what its absence means to them.
 * What a request waits for is asked through `fromStore`, so that the API's edge knows an absent D1 from a bug of ours.
 */
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1'
import type { Statement } from './statements.ts'

export type Database = DrizzleD1Database

/** D1 did not answer; `cause` is what it threw. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'

  constructor(cause: unknown) {
    super(`D1: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

/** `ask`'s answer. Every error that it throws becomes StoreUnavailable. */
export async function fromStore<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    throw new StoreUnavailable(error)
  }
}

/** `work`'s answer, or StoreUnavailable after `limit_ms`: a store that does not answer counts as one that fails. */
export async function inTime<T>(work: Promise<T>, limit_ms: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new StoreUnavailable(`no answer in ${limit_ms} ms`)), limit_ms)
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

export function database(d1: D1Database): Database {
  return drizzle(d1)
}

/** All or nothing. Rows of the last statement. */
export async function inOneTransaction<Row>(d1: D1Database, statements: readonly Statement[]): Promise<Row[]> {
  const results = await d1.batch<Row>(statements.map(({ sql, params }) => d1.prepare(sql).bind(...params)))
  return results.at(-1)?.results ?? []
}
