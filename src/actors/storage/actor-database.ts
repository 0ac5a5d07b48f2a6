/**
 * An actor's own SQLite through Drizzle. The first write creates the tables, not the constructor: a Durable Object holds
 * back every answer while one of its writes is unconfirmed, and the first admit of a program must not wait for a disk. So
 * an object that stored nothing has no tables and reads as empty.
 */
import { type DrizzleSqliteDODatabase, drizzle } from 'drizzle-orm/durable-sqlite'
import { migrate } from 'drizzle-orm/durable-sqlite/migrator'

/** As `npm run db:generate` writes them. */
export interface ActorMigrations {
  journal: { entries: { idx: number; when: number; tag: string; breakpoints: boolean }[] }
  migrations: Record<string, string>
  /** Statements that make of nothing what all migrations do. */
  fresh: readonly string[]
}

/** Drizzle's table of the migrations that were applied. It goes by the time of the last one. */
const APPLIED = '__drizzle_migrations'

export type ActorDb = DrizzleSqliteDODatabase<Record<string, unknown>>
/** An actor's database, or a transaction on it. */
export type ActorTx = Pick<ActorDb, 'all' | 'run' | 'select' | 'selectDistinct' | 'insert' | 'delete'>

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

  /** For reading. Null if nothing was ever stored. Brings tables of an earlier version up to date. */
  async stored(): Promise<ActorDb | null> {
    if (!this.migrated && !this.hasTables) return null
    return this.writable()
  }

  /** For writing. Creates the tables if there are none. */
  async writable(): Promise<ActorDb> {
    if (!this.migrated) {
      if (this.hasTables) await migrate(this.db, this.migrations)
      else this.create()
      this.migrated = true
    }
    return this.db
  }

  private get hasTables(): boolean {
    return this.storage.sql.exec(`SELECT 1 FROM sqlite_master WHERE name = '${APPLIED}'`).toArray().length > 0
  }

  /** As Drizzle's migrator would leave an empty database, but for the migrations before the last. It writes fewer rows. */
  private create(): void {
    const { fresh, journal } = this.migrations
    const last_ms = Math.max(...journal.entries.map(({ when }) => when))
    this.storage.transactionSync(() => {
      for (const statement of fresh) this.storage.sql.exec(statement)
      this.storage.sql.exec(`CREATE TABLE ${APPLIED} (id, hash text NOT NULL, created_at numeric)`)
      this.storage.sql.exec(`INSERT INTO ${APPLIED} (hash, created_at) VALUES ('', ?)`, last_ms)
    })
  }

  /** Of rows and of the object's other keys, without pages that are free. */
  get bytes(): number {
    return this.storage.sql.databaseSize
  }

  /** For reading what `stored` or `writable` found or made before. */
  opened(): ActorDb {
    if (!this.migrated) throw new Error('the tables are not open')
    return this.db
  }

  /** Runs statements that Drizzle has prepared, all or none of them. The tables must exist (`writable`). */
  transaction(work: (run: (text: string, ...values: SqlStorageValue[]) => void) => void): void {
    this.storage.transactionSync(() => work((text, ...values) => void this.storage.sql.exec(text, ...values)))
  }

  /** Deletes everything including the alarm, both at once, so that no event in between can set an alarm that is then lost. */
  async clear(): Promise<void> {
    this.migrated = false
    await Promise.all([this.storage.deleteAlarm(), this.storage.deleteAll()])
  }
}
