/**
 * The agent's own tables. The one source of truth of the outbox's shape: `drizzle-kit generate` (gpu-agent/drizzle.config.ts)
 * writes gpu-agent/migrations from this file, and opening an outbox applies them.
 *
 * Conservation rests on two orders: a lease is on disk before its call reaches an engine, and a record is on disk only
 * together with or after every ledger row of its lease.
 */
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { CallRecord, ClassSketchData, TicketClaims } from '../../../src/protocol/index.ts'

/** Every lease that reached an engine. A ticket whose lease stands here is not honoured again. */
export const leases = sqliteTable(
  'leases',
  {
    lease: text().primaryKey(),
    claims: text({ mode: 'json' }).$type<TicketClaims>().notNull(),
    arrived_at_ms: integer().notNull(),
    /** Null until the front has counted them. */
    prompt_tokens: integer(),
    state: text({ enum: ['open', 'closed'] }).notNull(),
  },
  (table) => [index('leases_by_state').on(table.state)],
)

/** What each engine step charged each call, as the engine wrote it. */
export const ledger = sqliteTable(
  'ledger',
  {
    epoch: text().notNull(),
    step: integer().notNull(),
    lease: text().notNull(),
    wall_us: integer().notNull(),
    modelled_us: integer().notNull(),
    computed_tokens: integer().notNull(),
    sampled_tokens: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.lease, table.epoch, table.step] })],
)

/** One record per lease; kept until acknowledged, and for a while after. `seq` is the order of the ends. */
export const records = sqliteTable(
  'records',
  {
    seq: integer().primaryKey({ autoIncrement: true }),
    lease: text().notNull().unique(),
    record: text({ mode: 'json' }).$type<CallRecord>().notNull(),
    acknowledged_at_ms: integer(),
  },
  (table) => [index('records_by_acknowledgement').on(table.acknowledged_at_ms, table.seq)],
)

/** What pools told about classes of programs. `told` is the order in which they did. */
export const classes = sqliteTable(
  'classes',
  {
    tenant: text().notNull(),
    class: text().notNull(),
    told: integer().notNull(),
    sketch: text({ mode: 'json' }).$type<ClassSketchData>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenant, table.class] }), index('classes_by_told').on(table.told)],
)
