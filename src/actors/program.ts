/**
 * ProgramActor: one per tenant and program. It holds core's entry of the process table in memory and adds what core must
 * not know: storage, alarms and other objects.
 *
 * Keeps true:
 * - The call path (admit, leaseOpened, leaseLost, callEnded) writes nothing, since a Durable Object holds back every answer
 *   while one of its writes is unconfirmed. A flush follows in a later event. There are three exceptions: `settle` writes
 *   before it acknowledges, the call that opens a run held to regions waits until that run is stored, and a call under a
 *   budget waits until what it reserves is.
 * - An ended run stays here until the archive has it. It is written there once for each change.
 * - At most one run is running.
 */
import { DurableObject } from 'cloudflare:workers'
import { z } from 'zod'
import { keptAfterEnd, type LeftContext } from '../core/program/left-context.ts'
import type { ProgramEntry } from '../core/program/program-entry.ts'
import type { CallEnded, OpenLeaseRef } from '../core/program/program-state.ts'
import {
  type EndReason,
  ORPHANED,
  type ProgramRows,
  type ProgramSummary,
  type ProvenRecord,
} from '../core/program/program-state.ts'
import { liveProgramsExceeded } from '../core/program/run-limits.ts'
import { isStale } from '../core/program/staleness.ts'
import { runShard, tenantShard } from '../core/program/tenant-shards.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { newRunId } from '../platform/run-id.ts'
import { Id } from '../protocol/index.ts'
import type { ArchiveStore } from '../store/archive.ts'
import { adoptLeases, endedRun } from '../store/archive-changes.ts'
import { withDeadline } from '../store/d1-deadline.ts'
import { ArchiveRetry } from './archive-retry.ts'
import { archiveDatabases, archiveStoreOfRun } from './archive-store.ts'
import { BrokenRuns } from './broken-runs.ts'
import { cancelLeases } from './cancel-leases.ts'
import { ClassNotifier, classEndOf, tellsOfClass } from './class-notifier.ts'
import type { AdmitReply, AdmitRequest, LeaseOpened, PoolRpc, ProgramRpc } from './contracts.ts'
import { openingOfLostRun, settleArchived, sortLateRecords } from './late-records.ts'
import { LostLeases } from './lost-leases.ts'
import { Mutex } from './mutex.ts'
import { ProgramFlush } from './program-flush.ts'
import {
  hasRoom,
  heldToBy,
  openingOfCall,
  openingOfStart,
  RUNS_UNARCHIVED_MAX,
  runsPending,
} from './program-opening.ts'
import { ProgramResidency } from './program-residency.ts'
import { ProgramStorage } from './program-storage.ts'
import { type Run, RunTable } from './run-table.ts'
import { archiveActor, classActor, poolActor, tenantActor } from './stubs.ts'
import { TenantNotifier } from './tenant-notifier.ts'

/** Rounds of archiving a run that keeps changing, before the alarm takes over. */
const ARCHIVE_ROUNDS_MAX = 3

const ProgramName = z.tuple([Id, Id])

type StartRequest = Parameters<ProgramRpc['start']>[0]

