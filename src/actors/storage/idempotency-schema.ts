/** SQLite of an IdempotencyActor: core's rows. A row holds a client's answer for fifteen minutes at most. */
import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { KeyRow } from '../../core/call/idempotency-table.ts'

/**
 * WITHOUT ROWID, as its migration says, and by time rather than with an index of times: every row that is written or deleted
 * is billed, those of an index too.
 */
export const keysByTime = sqliteTable(
  'keys_by_time',
  {
    /** Of `at_ms` (idempotency-keys.ts). */
    bucket: integer('bucket').notNull(),
    key: text('key').notNull(),
    fingerprint: text('fingerprint').notNull(),
    call: text('call').notNull(),
    state: text('state').$type<KeyRow['state']>().notNull(),
    answer: text('answer'),
    at_ms: integer('at_ms').notNull(),
  },
  (table) => [primaryKey({ columns: [table.bucket, table.key] })],
)

/**
 * Of earlier versions, and empty, so that one of them can go on from this storage.
 * @public drizzle-kit reads it.
 */
export const keys = sqliteTable('keys', {
  key: text('key').primaryKey(),
  row: text('row').notNull(),
})
