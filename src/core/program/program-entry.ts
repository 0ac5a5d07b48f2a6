/**
 * One program's entry of the process table (Autellix §4.2.1): a state machine over calls, leases and records. It has no
 * clock and no storage. The ProgramActor, the simulator and tests drive it and pass the time in.
 *
 * Keeps true:
 * - Totals equal the sums over the leases, in integers. A record counts once, however often it comes.
 * - The entry depends on the facts that it received, not on their order. A record may come before the message that opened
 *   its lease, after the call was closed, or for a call that was forgotten when memory was lost.
 * - A record from the agent that was given the lease is never refused. The number of calls is bounded at admission, where
 *   the client can still get an error.
 */
import { type Budget, type BudgetState, budgetLeft } from '../budget/budget.ts'
import type { Reservation } from '../budget/reservation.ts'
import type { RunSpendTold } from '../budget/run-spend.ts'
import type { ServiceReading } from '../call/service.ts'
import type { Pin } from '../pool/pool-types.ts'
import { hash32 } from '../wire/hash.ts'
import { CallTable } from './call-table.ts'
import { type LeftContext, leftContext } from './left-context.ts'
import { pageBounds } from './page-bounds.ts'
import { ProgramPlacement } from './program-placement.ts'
import {
  type Admission,
  CALLS_PAGE_MAX,
  type CallArrival,
  type CallEnded,
  type CallEntry,
  type CallOrder,
  type CallRow,
  CHECKPOINT_CALLS_MIN,
  type Checkpoint,
  type DirtyRows,
  type EndReason,
  LEASE_ASKED_MS,
  LEASES_PER_CALL_MAX,
  type LeaseGrant,
  type LeaseRow,
  OPEN_LEASES_LISTED_MAX,
  OPEN_LEASES_TOLD_MAX,
  type OpenLeaseRef,
  ORPHANED,
  ORPHANED_CALL_MS,
  ORPHANED_LEASE_MS,
  type ProgramRow,
  type ProgramRows,
  type ProgramSummary,
  type ProvenRecord,
  type ThreadSummary,
} from './program-state.ts'
import { bounded, boundedTotals } from './program-totals.ts'
import { admissionRefusal, budgetRefusal } from './run-limits.ts'
import { type CallState, callEntry, callRow, copied } from './stored-rows.ts'

export type LeaseOpening = 'opened' | 'known' | 'ended' | 'exceeded' | 'other_run'
export type Settlement = 'applied' | 'duplicate' | 'other_run' | 'foreign'

export interface ProgramOpening {
  tenant: string
  program: string
  run: string
  app: string | null
  class: string
  metadata: Readonly<Record<string, string>> | null
  reading: ServiceReading
  /** Regions to which the program is held. Null or left out: any. */
  regions?: readonly string[] | null
  /** Null or left out: none. */
  budget?: Budget | null
  now_ms: number
}

export type ProgramKeys = Pick<
  Extract<Admission, { status: 'admitted' }>,
  'sequence' | 'settled_service_us' | 'critical_path_us' | 'program_wait_us' | 'program_output_tokens'
>

export class ProgramEntry {
  #program: Omit<ProgramRow, 'pins'>
  #calls: CallTable
  #placement = new ProgramPlacement()
  #dirty = true

  private constructor(program: Omit<ProgramRow, 'pins'>, calls: CallTable) {
    this.#program = program
    this.#calls = calls
  }

  static open(opening: ProgramOpening): ProgramEntry {
    const { now_ms, ...program } = opening
    const row = {
      ...program,
      metadata: { ...opening.metadata },
      source: null,
      regions: copied(opening.regions),
      budget: opening.budget ?? null,
      weight: 1,
      started_at_ms: now_ms,
      ended_at_ms: null,
      end_reason: null,
      last_arrival_ms: null,
      last_completion_ms: null,
    }
    return new ProgramEntry(row, new CallTable(opening.reading, row.budget))
  }

