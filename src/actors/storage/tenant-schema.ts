/** SQLite of a TenantActor: an index of the tenant's running programs, kept by their flushes, usage outside of programs, and spend. */
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Charge } from '../../core/budget/charge.ts'
import type { ProgramSource } from '../../protocol/index.ts'
import { measuredColumns } from '../../store/measured-columns.ts'

/** WITHOUT ROWID, and without an index by start, which would be a row more for each program that begins or ends. */
export const programs = sqliteTable('programs', {
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
})

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

/**
 * Leases that an earlier version counted. It is empty a week later, and where none ran. Later ones have tables of their own
 * (counted-leases.ts). WITHOUT ROWID, as its migration says.
 */
export const countedLeases = sqliteTable(
  'counted_leases',
  {
    /** Days since 1970-01-01 when the lease was counted. */
    day: integer('day').notNull(),
    call: text('call').notNull(),
    lease: text('lease').notNull(),
    /** JSON: what the lease was charged, and to whom (counted-leases.ts). Empty: it was counted before there was spend. */
    charged: text('charged').notNull(),
  },
  (table) => [primaryKey({ columns: [table.day, table.call, table.lease] })],
)

/** Which counted leases the sums of spend have (spend-backlog.ts), and in the row 1 since when all are remembered (counted-leases.ts). */
export const spendFolds = sqliteTable('spend_folds', {
  id: integer('id').primaryKey(),
  /** The number of the last fold. */
  folded: integer('folded').notNull(),
})

/**
 * Of earlier versions, and empty, so that one of them can go on from this storage.
 * @public drizzle-kit reads it.
 */
export const metered = sqliteTable(
  'metered',
  {
    call: text('call').notNull(),
    lease: text('lease').notNull(),
    at_ms: integer('at_ms').notNull(),
    charged: text('charged').notNull(),
  },
  (table) => [primaryKey({ columns: [table.call, table.lease] }), index('metered_by_time').on(table.at_ms)],
)

/** What all calls were charged, those of programs too. WITHOUT ROWID, as the next. */
export const spend = sqliteTable(
  'spend',
  {
    /** UTC, `YYYY-MM-DD`, of the lease's grant. */
    day: text('day').notNull(),
    /** Id of the API key; empty where it is not known. */
    key: text('key').notNull(),
    /** Empty: of classes past the number that is told apart in a day. */
    class: text('class').notNull(),
    model: text('model').notNull(),
    ...chargeColumns(),
  },
  (table) => [primaryKey({ columns: [table.day, table.key, table.class, table.model] })],
)

export const programSpend = sqliteTable(
  'program_spend',
  { day: text('day').notNull(), program: text('program').notNull(), ...chargeColumns() },
  (table) => [primaryKey({ columns: [table.day, table.program] })],
)

/** What is reserved of the tenant's budgets and those of its keys (tenant-budgets.ts). WITHOUT ROWID. */
export const budgetState = sqliteTable('budget_state', {
  /** `holder:` and an isolate's id, or `lease:` and a lease. */
  name: text('name').primaryKey(),
  /** JSON. */
  row: text('row').notNull(),
})

function chargeColumns() {
  return {
    calls: integer('calls').notNull(),
    prompt_tokens: integer('prompt_tokens').notNull(),
    cached_tokens: integer('cached_tokens').notNull(),
    output_tokens: integer('output_tokens').notNull(),
    service_us: integer('service_us').notNull(),
    cost_nanos: integer('cost_nanos').notNull(),
  } satisfies Record<keyof Charge, unknown>
}
