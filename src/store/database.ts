/** D1 through Drizzle. A statement that fails throws: D1 is a dependency, and callers say what its absence means to them. */
import { type DrizzleD1Database, drizzle } from 'drizzle-orm/d1'

export type Database = DrizzleD1Database

export function database(d1: D1Database): Database {
  return drizzle(d1)
}