  /** Restores the entry from its rows. Sums, threads and paths are recomputed, so they cannot disagree with the leases. */
  static restore(rows: ProgramRows): ProgramEntry {
    const { pins, ...program } = rows.program
    const calls = CallTable.restore(program.reading, rows.calls, rows.leases, program.budget)
    const entry = new ProgramEntry({ ...program, metadata: { ...program.metadata } }, calls)
    for (const lease of [...calls.leases()].sort((a, b) => a.opened_at_ms - b.opened_at_ms))
      entry.#placement.used(lease)
    for (const pin of pins) entry.#placement.pin(pin)
    entry.#heard(rows.calls)
    entry.#dirty = false
    return entry
  }

  /**
   * Goes on from a checkpoint and the rows that it names. What needs the history (`isWhole`, `canAdmit`, `canChange`) must
   * not be asked before `complete`.
   */
  static resume(rows: ProgramRows, checkpoint: Checkpoint): ProgramEntry {
    const { pins, ...program } = rows.program
    const calls = CallTable.resume(program.reading, checkpoint, rows.calls, rows.leases, program.budget)
    const entry = new ProgramEntry({ ...program, metadata: { ...program.metadata } }, calls)
    for (const engine of checkpoint.engines) entry.#placement.used(engine)
    for (const pin of pins) entry.#placement.pin(pin)
    entry.#heard(rows.calls)
    entry.#dirty = false
    return entry
  }

  /** Adds the history, from all rows as stored. What is here is newer. Sums are recomputed from the leases. */
  complete(stored: Pick<ProgramRows, 'calls' | 'leases'>): void {
    const dirty = this.#calls.takeDirty()
    const here = this.#calls.held()
    const calls = new Map([...stored.calls, ...here.calls].map((call) => [call.call, call]))
    const leases = new Map([...stored.leases, ...here.leases].map((lease) => [lease.lease, lease]))
    const { reading, budget } = this.#program
    this.#calls = CallTable.restore(reading, [...calls.values()], [...leases.values()], budget)
    this.#calls.giveBack(dirty)
  }

  /** Whether the run's history is here. Rows and pages of calls need it. */
  get isWhole(): boolean {
    return this.#calls.isWhole
  }

  /** Whether `admit` does not need the history. */
  canAdmit(arrival: Pick<CallArrival, 'parents' | 'thread'>): boolean {
    return this.#calls.canPlace(arrival)
  }

  /** Whether what is told of this call, or of this lease of it, does not need the history. */
  canChange({ call, lease = null }: { call?: string; lease?: string | null }): boolean {
    return this.#calls.canChange(call, lease)
  }

