/** SQLite of an IdempotencyActor: core's rows as JSON, by key. A row holds a client's answer for ten minutes at most. */
import { sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const keys = sqliteTable('keys', {
  key: text('key').primaryKey(),
  row: text('row').notNull(),
})
