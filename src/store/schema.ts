/**
 * D1: what outlives every actor. Secrets are stored only as peppered hashes (store/secrets.ts). Tables of ended programs have rows
 * only of programs that were archived before ArchiveActors kept them (archive-schema.ts).
 */
import { sql } from 'drizzle-orm'
import { index, integer, primaryKey, real, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { OBJECTIVES } from '../protocol/objective.ts'

export { adoptedLeases, endedCalls, endedLeases, endedPrograms } from './archive-schema.ts'
export { applications, batches, files, uploadParts, uploads } from './file-schema.ts'

export const tenants = sqliteTable('tenants', {
  id: text('id').primaryKey(),
  name: text('name').notNull(),
  /** Share of seats relative to other tenants. */
  weight: real('weight').notNull(),
  created_at_ms: integer('created_at_ms').notNull(),
  /** Null: no limit. */
  calls_per_minute_max: integer('calls_per_minute_max'),
  /** Null: no limit. */
  live_programs_max: integer('live_programs_max'),
  /** Its keys open nothing while this is set. */
  disabled_at_ms: integer('disabled_at_ms'),
  /** Whether calls that name no program join one by their conversation. */
  inference: integer('inference', { mode: 'boolean' }).notNull().default(true),
  /** What a learned order makes small for its programs; null: as the model has it. */
  objective: text('objective', { enum: OBJECTIVES }),
  /** GPUs that its offline applications may borrow at a time; 0: none. */
  borrow_gpus_max: integer('borrow_gpus_max').notNull().default(0),
  /** JSON object: class → what its programs weigh among the tenant's, of those that weigh other than 1. */
  class_weights: text('class_weights').notNull().default('{}'),
  /** JSON of PeriodLimits (core/budget/period-limits.ts): what it may spend. Null: no limit. */
  budget: text('budget'),
  /** Objects that new runs of its programs are spread over (core/program/tenant-shards.ts). */
  shards: integer('shards').notNull().default(1),
})

export const apiKeys = sqliteTable(
  'api_keys',
  {
    /** Hex HMAC-SHA256(KEY_PEPPER, key). */
    hash: text('hash').primaryKey(),
    tenant: text('tenant')
      .notNull()
      .references(() => tenants.id),
    name: text('name').notNull(),
    created_at_ms: integer('created_at_ms').notNull(),
    revoked_at_ms: integer('revoked_at_ms'),
    /** JSON array of model ids that the key may call; null: every model. */
    models: text('models'),
    /** JSON array of region ids that may serve its calls; null: every region. */
    regions: text('regions'),
    /** Refuses fields that have no effect (relay/strict.ts). */
    strict: integer('strict', { mode: 'boolean' }).notNull().default(false),
    /** Whether the key carries a check (secret-check.ts). */
    checked: integer('checked', { mode: 'boolean' }).notNull().default(false),
    /** As of a tenant. */
    budget: text('budget'),
  },
  (table) => [
    index('api_keys_by_tenant').on(table.tenant),
    index('api_keys_unchecked').on(table.hash).where(sql`checked = 0`),
  ],
)

export const regions = sqliteTable('regions', {
  id: text('id').primaryKey(),
  /** Order of preference where a client's place is unknown. */
  position: integer('position').notNull(),
  /** Location hint with which the region's pools are created; null: near the first request. */
  location_hint: text('location_hint'),
  latitude: real('latitude'),
  longitude: real('longitude'),
})

/** Pools to which an agent has ever opened a link (store/linked-pools.ts). */
export const linkedPools = sqliteTable(
  'linked_pools',
  {
    region: text('region').notNull(),
    model: text('model').notNull(),
  },
  (table) => [primaryKey({ columns: [table.region, table.model] })],
)

export const models = sqliteTable('models', {
  id: text('id').primaryKey(),
  /** Which reading of service orders programs on this model: `modelled` or `wall`. */
  ordering_service: text('ordering_service', { enum: ['modelled', 'wall'] }).notNull(),
  /** What a learned order makes small on this model, for tenants that have no objective of their own. */
  objective: text('objective', { enum: OBJECTIVES }).notNull().default('token_latency'),
  context_tokens_max: integer('context_tokens_max').notNull(),
  /** First estimate of bytes per prompt token, until engines have measured it. */
  bytes_per_token: real('bytes_per_token').notNull(),
  /** Of a million tokens, in the operator's currency. Null: no price, and no budget in money holds for it. */
  prompt_price: real('prompt_price'),
  /** Null: that of the prompt. */
  cached_prompt_price: real('cached_prompt_price'),
  output_price: real('output_price'),
  /** JSON of the prices that it had before (core/budget/price-history.ts). */
  price_changes: text('price_changes').notNull().default('[]'),
  created_at_ms: integer('created_at_ms').notNull(),
})

export const agents = sqliteTable(
  'agents',
  {
    id: text('id').primaryKey(),
    region: text('region')
      .notNull()
      .references(() => regions.id),
    /** Hex HMAC-SHA256(KEY_PEPPER, token). */
    token_hash: text('token_hash').notNull().unique(),
    created_at_ms: integer('created_at_ms').notNull(),
    /** `draining`: serves what it has and is given nothing more. `removed`: opens no link; its id is not used again. */
    state: text('state', { enum: ['active', 'draining', 'removed'] }).notNull(),
    removed_at_ms: integer('removed_at_ms'),
    /** Whether the token carries a check (secret-check.ts). */
    checked: integer('checked', { mode: 'boolean' }).notNull().default(false),
  },
  (table) => [
    index('agents_by_region').on(table.region),
    index('agents_unchecked').on(table.token_hash).where(sql`checked = 0`),
  ],
)

/** What is known about classes of programs, for operators and for an actor that lost its storage (store/classes.ts). */
export const classes = sqliteTable(
  'classes',
  {
    tenant: text('tenant').notNull(),
    class: text('class').notNull(),
    /** Programs that have ended since the class is known. */
    ends: integer('ends').notNull(),
    updated_at_ms: integer('updated_at_ms').notNull(),
    /** JSON ClassSketchData. */
    sketch: text('sketch').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenant, table.class] })],
)