  get tenant(): string {
    return this.#program.tenant
  }
  get program(): string {
    return this.#program.program
  }
  get run(): string {
    return this.#program.run
  }
  get state(): 'running' | 'ended' {
    return this.#program.ended_at_ms === null ? 'running' : 'ended'
  }
  /** Regions to which it is held. Null: any. */
  get regions(): string[] | null {
    return copied(this.#program.regions)
  }
  /** Whether a call must keep to limits that only this entry and D1 know. */
  get is_held(): boolean {
    return this.#program.regions !== null || this.#program.budget !== null
  }
  /** Null: none. */
  get budget(): Budget | null {
    return this.#program.budget
  }
  /** What a further run of the program may still spend. Null: it has no budget. */
  get budget_left(): Budget | null {
    const { spend } = this.#calls
    return spend === null ? null : budgetLeft(spend.budget, spend.used)
  }
  /** What its calls were charged, of those whose charges it tells its tenant. Null: none has settled. */
  get spend(): RunSpendTold | null {
    const { gathered } = this.#calls
    if (gathered.leases === 0) return null
    const { program, run, class: of_class } = this.#program
    return { program, run, class: of_class, ...gathered }
  }
  get open_calls(): number {
    return this.#calls.openCalls.size
  }
  /** Last arrival, completion or start: what staleness counts from. */
  get last_activity_ms(): number {
    const { started_at_ms, last_arrival_ms, last_completion_ms } = this.#program
    return Math.max(started_at_ms, last_arrival_ms ?? 0, last_completion_ms ?? 0)
  }

  /** Opens a call. A repeated call opens nothing. It gets the place that it has, with the keys of this moment. */
  admit(arrival: CallArrival): Admission {
    if (this.state === 'ended') throw new Error('a call must not be admitted to an ended run')
    this.closeOrphans(arrival.now_ms)
    const keys = this.keys()
    if (this.#calls.size === 0 && arrival.reading !== undefined) this.#readAs(arrival.reading)
    let call = this.#calls.get(arrival.call)
    if (call === undefined) {
      const refusal = admissionRefusal(this.#calls.size, this.open_calls)
      if (refusal !== null) return refusal
      const reserving = this.#calls.spend?.reserve(arrival.wants ?? WANTS_UNKNOWN, arrival.now_ms) ?? null
      if (reserving?.status === 'refused') return budgetRefusal(reserving)
      if (this.#calls.size === 0) this.#program.source = arrival.source ?? null
      // The run's own row has its first call's source.
      this.#dirty ||= this.#calls.size === 0
      call = this.#calls.open(arrival, reserving?.reservation ?? null)
      if (arrival.warnings != null) call.warnings = arrival.warnings
      this.#arrived(call)
    }
    const { run, class: of_class, regions } = this.#program
    const pin = this.#placement.pinOf(arrival.model)
    const open_leases = this.#openLeaseIds(OPEN_LEASES_TOLD_MAX)
    const expected_lease = this.#expect(call, arrival, pin)
    const { thread, position } = call
    const { reading } = this.#program
    return {
      ...{ status: 'admitted', run, thread, class: of_class, ...keys, reading, open_leases, pin, expected_lease },
      ...{ position, last_tool: this.#calls.lastTool(call) },
      regions: copied(regions),
      reserved: reservationOf(call),
      budget: this.#budgetState(),
      weight: this.#program.weight,
    }
  }

  /**
   * A lease was granted. `exceeded`: more than LEASES_PER_CALL_MAX, so not kept, but its record will be. `ended`: kept, but
   * the run is over and the engine should cancel the lease.
   */
  leaseOpened(grant: LeaseGrant): LeaseOpening {
    if (grant.run !== this.run) return 'other_run'
    if (grant.pin && this.#placement.pin(grant)) this.#dirty = true
    const known = this.#calls.lease(grant.lease)
    if (known?.expected) {
      this.#calls.placeExpected(known, grant)
      this.#placement.used(known)
      return this.state === 'ended' ? 'ended' : 'opened'
    }
    if (known !== undefined) {
      if (known.reason === null) this.#calls.completeGrant(known, grant)
      return 'known'
    }
    const call = this.#calls.get(grant.call) ?? this.#calls.openForgotten(grant.call, grant.model, null, grant.now_ms)
    this.#arrived(call)
    if (call.leases.length >= LEASES_PER_CALL_MAX) return 'exceeded'
    this.#placement.used(this.#calls.addGrant(call, grant))
    return this.state === 'ended' ? 'ended' : 'opened'
  }

  /** A repeated call whose lease was placed or lost meanwhile expects nothing. */
  #expect(call: CallState, { lease, now_ms }: CallArrival, pin: Pin | null): string | null {
    if (lease == null || pin === null) return null
    const known = this.#calls.lease(lease)
    if (known === undefined && call.leases.length === 0 && call.state === 'open') {
      this.#placement.used(this.#calls.expect(call, lease, pin, now_ms))
      return lease
    }
    const { expected, engine, epoch, region } = known ?? {}
    const isThere = engine === pin.engine && epoch === pin.epoch && region === pin.region
    return expected && isThere ? lease : null
  }

  /** Whether the lease is where it is only expected to be. */
  isExpected(lease: string): boolean {
    return this.#calls.lease(lease)?.expected === true
  }

  /** Where the program's KV is kept for nothing, since this lease, which has opened, goes to another engine. Null: nowhere. */
  leftContext({ call, engine }: Pick<LeaseGrant, 'call' | 'engine'>): LeftContext | null {
    const opened = this.#calls.get(call)
    const left = opened === undefined ? null : this.#calls.leftContext(opened, engine)
    return left === null ? null : this.#contextAt(left)
  }

  /** Where the KV of this run, which has ended, is kept for nothing: at most once for each engine. */
  contextsOfEnded(): LeftContext[] {
    return this.state === 'running' ? [] : this.#calls.keptContexts().map((lease) => this.#contextAt(lease))
  }

  #contextAt(lease: Pick<LeftContext, 'agent' | 'engine' | 'region' | 'model'>): LeftContext {
    const { tenant, program, run } = this
    return leftContext({ ...lease, tenant, program, run })
  }

  /** The lease never reached its engine, or its agent is gone. A record that comes later overrides this. */
  leaseLost(lost: { run: string; lease: string; error_code: string }): void {
    const lease = lost.run === this.run ? this.#calls.lease(lost.lease) : undefined
    if (lease?.state === 'open') this.#calls.lose(lease, lost.error_code)
  }

  /** The Worker has answered the client. The first such message counts, until a record says otherwise. */
  callEnded(ended: CallEnded): void {
    const call = ended.run === this.run ? this.#calls.get(ended.call) : undefined
    if (call !== undefined && ended.is_unleased) this.#calls.dropExpected(call)
    if (call === undefined || (call.answered !== null && call.answered.error_code !== ORPHANED)) return
    const { outcome, error_code, warnings } = ended
    call.answered = { outcome, error_code, ...(warnings === undefined ? {} : { warnings }) }
    this.#resolve(call, ended.now_ms)
  }

  /**
   * Applies a record once. `other_run`: it belongs to another run, and the archive takes it. `foreign`: the lease was given
   * to another agent, and only that agent's record counts.
   */
  settle(record: ProvenRecord, now_ms: number): Settlement {
    if (record.tenant !== this.tenant || record.program !== this.program) throw new Error('record of another program')
    if (record.run !== this.run) return 'other_run'
    const known = this.#calls.lease(record.lease)
    // The record's proof names the agent that the lease was given to.
    if (known !== undefined && !known.expected && known.agent !== record.agent) return 'foreign'
    if (known?.state === 'settled') return 'duplicate'
    if (known === undefined || known.expected) this.#placement.used(record)
    const call = this.#calls.settle(record, now_ms)
    this.#arrived(call)
    this.#resolve(call, now_ms)
    return 'applied'
  }

  /** Ends the run and closes open calls as cancelled. Returns the leases that engines still hold. A repeat changes nothing. */
  end(now_ms: number, reason: EndReason): OpenLeaseRef[] {
    if (this.state === 'running') {
      this.#program.ended_at_ms = now_ms
      this.#program.end_reason = reason
      this.#dirty = true
      for (const call of [...this.#calls.openCalls]) {
        call.answered ??= { outcome: 'cancelled', error_code: 'program_ended' }
        this.#resolve(call, now_ms)
      }
    }
    return this.openLeases()
  }

  /** From its next call on. */
  weigh(weight: number): void {
    this.#program.weight = weight
    this.#dirty = true
  }

  /** Whether `spend` has what this settled lease was charged. Of a lease that is not history. */
  gathers(lease: string): boolean {
    return this.#calls.lease(lease)?.charged !== undefined
  }

  /** Of a call that is not history. */
  hasEnded(call: string): boolean {
    return this.#calls.get(call)?.state === 'ended'
  }

  /** Whether the lease's record was applied. */
  hasSettled(lease: string): boolean {
    return this.#calls.lease(lease)?.state === 'settled'
  }

  /** The oldest first. */
  openLeases(): OpenLeaseRef[] {
    const refs = [...this.#calls.openLeases].sort(byOpening)
    return refs.map(({ lease, region, model, agent, engine }) => ({ lease, region, model, agent, engine }))
  }

  /**
   * Closes calls whose Worker died before it leased them, or after their lease was lost. Gives up leases whose record never
   * came. Returns the number of both.
   */
  closeOrphans(now_ms: number): number {
    let closed = 0
    for (const lease of [...this.#calls.openLeases]) {
      if (now_ms - lease.opened_at_ms < ORPHANED_LEASE_MS) continue
      this.#calls.lose(lease, ORPHANED)
      closed += 1
    }
    for (const call of [...this.#calls.openCalls]) {
      if (now_ms - call.opened_at_ms < ORPHANED_CALL_MS) continue
      if (call.leases.some((lease) => lease.state === 'open')) continue
      call.answered = { outcome: 'failed', error_code: ORPHANED }
      this.#resolve(call, now_ms)
      closed += 1
    }
    this.#calls.expireReservations(now_ms - ORPHANED_LEASE_MS)
    return closed
  }

  /** Open leases that are old enough to ask their agents for. */
  leasesToAskFor(now_ms: number): OpenLeaseRef[] {
    const old: OpenLeaseRef[] = []
    for (const { lease, region, model, agent, engine, opened_at_ms } of this.#calls.openLeases) {
      if (now_ms - opened_at_ms >= LEASE_ASKED_MS) old.push({ lease, region, model, agent, engine })
    }
    return old
  }

  /**
   * What a call admitted at this moment carries. An open lease adds nothing: its age only tells how long it waited, and
   * only its agent knows what it was charged.
   */
  keys(): ProgramKeys {
    const { service_us, wait_us, output_tokens } = this.#calls.totals
    return {
      sequence: [Math.floor(this.#program.started_at_ms), hash32(this.run)],
      settled_service_us: bounded(service_us),
      critical_path_us: bounded(this.#calls.criticalPathUs()),
      program_wait_us: bounded(wait_us),
      program_output_tokens: bounded(output_tokens),
    }
  }

  summary(): ProgramSummary {
    const { reading: _, ...program } = this.#program
    return {
      ...program,
      metadata: { ...program.metadata },
      regions: copied(program.regions),
      budget: this.#budgetState(),
      state: this.state,
      ...boundedTotals(this.#calls.totals),
      critical_path_us: this.#calls.criticalPathUs(),
      engines: this.#placement.engines(),
      pins: this.#placement.pins(),
      threads: [...this.#calls.openCalls].map((call) => this.#thread(call)),
      activity: this.#activity(),
      tools: this.state === 'running' ? this.#calls.tools() : [],
      outlook: this.#calls.outlook(),
      open_leases: this.openLeases().slice(0, OPEN_LEASES_LISTED_MAX),
      calls: this.#calls.size,
      open_calls: this.open_calls,
    }
  }

  /** Calls in the order in which they were opened, or the other way, after the call `after`. An unknown `after` gives an empty page. */
  callsPage(page: { after: string | null; limit: number; order?: CallOrder }): {
    calls: CallEntry[]
    next: string | null
  } {
    const { size } = this.#calls
    const limit = Math.max(1, Math.min(page.limit, CALLS_PAGE_MAX))
    const after = page.after === null ? null : (this.#calls.get(page.after)?.position ?? null)
    if (page.after !== null && after === null) return { calls: [], next: null }
    const { from, to, is_last } = pageBounds(page.order ?? 'asc', after, limit, size)
    const opened = this.#calls.slice(from, to).map(callEntry)
    const calls = page.order === 'desc' ? opened.toReversed() : opened
    return { calls, next: is_last ? null : (calls.at(-1)?.call ?? null) }
  }

  get isDirty(): boolean {
    return this.#dirty || this.#calls.isDirty
  }

  /** Returns copies of all rows that changed since the last take, and marks them clean. */
  takeDirty(checkpoint_calls_min = CHECKPOINT_CALLS_MIN): DirtyRows {
    const checkpoint = this.isDirty && this.#calls.size >= checkpoint_calls_min ? this.#checkpoint() : null
    const program = this.#dirty || checkpoint !== null ? this.#row() : null
    this.#dirty = false
    return { program, ...(checkpoint === null ? {} : { checkpoint }), ...this.#calls.takeDirty() }
  }

  /** Storage did not confirm a take. The next take has those rows again, with their values then. */
  giveBack(taken: DirtyRows): void {
    this.#dirty ||= taken.program !== null
    this.#calls.giveBack(taken)
  }

  /** Every row, for the archive. */
  rows(): ProgramRows {
    const leases = [...this.#calls.leases()].map((lease) => ({ ...lease }))
    return { program: this.#row(), calls: this.#calls.slice(0, this.#calls.size).map(callRow), leases }
  }

  #budgetState(): BudgetState | null {
    const { spend } = this.#calls
    return spend === null ? null : { limits: spend.budget, used: { ...spend.used }, reserved: spend.reserved }
  }

  #activity(): ProgramSummary['activity'] {
    if (this.state === 'ended' || this.#calls.size === 0) return null
    return this.open_calls > 0 ? 'reasoning' : 'acting'
  }

  #checkpoint(): Checkpoint | null {
    const checkpoint = this.#calls.checkpoint()
    return checkpoint === null ? null : { ...checkpoint, engines: this.#placement.enginesByUse() }
  }

  /** A run that started without a call takes the reading of its first call's model. */
  #readAs(reading: ServiceReading): void {
    if (reading === this.#program.reading) return
    this.#program.reading = reading
    this.#calls = new CallTable(reading)
    this.#dirty = true
  }

  #openLeaseIds(limit: number): string[] {
    const ids: string[] = []
    for (const { lease } of this.#calls.openLeases) {
      if (ids.length === limit) break
      ids.push(lease)
    }
    return ids
  }

  #row(): ProgramRow {
    const { metadata, regions } = this.#program
    return { ...this.#program, metadata: { ...metadata }, regions: copied(regions), pins: this.#placement.pins() }
  }

  #resolve(call: CallState, now_ms: number): void {
    if (this.#calls.resolve(call, now_ms)) this.#completed(call)
  }

  // Times of the calls tell both again after a restart, so neither makes the program's row dirty.
  #arrived({ opened_at_ms }: Pick<CallRow, 'opened_at_ms'>): void {
    const { last_arrival_ms } = this.#program
    this.#program.last_arrival_ms = Math.max(last_arrival_ms ?? 0, opened_at_ms)
  }

  #heard(calls: readonly CallRow[]): void {
    for (const call of calls) {
      this.#arrived(call)
      this.#completed(call)
    }
  }

  #completed({ ended_at_ms }: Pick<CallRow, 'ended_at_ms'>): void {
    const { last_completion_ms } = this.#program
    if (ended_at_ms !== null) this.#program.last_completion_ms = Math.max(last_completion_ms ?? 0, ended_at_ms)
  }

  #thread(call: CallState): ThreadSummary {
    const wait_us = bounded(call.leases.reduce((sum, lease) => sum + lease.wait_us, 0))
    const service_us = this.#calls.settledUs(call)
    const { thread, opened_at_ms } = call
    const engine = call.leases.at(-1)?.engine ?? null
    return { thread, call: call.call, arrived_at_ms: opened_at_ms, wait_us, service_us, engine }
  }
}

/** Of a call of which nothing is known but that it comes: it reserves all that is left. */
const WANTS_UNKNOWN = {
  most: {
    calls: 1,
    tokens: Number.MAX_SAFE_INTEGER,
    service_us: Number.MAX_SAFE_INTEGER,
    cost_nanos: Number.MAX_SAFE_INTEGER,
  },
  least_tokens: 1,
  prices: null,
}

function reservationOf({ reserved }: CallState): Reservation | null {
  return reserved === null ? null : { ...reserved, amounts: { ...reserved.amounts } }
}

function byOpening(one: LeaseRow, other: LeaseRow): number {
  if (one.opened_at_ms !== other.opened_at_ms) return one.opened_at_ms - other.opened_at_ms
  return one.lease < other.lease ? -1 : 1
}
