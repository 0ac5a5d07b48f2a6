/**
 * SQLite of a PoolActor: the members of its shard, so that a woken object knows its engines before they report again. The first
 * shard also has the agents of the others.
 */
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const members = sqliteTable('members', {
  agent: text('agent').primaryKey(),
  /** The agent's last hello as JSON (protocol/link.ts). */
  hello: text('hello').notNull(),
  joined_at_ms: integer('joined_at_ms').notNull(),
  /** Id of the key that signs its tickets. */
  ticket_kid: text('ticket_kid').notNull().default(''),
  /** The operator drains it. */
  draining: integer('draining', { mode: 'boolean' }).notNull().default(false),
})

export const shardMembers = sqliteTable('shard_members', {
  agent: text('agent').primaryKey(),
  shard: integer('shard').notNull(),
  engines: integer('engines').notNull(),
  seats: integer('seats').notNull(),
})