/** Residency of programs, for a relay that cannot ask the ProgramActor in time. */
export const programRegions = sqliteTable(
  'program_regions',
  {
    tenant: text('tenant').notNull(),
    program: text('program').notNull(),
    run: text('run').notNull(),
    /** JSON array of region ids, or JSON null: any. */
    regions: text('regions').notNull(),
    has_budget: integer('has_budget', { mode: 'boolean' }).notNull().default(false),
  },
  (table) => [primaryKey({ columns: [table.tenant, table.program] })],
)

/** What could not be applied (store/dead-letters.ts). */
export const deadLetters = sqliteTable(
  'dead_letters',
  {
    /** `record:LEASE` or `run:RUN`. */
    id: text('id').primaryKey(),
    at_ms: integer('at_ms').notNull(),
    /** `record`: of a run that cannot be read. `run`: the rows of such a run. */
    kind: text('kind', { enum: ['record', 'run'] }).notNull(),
    tenant: text('tenant').notNull(),
    program: text('program').notNull(),
    run: text('run').notNull(),
    /** Null: not of one agent. */
    agent: text('agent'),
    reason: text('reason').notNull(),
    /** JSON as it was, cut at DEAD_LETTER_CHARS_MAX. */
    content: text('content').notNull(),
  },
  (table) => [index('dead_letters_by_time').on(table.at_ms, table.id)],
)

/** What operators changed, and what the control plane noticed about an agent. A row is written in the same transaction as its change and never altered after it. */
export const audit = sqliteTable(
  'audit',
  {
    /** Grows with time: base-36 milliseconds, then random characters. */
    id: text('id').primaryKey(),
    at_ms: integer('at_ms').notNull(),
    /** Fingerprint of the key that was used. */
    actor: text('actor').notNull(),
    /** `tenant.create`, `key.revoke`, … */
    action: text('action').notNull(),
    /** Kind and id, `tenant:acme`. */
    object: text('object').notNull(),
    /** JSON object without secrets; null: there was nothing before. */
    before_json: text('before_json'),
    after_json: text('after_json'),
  },
  (table) => [index('audit_by_object').on(table.object, table.id)],
)
