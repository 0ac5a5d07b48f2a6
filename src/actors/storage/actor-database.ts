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
/** Where there is no such table: the time of the last one, in the text by which a table was made. */
const MARK = 'migrations up to '

/** How a new object's tables differ from what migrations make, since each row that is written is billed. */
export interface Brevity {
  /** Tables that only earlier versions wrote. */
  without: readonly string[]
}

export type ActorDb = DrizzleSqliteDODatabase<Record<string, unknown>>
/** An actor's database, or a transaction on it. */
export type ActorTx = Pick<ActorDb, 'all' | 'run' | 'select' | 'selectDistinct' | 'insert' | 'delete'>

export class ActorDatabase {
  private readonly storage: DurableObjectStorage
  private readonly migrations: ActorMigrations
  /** Null: a new object's tables are what migrations make. */
  private readonly brevity: Brevity | null
  private readonly db: ActorDb
  private migrated = false

  constructor(storage: DurableObjectStorage, migrations: ActorMigrations, brevity: Brevity | null = null) {
    this.storage = storage
    this.migrations = migrations
    this.brevity = brevity
    this.db = drizzle(storage)
  }

  /** For reading. Null if nothing was ever stored. Brings tables of an earlier version up to date. */
  async stored(): Promise<ActorDb | null> {
    if (!this.migrated && this.made === 'not') return null
    return this.writable()
  }

  /** For writing. Creates the tables if there are none. */
  async writable(): Promise<ActorDb> {
    if (!this.migrated) {
      const { made } = this
      if (made === 'not') this.create()
      else if (made === 'listed' || made < this.last_ms) {
        if (made !== 'listed') this.list(made)
        await migrate(this.db, this.migrations)
      }
      this.migrated = true
    }
    return this.db
  }

  /** Whether there are tables, and if Drizzle does not list what made them, the time of the last migration. */
  private get made(): 'not' | 'listed' | number {
    const tables = this.storage.sql
      .exec<{ sql: string }>(`SELECT sql FROM sqlite_master WHERE name = '${APPLIED}' OR sql LIKE '%${MARK}%'`)
      .toArray()
    if (tables.length === 0) return 'not'
    const [, marked] = new RegExp(`${MARK}(\\d+)`).exec(tables.map(({ sql }) => sql).join()) ?? []
    return tables.length > 1 || marked === undefined ? 'listed' : Number(marked)
  }

  private get last_ms(): number {
    return Math.max(...this.migrations.journal.entries.map(({ when }) => when))
  }

  /** As Drizzle's migrator would leave an empty database, but for the migrations before the last. It writes fewer rows. */
  private create(): void {
    const { fresh } = this.migrations
    this.storage.transactionSync(() => {
      if (this.brevity === null) {
        for (const statement of fresh) this.storage.sql.exec(statement)
        this.list(this.last_ms)
        return
      }
      const { without } = this.brevity
      const needed = fresh.filter((statement) => !without.some((name) => statement.includes(`TABLE \`${name}\``)))
      for (const [at, statement] of needed.entries()) {
        this.storage.sql.exec(at > 0 ? statement : statement.replace('(', `( /* ${MARK}${this.last_ms} */`))
      }
    })
  }

  private list(last_ms: number): void {
    this.storage.sql.exec(`CREATE TABLE ${APPLIED} (id, hash text NOT NULL, created_at numeric)`)
    this.storage.sql.exec(`INSERT INTO ${APPLIED} (hash, created_at) VALUES ('', ?)`, last_ms)
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
