/** Rows of a ProgramActor in its own SQLite. Writes are upserts by id, all of one flush in one transaction. */
import { eq, ne } from 'drizzle-orm'
import type { DirtyRows, ProgramRows } from '../core/program-state.ts'
import { CallRowJson, LeaseRowJson, ProgramRowJson } from '../store/program-rows.ts'
import { ActorDatabase } from './storage/actor-database.ts'
import { programMigrations } from './storage/migrations.gen.ts'
import { calls, leases, runs } from './storage/program-schema.ts'

export class ProgramStorage {
  private readonly storage: ActorDatabase

  constructor(storage: DurableObjectStorage) {
    this.storage = new ActorDatabase(storage, programMigrations)
  }

  /** Every run that is stored. Throws if a row is not what was written: the program must not go on from half of itself. */
  async load(): Promise<ProgramRows[]> {
    const db = await this.storage.stored()
    if (db === null) return []
    return db
      .select()
      .from(runs)
      .all()
      .map(({ run, row }) => ({
        program: ProgramRowJson.parse(JSON.parse(row)),
        calls: db
          .select({ row: calls.row })
          .from(calls)
          .where(eq(calls.run, run))
          .orderBy(calls.position)
          .all()
          .map((call) => CallRowJson.parse(JSON.parse(call.row))),
        leases: db
          .select({ row: leases.row })
          .from(leases)
          .where(eq(leases.run, run))
          .all()
          .map((lease) => LeaseRowJson.parse(JSON.parse(lease.row))),
      }))
  }

  async write(run: string, dirty: DirtyRows): Promise<void> {
    const db = await this.storage.writable()
    db.transaction((tx) => {
      if (dirty.program !== null) {
        const row = JSON.stringify(dirty.program)
        tx.insert(runs).values({ run, row }).onConflictDoUpdate({ target: runs.run, set: { row } }).run()
      }
      for (const call of dirty.calls) {
        const row = JSON.stringify(call)
        tx.insert(calls)
          .values({ run, position: call.position, row })
          .onConflictDoUpdate({ target: [calls.run, calls.position], set: { row } })
          .run()
      }
      for (const lease of dirty.leases) {
        const row = JSON.stringify(lease)
        tx.insert(leases)
          .values({ run, lease: lease.lease, row })
          .onConflictDoUpdate({ target: [leases.run, leases.lease], set: { row } })
          .run()
      }
    })
  }

  /** Forgets one run; with the last one, everything. */
  async forget(run: string): Promise<void> {
    const db = await this.storage.stored()
    if (db === null) return
    const others = db.select({ run: runs.run }).from(runs).where(ne(runs.run, run)).limit(1).all()
    if (others.length === 0) return this.storage.clear()
    db.transaction((tx) => {
      tx.delete(leases).where(eq(leases.run, run)).run()
      tx.delete(calls).where(eq(calls.run, run)).run()
      tx.delete(runs).where(eq(runs.run, run)).run()
    })
  }
}
