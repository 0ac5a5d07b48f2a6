/**
 * Rows of ended programs. They lie in the SQLite of their tenant's ArchiveActors (src/actors/archive.ts), and those that were archived before that in D1.
 * Calls and leases lie in R2 (segments.ts).
 */
import { index, integer, primaryKey, real, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { ProgramSource } from '../protocol/program-source.ts'
import { measuredColumns } from './measured-columns.ts'

export const endedPrograms = sqliteTable(
  'ended_programs',
  {
    tenant: text('tenant').notNull(),
    program: text('program').notNull(),
    run: text('run').notNull(),
    app: text('app'),
    class: text('class').notNull(),
    /** JSON object of strings. */
    metadata: text('metadata').notNull(),
    /** Which reading of service ordered its calls. */
    reading: text('reading', { enum: ['modelled', 'wall'] }).notNull(),
    started_at_ms: integer('started_at_ms').notNull(),
    ended_at_ms: integer('ended_at_ms').notNull(),
    end_reason: text('end_reason', { enum: ['explicit', 'stale'] }).notNull(),
    service_us: integer('service_us').notNull(),
    critical_path_us: integer('critical_path_us').notNull(),
    ...measuredColumns(),
    /** JSON of core's BudgetState. Null: the program had none. */
    budget: text('budget'),
    /** JSON array of {engine, region, model, epoch}, most recent first. */
    engines: text('engines').notNull(),
    /** JSON array of {region, model, engine, epoch}. */
    pins: text('pins').notNull(),
    last_arrival_ms: integer('last_arrival_ms'),
    last_completion_ms: integer('last_completion_ms'),
    calls: integer('calls').notNull(),
    /** JSON array of the regions that the run was held to; null: any. */
    regions: text('regions'),
    /** Why its first call belongs to it; null: not known. */
    source: text('source').$type<ProgramSource>(),
    /** JSON RunPart: where R2 has its calls and leases; null: rows beside it have all of them. */
    part: text('part'),
    /** Grows with the run's rows (archive-changes.ts); 0: archived before there was R2. */
    version: integer('version').notNull().default(0),
  },
  (table) => [
    primaryKey({ columns: [table.tenant, table.program, table.run] }),
    index('ended_programs_by_end').on(table.tenant, table.ended_at_ms),
  ],
)

/** Calls that lie over those in R2 (archive.ts). */
export const endedCalls = sqliteTable(
  'ended_calls',
  {
    tenant: text('tenant').notNull(),
    program: text('program').notNull(),
    run: text('run').notNull(),
    call: text('call').notNull(),
    /** Order of arrival within the run, from 0. */
    position: integer('position').notNull(),
    thread: text('thread').notNull(),
    /** JSON array of call ids. */
    parents: text('parents').notNull(),
    model: text('model').notNull(),
    opened_at_ms: integer('opened_at_ms').notNull(),
    ended_at_ms: integer('ended_at_ms'),
    state: text('state', { enum: ['open', 'ended'] }).notNull(),
    outcome: text('outcome', { enum: ['completed', 'cancelled', 'failed'] }),
    finish_reason: text('finish_reason'),
    error_code: text('error_code'),
    /** Critical path of the program when the call was admitted. */
    inherited_us: integer('inherited_us').notNull(),
    parents_known: integer('parents_known', { mode: 'boolean' }).notNull(),
    /** JSON {outcome, error_code}: what the Worker answered the client; null if it said nothing. */
    answered: text('answered'),
    source: text('source').$type<ProgramSource>(),
    /** JSON array of headers and fields that named another program; null: none. */
    overruled: text('overruled'),
    /** JSON of what its answer asked for, of what came back, and of what the call itself brought (core's CallRow). Null: nothing. */
    tools: text('tools'),
    returned: text('returned'),
    brings: text('brings'),
    /** Whether its program tells its tenant what it was charged. */
    gathers: integer('gathers', { mode: 'boolean' }),
  },
  (table) => [
    primaryKey({ columns: [table.tenant, table.program, table.run, table.call] }),
    index('ended_calls_by_position').on(table.tenant, table.program, table.run, table.position),
  ],
)

/** Leases that lie over those in R2 (archive.ts). */
export const endedLeases = sqliteTable(
  'ended_leases',
  {
    lease: text('lease').primaryKey(),
    tenant: text('tenant').notNull(),
    program: text('program').notNull(),
    run: text('run').notNull(),
    call: text('call').notNull(),
    /** Order of opening within the call, from 0. */
    position: integer('position').notNull(),
    agent: text('agent').notNull(),
    engine: text('engine').notNull(),
    epoch: text('epoch').notNull(),
    region: text('region').notNull(),
    model: text('model').notNull(),
    /** Why this engine was chosen; null where only its record is known. */
    reason: text('reason'),
    speed_factor: real('speed_factor').notNull(),
    opened_at_ms: integer('opened_at_ms').notNull(),
    state: text('state', { enum: ['open', 'lost', 'settled'] }).notNull(),
    outcome: text('outcome', { enum: ['completed', 'cancelled', 'failed'] }),
    error_code: text('error_code'),
    ...measuredColumns(),
    first_token_us: integer('first_token_us'),
    finish_reason: text('finish_reason'),
    /** Null: its engine's policy did not know it. */
    rank: real('rank'),
    expected_remaining_tokens: real('expected_remaining_tokens'),
    /** Of `wait_us`, in the agent's queue before an attached server. Null: not told apart. */
    queue_wait_us: integer('queue_wait_us'),
    /** JSON: when it was preempted (protocol/measurement.ts). Null: it was not, or its engine does not tell when. */
    pauses: text('pauses'),
    /** JSON: what its program tells of its charge (core's LeaseRow). Null: its record was metered alone. */
    charged: text('charged'),
  },
  (table) => [index('ended_leases_by_run').on(table.tenant, table.program, table.run)],
)

/** Leases that count under another run than their records name: theirs was lost before it was stored. */
export const adoptedLeases = sqliteTable(
  'adopted_leases',
  {
    lease: text('lease').primaryKey(),
    tenant: text('tenant').notNull(),
    program: text('program').notNull(),
    run: text('run').notNull(),
    at_ms: integer('at_ms').notNull(),
  },
  (table) => [index('adopted_leases_by_time').on(table.tenant, table.at_ms)],
)
