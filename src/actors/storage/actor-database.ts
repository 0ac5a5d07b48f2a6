/**
 * An actor's own SQLite through Drizzle. Tables are created by the first write and not by the constructor: a Durable
 * Object holds back every answer while a write of its own is unconfirmed, and the first admit of a program must not wait
 * for a disk. An object that stored nothing therefore has no tables, and reads as empty.
 */
import { type DrizzleSqliteDODatabase, drizzle } from 'drizzle-orm/durable-sqlite'
import { migrate } from 'drizzle-orm/durable-sqlite/migrator'

export type ActorMigrations = Parameters<typeof migrate>[1]
export type ActorDb = DrizzleSqliteDODatabase<Record<string, unknown>>

export class ActorDatabase {
  private readonly storage: DurableObjectStorage
  private readonly migrations: ActorMigrations
  private readonly db: ActorDb
  private migrated = false

  constructor(storage: DurableObjectStorage, migrations: ActorMigrations) {
    this.storage = storage
    this.migrations = migrations
    this.db = drizzle(storage)
  }

  /** For reading: null where nothing was ever stored. Brings tables of an earlier version up to date. */
  async stored(): Promise<ActorDb | null> {
    if (!this.migrated) {
      const tables = this.storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = '__drizzle_migrations'").toArray()
      if (tables.length === 0) return null
    }
    return this.writable()
  }

  /** For writing: creates the tables where there are none. */
  async writable(): Promise<ActorDb> {
    if (!this.migrated) {
      await migrate(this.db, this.migrations)
      this.migrated = true
    }
    return this.db
  }

  /** Runs statements whose texts Drizzle has written before, all or none of them. The tables must be there (`writable`). */
  transaction(work: (run: (text: string, ...values: SqlStorageValue[]) => void) => void): void {
    this.storage.transactionSync(() => work((text, ...values) => void this.storage.sql.exec(text, ...values)))
  }

  /** Forgets everything, the alarm too; both at once, so that no event in between can set an alarm that is then lost. */
  async clear(): Promise<void> {
    this.migrated = false
    await Promise.all([this.storage.deleteAlarm(), this.storage.deleteAll()])
  }
}
