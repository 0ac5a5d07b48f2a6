/**
 * SQLite of a ProgramActor: core's rows as JSON, by run. At most one run is running. Ended runs stay until D1 has them. A call
 * and its leases are one row, since each row that is written is billed.
 */
import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const runs = sqliteTable('runs', {
  run: text('run').primaryKey(),
  row: text('row').notNull(),
})

export const calls = sqliteTable(
  'calls',
  {
    run: text('run').notNull(),
    position: integer('position').notNull(),
    row: text('row').notNull(),
    /** A list. Null: an earlier version wrote the row, and its leases are in their own table. */
    leases: text('leases'),
  },
  (table) => [primaryKey({ columns: [table.run, table.position] })],
)

/** Written by earlier versions, and not made any more. A call that changed since has its leases in its own row. */
export const leases = sqliteTable(
  'leases',
  {
    run: text('run').notNull(),
    lease: text('lease').notNull(),
    row: text('row').notNull(),
  },
  (table) => [primaryKey({ columns: [table.run, table.lease] })],
)