export class ProgramActor extends DurableObject<Env> implements ProgramRpc {
  private readonly storage: ProgramStorage
  private readonly staleAfterMs: number
  private readonly runs = new RunTable(
    () => this.flush.soon(),
    (run) => this.historyOf(run),
  )
  private readonly flush: ProgramFlush
  /** Archiving and late records wait for the archive and must not interleave. */
  private readonly archiving = new Mutex()
  /** A start waits for D1, so starts run one at a time. */
  private readonly starting = new Mutex()
  private readonly residency: ProgramResidency
  private readonly notifier: TenantNotifier
  private readonly classes: ClassNotifier
  private readonly retry = new ArchiveRetry((state) => this.storage.storeRetry(state))
  private readonly name: { tenant: string; program: string }
  private readonly broken: BrokenRuns
  private readonly lostLeases: LostLeases

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.storage = new ProgramStorage(ctx.storage)
    this.staleAfterMs = Number(env.PROGRAM_STALE_AFTER_S) * 1000
    if (!(this.staleAfterMs > 0)) throw new Error('PROGRAM_STALE_AFTER_S must be a number of seconds above 0')
    const opening_write = env.OPENING_WRITE ?? 'alarm'
    this.notifier = new TenantNotifier((tenant, shard) => tenantActor(this.env, tenant, shard), opening_write)
    this.residency = new ProgramResidency({
      database: () => this.d1,
      running: () => this.runs.running?.entry ?? null,
      store: (hold) => this.storage.storeHold(hold),
      waitUntil: (work) => ctx.waitUntil(work),
    })
    const [tenant, program] = ProgramName.parse(JSON.parse(ctx.id.name ?? 'null'))
    this.name = { tenant, program }
    this.classes = new ClassNotifier({
      actorOf: (name) => classActor(this.env, tenant, name),
      store: (waiting) => this.storage.storeClassEnds(waiting),
      waitUntil: (work) => ctx.waitUntil(work),
    })
    this.broken = new BrokenRuns(this.name, {
      database: () => this.d1,
      forget: (run) => this.storage.forget(run, this.isNeeded ? 'stays' : 'goes'),
    })
    this.flush = new ProgramFlush({
      ...{ runs: this.runs, storage: this.storage, residency: this.residency, stale_after_ms: this.staleAfterMs },
      ...{ retry: this.retry, classes: this.classes, notifier: this.notifier, opening_write },
      setAlarm: (at_ms, options) => ctx.storage.setAlarm(at_ms, options),
      flushed: (entry, spend) => this.notifier.changed(entry, spend),
    })
    this.lostLeases = new LostLeases({
      pool: (region, model) => this.pool(region, model),
      waitUntil: (work) => ctx.waitUntil(work),
      lost: (name, leases) => this.giveUp(name, leases),
    })
    ctx.blockConcurrencyWhile(async () => {
      const { runs, ended } = this.broken.restore(await this.storage.load())
      this.runs.restore(runs)
      this.residency.restore(await this.storage.loadHold())
      this.retry.restore(await this.storage.loadRetry())
      this.classes.restore(await this.storage.loadClassEnds())
      // The previous object may have died before D1 had it.
      const { running } = this.runs
      if (running?.entry.is_held) this.residency.tell(running.entry)
      // And before its tenant was told of its charges.
      const spend = running?.entry.spend ?? null
      if (running !== null && spend !== null) this.notifier.changed(running.entry, spend)
      if (!this.broken.isEmpty) ctx.waitUntil(this.settleBroken(ended))
    })
  }

  /** Whose questions all have a deadline: archiving and late records wait for it under a lock. */
  private get d1(): D1Database {
    return withDeadline(this.env.DB)
  }

  /** As of `d1`. */
  private archiveOf(run: string): ArchiveStore {
    const { databases, BUCKET } = archiveStoreOfRun(this.env, this.name.tenant, run)
    return { databases: databases.map((one) => withDeadline(one)), BUCKET }
  }

  private async wholeArchive(records: readonly ProvenRecord[]) {
    const databases = records.length === 0 ? [] : await archiveDatabases(this.env, this.name.tenant)
    return { d1: this.d1, databases: databases.map((one) => withDeadline(one)) }
  }

  /** Whether the object has more to do than what its runs need. */
  private get isNeeded(): boolean {
    return this.residency.isHeld || !this.classes.isEmpty
  }

  async admit(request: AdmitRequest): Promise<AdmitReply> {
    const { now_ms, ended = [] } = request
    for (const one of ended) {
      // Its record says the same, and what is stored already would be stored again.
      if (!this.runs.get(one.run)?.entry.hasEnded(one.call)) this.hearEnd(one)
    }
    let run = this.running(now_ms)
    let held = false
    if (run === null) {
      if (this.runs.size >= RUNS_UNARCHIVED_MAX) return runsPending()
      if (!(await hasRoom(this.env, request))) return liveProgramsExceeded(request.live_programs_max ?? 0)
      const opening = openingOfCall(request, this.residency.inherited(now_ms))
      await this.residency.forgottenElsewhere(heldToBy(opening), Date.now())
      // Another call may have opened the run while this one waited.
      run = this.running(now_ms)
    }
    if (run === null) {
      run = this.runs.open(openingOfCall(request, this.residency.inherited(now_ms)))
      held = run.entry.is_held
      this.notifier.changed(run.entry, null)
      if (held) this.residency.tell(run.entry)
    }
    const reply = this.runs.entryOf(run, run.entry.canAdmit(request)).admit(request)
    this.flush.called(Date.now())
    this.runs.changed(run)
    if (reply.status === 'admitted') this.residency.told(heldToBy(reply), Date.now())
    // A client that was told that a program is held must not find it free after a crash, nor a share of its budget.
    if (held || (reply.status === 'admitted' && reply.reserved !== null)) await this.flush.now()
    return reply
  }

  async leaseOpened(lease: LeaseOpened): Promise<void> {
    const run = this.runs.get(lease.run)
    // A run that is not in memory was lost or is archived. The lease's record has its cost.
    if (run === undefined) return
    const opening = this.runs.entryOf(run, run.entry.canChange(lease)).leaseOpened(lease)
    this.runs.changed(run)
    // The program ended between admit and lease, so this call's tokens are not needed.
    if (opening === 'ended') this.ctx.waitUntil(this.cancel([lease]))
    if (opening === 'opened') this.discardLeft(run.entry, lease)
  }

  /** The lease is known to be on its engine. */
  private discardLeft(entry: ProgramEntry, lease: Pick<LeaseOpened, 'call' | 'engine'>): void {
    const left = entry.leftContext(lease)
    if (left !== null) this.ctx.waitUntil(this.discard([left]))
  }

  async leaseLost(lost: Parameters<ProgramRpc['leaseLost']>[0]): Promise<void> {
    const run = this.runs.get(lost.run)
    if (run === undefined) return
    this.runs.entryOf(run, run.entry.canChange(lost)).leaseLost(lost)
    this.runs.changed(run)
  }

  async callEnded(ended: CallEnded): Promise<void> {
    this.hearEnd(ended)
  }

  private hearEnd(ended: CallEnded): void {
    const run = this.runs.get(ended.run)
    if (run === undefined) return
    this.runs.entryOf(run, run.entry.canChange({ call: ended.call })).callEnded(ended)
    this.runs.changed(run)
  }

  /**
   * Writes first, then answers. If a write or the archive fails it throws, and the agent sends those records again. The record of a
   * lease that was given to another agent is left out of the answer and changes nothing.
   */
  async settle(records: readonly ProvenRecord[]): ReturnType<ProgramRpc['settle']> {
    const now_ms = Date.now()
    const late: ProvenRecord[] = []
    const foreign = new Set<string>()
    const gathered = new Set<string>()
    for (const record of records) {
      const was_expected = this.runs.get(record.run)?.entry.isExpected(record.lease) ?? false
      const settlement = this.runs.settle(record, now_ms)
      if (settlement === 'absent') late.push(record)
      if (settlement === 'foreign') foreign.add(record.lease)
      else if (this.runs.get(record.run)?.entry.gathers(record.lease)) gathered.add(record.lease)
      const entry = settlement === 'applied' ? this.runs.get(record.run)?.entry : undefined
      if (entry?.state === 'ended') this.discardAfterEnd([record])
      else if (was_expected && entry !== undefined) this.discardLeft(entry, record)
    }
    if (late.length > 0) await this.archiving.run(() => this.settleLate(late, { foreign, gathered }, now_ms))
    await this.flush.now()
    await this.ctx.storage.sync()
    if (foreign.size > 0) logFailure('foreign_records', `${foreign.size} leases of other agents`)
    const confirmed = records.map(({ lease }) => lease).filter((lease) => !foreign.has(lease))
    return { confirmed, gathered: confirmed.filter((lease) => gathered.has(lease)) }
  }

  start(request: StartRequest): ReturnType<ProgramRpc['start']> {
    return this.starting.run(() => this.startAlone(request))
  }

  private async startAlone(request: StartRequest): ReturnType<ProgramRpc['start']> {
    const { now_ms, tenant, program, regions = null, budget = null } = request
    const exists = (run: Run) => ({ status: 'exists' as const, summary: run.entry.summary() })
    const known = this.running(now_ms)
    if (known !== null) return exists(known)
    if (!(await hasRoom(this.env, request))) return { status: 'full' }
    const id = newRunId(now_ms, tenantShard(program, request.tenant_shards ?? 1))
    const { residency } = this
    const to = heldToBy({ regions, budget })
    await residency.forgottenElsewhere(to, Date.now())
    const is_held = regions !== null || budget !== null
    const known_to_d1 = !is_held || (await residency.announce({ tenant, program, run: id, ...to }))
    // A call may have opened a run of its own meanwhile.
    const opened = this.running(now_ms)
    if (!known_to_d1 || opened !== null) {
      residency.started()
      return opened === null ? { status: 'store_unavailable' } : exists(opened)
    }
    const run = this.runs.open(openingOfStart(id, request))
    residency.started()
    residency.letGo()
    await this.flush.now()
    await this.notifier.tell(run.entry, null).catch((error: unknown) => {
      logFailure('tenant_not_told', error)
      this.notifier.changed(run.entry, null)
    })
    return { status: 'started', summary: run.entry.summary() }
  }

  async describe(now_ms: number): Promise<ProgramSummary | null> {
    return this.latest(now_ms)?.entry.summary() ?? null
  }

  async calls(page: Parameters<ProgramRpc['calls']>[0]): Promise<Awaited<ReturnType<ProgramRpc['calls']>>> {
    const run = this.latest(Date.now())
    return run === null ? null : this.runs.entryOf(run, false).callsPage(page)
  }

  async weigh(weight: number, now_ms: number): Promise<ProgramSummary | null> {
    const run = this.running(now_ms)
    if (run === null) return null
    run.entry.weigh(weight)
    this.runs.changed(run)
    await this.flush.now()
    return run.entry.summary()
  }

  async end(now_ms: number): Promise<Awaited<ReturnType<ProgramRpc['end']>>> {
    const run = this.running(now_ms)
    if (run === null) {
      this.residency.letGo()
      return { status: 'absent', summary: this.latest(now_ms)?.entry.summary() ?? null, open_leases: [] }
    }
    const open_leases = this.close(run, now_ms, 'explicit')
    await this.flush.now()
    await this.archiveEnded([run])
    return { status: 'ended', summary: run.entry.summary(), open_leases }
  }

  /** May fire twice, late, or for nothing. It does what is due and sets itself again. */
  override async alarm(): Promise<void> {
    this.flush.alarmFired()
    this.running(Date.now())
    await this.flush.due()
    await this.archiveEnded(this.runs.all)
    await this.setBrokenAside()
    await this.residency.expire(Date.now())
    await this.classes.due(Date.now())
    await this.notifier.due(Date.now())
    if (this.runs.size === 0 && !this.isNeeded) return this.storage.clear()
    await this.flush.resetAlarm()
  }

  /** Ends the broken runs that load, and sets the others aside. What fails is done again by the alarm. */
  private async settleBroken(ended: ReadonlySet<string>): Promise<void> {
    const closed = this.runs.all.filter(({ entry }) => ended.has(entry.run))
    for (const run of closed) this.close(run, Date.now(), 'stale')
    await this.archiveEnded(closed)
    await this.setBrokenAside()
  }

  private setBrokenAside(): Promise<void> {
    return this.archiving.run(async () => {
      for (const run of await this.broken.setAside()) await this.notifier.forgotten(this.name, run)
    })
  }

  /** The running run. Ends one that has gone stale, whether or not its alarm came. */
  private running(now_ms: number): Run | null {
    const { running: run } = this.runs
    if (run === null) return null
    if (run.entry.closeOrphans(now_ms) > 0) this.runs.changed(run)
    this.lostLeases.look(run.entry, now_ms)
    if (!isStale(run.entry, now_ms, this.staleAfterMs)) return run
    const abandoned = this.close(run, now_ms, 'stale')
    this.ctx.waitUntil(Promise.all([this.cancel(abandoned), this.archiveEnded([run])]))
    return null
  }

  /** Their agents do not have them. A record that comes later overrides this. */
  private giveUp(name: string, leases: readonly string[]): void {
    const run = this.runs.get(name)
    if (run === undefined) return
    for (const lease of leases) run.entry.leaseLost({ run: name, lease, error_code: ORPHANED })
    run.entry.closeOrphans(Date.now())
    this.runs.changed(run)
  }

  /** The run that readers see: the running one, otherwise the one that ended last and is not in the archive. */
  private latest(now_ms: number): Run | null {
    return this.running(now_ms) ?? this.runs.last
  }

  private close(run: Run, now_ms: number, reason: EndReason): OpenLeaseRef[] {
    const open_leases = run.entry.end(now_ms, reason)
    this.runs.changed(run)
    this.flush.atOnce()
    this.residency.ended(run.entry, reason, now_ms)
    this.ctx.waitUntil(this.discard(run.entry.contextsOfEnded()))
    return open_leases
  }

  /** Adds the leases that were given to another agent to `foreign`, and those whose charges are told to `gathered`. */
  private async settleLate(
    records: readonly ProvenRecord[],
    { foreign, gathered }: { foreign: Set<string>; gathered: Set<string> },
    now_ms: number,
  ): Promise<void> {
    const isHere = (run: string) => this.runs.get(run) !== undefined
    const lost = records.filter(({ run }) => this.broken.isLost(run))
    const others = records.filter(({ run }) => !this.broken.isLost(run))
    const { here, archived, forgotten, dead } = await sortLateRecords(await this.wholeArchive(others), others, isHere)
    await this.broken.bury([...lost, ...dead])
    for (const [run, ofRun] of archived) {
      const settled = await settleArchived(this.archiveOf(run), run, ofRun, now_ms)
      if (settled.status === 'unreadable') {
        await this.broken.bury(ofRun)
        continue
      }
      for (const lease of settled.foreign) foreign.add(lease)
      this.discardAfterEnd(ofRun.filter(({ lease }) => !foreign.has(lease)))
      if (settled.changed !== null) this.classes.archiveChanged(run, settled.changed)
      if (settled.gathered.length === 0 || settled.spend === null) continue
      // Repeats too: the tenant may not have heard of it the first time.
      await this.notifier.charged(this.name.tenant, settled.spend)
      for (const lease of settled.gathered) gathered.add(lease)
    }
    for (const record of [...here, ...(await this.adopted(forgotten, now_ms))]) {
      const settlement = this.runs.settle(record, now_ms)
      if (settlement === 'foreign') foreign.add(record.lease)
      if (settlement === 'absent') throw new Error(`run ${record.run} left while its records were applied`)
      if (this.runs.get(record.run)?.entry.gathers(record.lease)) gathered.add(record.lease)
    }
  }

  /**
   * Records of runs that were lost before their first flush, under the run that takes them (late-records.ts). The archive knows of
   * those that change their run before they are applied, so that a repeat finds that run, also once it is archived.
   */
  private async adopted(forgotten: readonly ProvenRecord[], now_ms: number): Promise<ProvenRecord[]> {
    const own: ProvenRecord[] = []
    const changed: ProvenRecord[] = []
    for (const record of forgotten) {
      if (this.runs.hasSettled(record.lease)) continue
      const run =
        this.runs.get(record.run) ??
        this.running(now_ms) ??
        this.runs.open(openingOfLostRun(record, this.residency.inherited(now_ms), now_ms))
      if (run.entry.run === record.run) own.push(record)
      else changed.push({ ...record, run: run.entry.run })
    }
    const [first] = changed
    if (first === undefined) return own
    const leases = changed.map(({ lease }) => lease)
    const [database] = this.archiveOf(first.run).databases
    await adoptLeases(database as D1Database, first, leases, now_ms)
    return [...own, ...changed]
  }

  /** Brings ended runs to the archive. The alarm retries those that fail. */
  private archiveEnded(ended: readonly Run[]): Promise<void> {
    return this.archiving.run(async () => {
      for (const run of ended) {
        const { entry } = run
        if (entry.state !== 'ended' || this.runs.get(entry.run) === undefined) continue
        try {
          await this.archive(run)
          await this.retry.succeeded()
        } catch (error) {
          logFailure('archive_failed', error, { tenant: entry.tenant, run: entry.run })
          // The others would meet the same refusal.
          return this.retry.failed(Date.now())
        }
      }
    })
  }

  private async archive(run: Run): Promise<void> {
    const { entry } = run
    for (let round = 0; round < ARCHIVE_ROUNDS_MAX; round++) {
      const { revision } = run
      const rows = this.runs.entryOf(run, false).rows()
      const { spend } = entry
      if (run.archived_revision !== revision) await this.write(run, rows)
      const end = classEndOf(rows)
      let counts_for: string | null
      try {
        if (entry.is_held) await this.residency.tellOnce(entry)
        counts_for = await this.notifier.ended(entry, tellsOfClass(end) ? rows.program.class : null, spend)
      } catch (error) {
        if (run.revision === revision) await this.storage.markArchived(entry.run)
        throw error
      }
      // A record that came during the wait must reach the archive before the run is forgotten here.
      if (run.revision !== revision) continue
      this.runs.forget(entry.run)
      this.broken.archived(entry.run)
      if (counts_for !== null) await this.classes.ended(entry.run, counts_for, end)
      return this.flush.forget(entry)
    }
  }

  /** `rows`: the run's, as they are. */
  private async write(run: Run, rows: ProgramRows): Promise<void> {
    const { revision, entry } = run
    const { tenant } = entry
    const summary = entry.summary()
    await this.broken.keep(entry.run)
    await archiveActor(this.env, tenant, runShard(entry.run)).keep(await endedRun(rows, summary))
    run.archived_revision = revision
  }

  /** A run whose history does not load starts anew with this object, whole, so that it is set aside (broken-runs.ts). */
  private historyOf(run: string): Pick<ProgramRows, 'calls' | 'leases'> {
    const history = this.storage.history(run)
    if (history !== null) return history
    const reason = 'rows of a run do not load'
    // Storage must have lost the run's checkpoint, or the next object would meet the same.
    const abort = async () => {
      await this.ctx.storage.sync()
      this.ctx.abort(reason)
    }
    // `abort` throws its reason.
    this.ctx.waitUntil(abort().catch(() => undefined))
    throw new Error(reason)
  }

  private cancel(open: readonly OpenLeaseRef[]): Promise<void> {
    return cancelLeases(open, (region, model) => this.pool(region, model))
  }

  /** These records came after their runs had ended. */
  private discardAfterEnd(records: readonly ProvenRecord[]): void {
    const kept = keptAfterEnd(records)
    if (kept.length > 0) this.ctx.waitUntil(this.discard(kept))
  }

  /** An engine that is not told keeps the KV until its own bounds (gpu-agent/engine/memory/handling). */
  private async discard(contexts: readonly LeftContext[]): Promise<void> {
    await Promise.all(
      contexts.map(async ({ region, model, ...left }) => {
        try {
          await this.pool(region, model).discardContext(left)
        } catch (error) {
          logFailure('discard_failed', error, { region, model })
        }
      }),
    )
  }

  /** It exists, so no hint of where to create it is needed. */
  private pool(region: string, model: string): PoolRpc {
    return poolActor(this.env, { id: region, location_hint: null }, model)
  }
}
