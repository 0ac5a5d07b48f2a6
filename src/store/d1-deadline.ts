/**
 * D1 with a deadline for each statement and batch. D1 may take a question and never answer it. Work under a lock that waits
 * for it would then hold that lock for ever. A statement that was given up may still be carried out, so what is written
 * through this must be an upsert or a delete that is right when it is repeated.
 */
import { inTime } from './database.ts'

export const D1_TIMEOUT_MS = 5_000

/** Statements behind their wrappers: D1 takes only its own in a batch. */
const statements = new WeakMap<D1PreparedStatement, D1PreparedStatement>()

export function withDeadline(d1: D1Database, limit_ms: number = D1_TIMEOUT_MS): D1Database {
  return new Proxy(d1, {
    get(target, name) {
      if (name === 'prepare') return (sql: string) => timed(target.prepare(sql), limit_ms)
      if (name === 'batch') {
        return (batch: D1PreparedStatement[]) =>
          inTime(target.batch(batch.map((one) => statements.get(one) ?? one)), limit_ms)
      }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

function timed(statement: D1PreparedStatement, limit_ms: number): D1PreparedStatement {
  const wrapped = new Proxy(statement, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      if (name === 'bind') return (...params: unknown[]) => timed(target.bind(...params), limit_ms)
      return (...args: unknown[]) => inTime(value.apply(target, args), limit_ms)
    },
  })
  statements.set(wrapped, statement)
  return wrapped
}
