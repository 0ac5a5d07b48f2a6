/** D1's rows of files, uploads, batches and applications. Contents lie in R2 (file-contents.ts); the actor of a batch or an application has its progress. */
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const files = sqliteTable(
  'files',
  {
    id: text('id').primaryKey(),
    tenant: text('tenant').notNull(),
    filename: text('filename').notNull(),
    purpose: text('purpose').notNull(),
    bytes: integer('bytes').notNull(),
    created_at_ms: integer('created_at_ms').notNull(),
    /** Null: it is kept until it is deleted. */
    expires_at_ms: integer('expires_at_ms'),
    /** `writing`: its request is under way, or broke off. Clients do not see such a file. */
    status: text('status', { enum: ['writing', 'processed'] }).notNull(),
    /** JSON FilePart[]. */
    parts: text('parts').notNull(),
  },
  (table) => [index('files_by_tenant').on(table.tenant, table.created_at_ms, table.id)],
)

export const uploads = sqliteTable(
  'uploads',
  {
    id: text('id').primaryKey(),
    tenant: text('tenant').notNull(),
    filename: text('filename').notNull(),
    purpose: text('purpose').notNull(),
    /** As its client announced them. */
    bytes: integer('bytes').notNull(),
    created_at_ms: integer('created_at_ms').notNull(),
    /** No parts are taken after this. */
    expires_at_ms: integer('expires_at_ms').notNull(),
    status: text('status', { enum: ['pending', 'completed', 'cancelled'] }).notNull(),
    /** Id of the file that was made of it. */
    file: text('file'),
    /** From the file's creation to its expiry; null: it is kept. */
    file_expires_after_s: integer('file_expires_after_s'),
  },
  (table) => [index('uploads_by_tenant').on(table.tenant, table.expires_at_ms)],
)

export const uploadParts = sqliteTable(
  'upload_parts',
  {
    id: text('id').primaryKey(),
    upload: text('upload').notNull(),
    bytes: integer('bytes').notNull(),
    created_at_ms: integer('created_at_ms').notNull(),
    /** JSON FilePart[]. Empty while its request is under way. */
    parts: text('parts').notNull(),
  },
  (table) => [index('upload_parts_by_upload').on(table.upload)],
)

export const batches = sqliteTable(
  'batches',
  {
    id: text('id').primaryKey(),
    tenant: text('tenant').notNull(),
    created_at_ms: integer('created_at_ms').notNull(),
    /** Whether its actor has nothing more to do. */
    ended: integer('ended', { mode: 'boolean' }).notNull(),
    /** JSON BatchState (core/batch/batch-state.ts), as the actor last wrote it. */
    state: text('state').notNull(),
  },
  (table) => [index('batches_by_tenant').on(table.tenant, table.created_at_ms, table.id)],
)

export const applications = sqliteTable(
  'applications',
  {
    tenant: text('tenant').notNull(),
    /** Its client's, or made. */
    id: text('id').notNull(),
    created_at_ms: integer('created_at_ms').notNull(),
    /** Whether its actor has nothing more to do. */
    ended: integer('ended', { mode: 'boolean' }).notNull(),
    /** JSON ApplicationReport (core/application/application-state.ts), as the actor last wrote it. */
    report: text('report').notNull(),
    /** JSON Definition. */
    definition: text('definition').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.tenant, table.id] }),
    index('applications_by_tenant').on(table.tenant, table.created_at_ms, table.id),
  ],
)
