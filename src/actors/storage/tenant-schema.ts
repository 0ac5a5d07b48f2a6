/** SQLite of a TenantActor: an index of the tenant's running programs, kept by their flushes, and usage outside of programs. */
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { ProgramSource } from '../../protocol/index.ts'
import { measuredColumns } from '../../store/measured-columns.ts'

export const programs = sqliteTable(
  'programs',
  {
    program: text('program').primaryKey(),
    run: text('run').notNull(),
    app: text('app'),
    started_at_ms: integer('started_at_ms').notNull(),
    last_arrival_ms: integer('last_arrival_ms').notNull(),
    open_calls: integer('open_calls').notNull(),
    calls: integer('calls').notNull(),
    service_us: integer('service_us').notNull(),
    source: text('source').$type<ProgramSource>(),
    /** Empty: before there was this column. */
    class: text('class').notNull().default(''),
    output_tokens: integer('output_tokens').notNull().default(0),
    /** When the program was last heard of here. 0: before there was this column. */
    told_at_ms: integer('told_at_ms').notNull().default(0),
  },
  (table) => [
    index('programs_by_start').on(table.started_at_ms, table.program),
    index('programs_by_arrival').on(table.last_arrival_ms),
  ],
)

/** Usage of calls that belong to no program. */
export const usage = sqliteTable(
  'usage',
  {
    /** UTC, `YYYY-MM-DD`, of the lease's grant. */
    day: text('day').notNull(),
    /** Id of the API key; empty where it is not known. */
    key: text('key').notNull(),
    model: text('model').notNull(),
    calls: integer('calls').notNull(),
    leases: integer('leases').notNull(),
    ...measuredColumns(),
  },
  (table) => [primaryKey({ columns: [table.day, table.key, table.model] })],
)

/** Leases that are in the sums of `usage`, for a while. */
export const meteredLeases = sqliteTable(
  'metered_leases',
  {
    lease: text('lease').primaryKey(),
    call: text('call').notNull(),
    at_ms: integer('at_ms').notNull(),
  },
  (table) => [index('metered_leases_by_call').on(table.call), index('metered_leases_by_time').on(table.at_ms)],
)
