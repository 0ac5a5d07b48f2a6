/** The outbox's statements, prepared once: every call on the write path runs one of these inside a group commit. */
import { and, asc, count, eq, gt, inArray, isNotNull, isNull, lt, max, sql, sum } from 'drizzle-orm'
import type { OutboxHandle } from './outbox-database.ts'
import { classes, leases, ledger, records } from './outbox-schema.ts'

const at = sql.placeholder

export function prepareStatements(db: OutboxHandle) {
  return {
    openLease: db
      .insert(leases)
      .values({ lease: at('lease'), claims: at('claims'), arrived_at_ms: at('arrived_at_ms'), state: 'open' })
      .prepare(),
    knowsLease: db
      .select({ lease: leases.lease })
      .from(leases)
      .where(eq(leases.lease, at('lease')))
      .prepare(),
    setPromptTokens: db
      .update(leases)
      .set({ prompt_tokens: sql`${at('prompt_tokens')}` })
      .where(eq(leases.lease, at('lease')))
      .prepare(),
    closeLease: db
      .update(leases)
      .set({ state: 'closed' })
      .where(eq(leases.lease, at('lease')))
      .prepare(),
    openLeases: db.select().from(leases).where(eq(leases.state, 'open')).prepare(),
    insertLedger: db
      .insert(ledger)
      .values({
        epoch: at('epoch'),
        step: at('step'),
        lease: at('lease'),
        wall_us: at('wall_us'),
        modelled_us: at('modelled_us'),
        computed_tokens: at('computed_tokens'),
        sampled_tokens: at('sampled_tokens'),
      })
      .onConflictDoNothing()
      .prepare(),
    sumLedger: db
      .select({
        wall_us: sum(ledger.wall_us).mapWith(Number),
        modelled_us: sum(ledger.modelled_us).mapWith(Number),
        computed_tokens: sum(ledger.computed_tokens).mapWith(Number),
        sampled_tokens: sum(ledger.sampled_tokens).mapWith(Number),
        last_step: max(ledger.step),
      })
      .from(ledger)
      .where(eq(ledger.lease, at('lease')))
      .prepare(),
    insertRecord: db
      .insert(records)
      .values({ lease: at('lease'), record: at('record') })
      .prepare(),
    unacknowledged: db
      .select({ seq: records.seq, record: records.record })
      .from(records)
      .where(and(isNull(records.acknowledged_at_ms), gt(records.seq, at('after'))))
      .orderBy(asc(records.seq))
      .limit(at('limit'))
      .prepare(),
    acknowledge: db
      .update(records)
      .set({ acknowledged_at_ms: sql`${at('now_ms')}` })
      .where(and(eq(records.lease, at('lease')), isNull(records.acknowledged_at_ms)))
      .prepare(),
    acknowledgedBefore: db
      .select({ lease: records.lease })
      .from(records)
      .where(and(isNotNull(records.acknowledged_at_ms), lt(records.acknowledged_at_ms, at('before_ms'))))
      .orderBy(asc(records.acknowledged_at_ms))
      .limit(at('limit'))
      .prepare(),
    countUnacknowledged: db.select({ n: count() }).from(records).where(isNull(records.acknowledged_at_ms)).prepare(),
    countAcknowledged: db.select({ n: count() }).from(records).where(isNotNull(records.acknowledged_at_ms)).prepare(),
    classes: db.select().from(classes).orderBy(asc(classes.told)).prepare(),
    lastTold: db
      .select({ told: max(classes.told) })
      .from(classes)
      .prepare(),
    putClass: db
      .insert(classes)
      .values({ tenant: at('tenant'), class: at('class'), told: at('told'), sketch: at('sketch') })
      .onConflictDoUpdate({
        target: [classes.tenant, classes.class],
        set: { told: sql`excluded.told`, sketch: sql`excluded.sketch` },
      })
      .prepare(),
    keepLatestClasses: db
      .delete(classes)
      .where(
        lt(
          classes.told,
          sql`(SELECT min(told) FROM (SELECT told FROM ${classes} ORDER BY told DESC LIMIT ${at('limit')}))`,
        ),
      )
      .prepare(),
    forget(victims: readonly string[]): void {
      db.delete(ledger)
        .where(inArray(ledger.lease, [...victims]))
        .run()
      db.delete(records)
        .where(inArray(records.lease, [...victims]))
        .run()
      db.delete(leases)
        .where(inArray(leases.lease, [...victims]))
        .run()
    },
  }
}

export type Statements = ReturnType<typeof prepareStatements>
