/**
 * Calls and leases of one run, and what follows from them: sums, threads, the critical path, which are open, and which
 * rows storage does not have yet. It knows facts about calls and nothing about the program (program-entry.ts).
 */

import { type Outlook, outlookOf } from '../../protocol/measurement.ts'
import type { Budget } from '../budget/budget.ts'
import { ProgramSpend } from '../budget/program-spend.ts'
import type { Reservation } from '../budget/reservation.ts'
import { chargedOf, RunSpend, type RunSpendSums } from '../budget/run-spend.ts'
import { callVerdict } from '../call/call-outcome.ts'
import type { ServiceReading } from '../call/service.ts'
import type { Pin } from '../pool/pool-types.ts'
import { ActingCalls } from './acting-calls.ts'
import { CriticalPath } from './critical-path.ts'
import { isKept } from './left-context.ts'
import {
  type CallArrival,
  type CallRow,
  CHECKPOINT_BEHIND_MAX,
  CHECKPOINT_THREADS_MAX,
  type Checkpoint,
  type LeaseGrant,
  type LeaseRow,
  type ProvenRecord,
  type ToolUnderWay,
} from './program-state.ts'
import { addLease, bounded, callServiceUs, noTotals, type ProgramTotals } from './program-totals.ts'
import {
  applyRecord,
  askedTools,
  type CallState,
  callRow,
  expectedLease,
  gatheredCharge,
  leaseFromGrant,
  leaseFromRecord,
  placeLease,
} from './stored-rows.ts'
import { ThreadTable } from './thread-table.ts'

/** Calls that are looked through for one that was settled, the latest first. More are hardly ever open at once. */
const OUTLOOK_CALLS_MAX = 64
const NOTHING_CAME = { results: [], times: [] }

export class CallTable {
  readonly openCalls = new Set<CallState>()
  readonly openLeases = new Set<LeaseRow>()
  readonly totals: Readonly<ProgramTotals>
  #totals = noTotals()
  #reading: ServiceReading
  #calls: CallState[] = []
  #byId = new Map<string, CallState>()
  #leases = new Map<string, LeaseRow>()
  #threads = new ThreadTable()
  #paths = new CriticalPath()
  #acting = new ActingCalls()
  /** A call is stored with its leases, so a change of a lease is one of its call. */
  #dirty = new Set<CallState>()
  /** Calls of the run that are not here: its history. */
  #absent = 0
  /** Calls of the history that end a thread, by their thread. */
  #tails = new Map<string, string>()
  /** Null: the program has no budget. */
  #spend: ProgramSpend | null
  #gathered = new RunSpend()

  constructor(reading: ServiceReading, budget: Budget | null = null) {
    this.#reading = reading
    this.#spend = budget === null ? null : new ProgramSpend(budget)
    this.totals = this.#totals
  }

  /** From rows in any order. No row counts as dirty afterwards. */
  static restore(
    reading: ServiceReading,
    calls: readonly CallRow[],
    leases: readonly LeaseRow[],
    budget: Budget | null = null,
  ): CallTable {
    const table = new CallTable(reading, budget)
    for (const row of calls.toSorted((a, b) => a.position - b.position)) {
      table.#add({
        ...row,
        position: table.#calls.length,
        parents: [...row.parents],
        overruled: [...row.overruled],
        leases: [],
        followed: false,
      })
    }
    table.#acting = ActingCalls.restore(table.#calls)
    for (const row of leases.toSorted((a, b) => a.position - b.position)) {
      const lease = { ...row }
      table.#attach(table.#call(lease.call), lease)
      addLease(table.#totals, lease, reading)
    }
    for (const call of table.#calls) {
      table.#paths.setService(call.call, callServiceUs(call.leases, reading))
      table.#spend?.update(call)
      table.#gathered.add(call.leases)
    }
    const ended = table.#calls.filter((call) => call.state === 'ended')
    for (const call of ended.sort((a, b) => (a.ended_at_ms ?? 0) - (b.ended_at_ms ?? 0))) {
      table.#threads.ended(call.thread, call.call)
    }
    return table
  }

  /** From a checkpoint and the rows that it names. No row counts as dirty afterwards. */
  static resume(
    reading: ServiceReading,
    checkpoint: Checkpoint,
    calls: readonly CallRow[],
    leases: readonly LeaseRow[],
    budget: Budget | null = null,
  ): CallTable {
    // Nothing is history, so every sum is that of rows, which a late grant may lower.
    if (calls.length === checkpoint.calls) return CallTable.restore(reading, calls, leases, budget)
    const table = new CallTable(reading)
    if (budget !== null) table.#spend = new ProgramSpend(budget, checkpoint.spent)
    Object.assign(table.#totals, checkpoint.totals)
    table.#paths = new CriticalPath(checkpoint.critical_path_us)
    table.#gathered = new RunSpend(checkpoint.gathered)
    const live = new Map(checkpoint.live.map((one) => [one.position, one]))
    for (const row of calls.toSorted((a, b) => a.position - b.position)) {
      const { start_us = row.inherited_us, followed = false } = live.get(row.position) ?? {}
      const call = { ...row, parents: [...row.parents], overruled: [...row.overruled], leases: [], followed }
      table.#hold(call, call.parents, start_us)
    }
    table.#acting = ActingCalls.resume(table.#calls)
    for (const row of leases.toSorted((a, b) => a.position - b.position)) {
      const lease = { ...row }
      table.#attach(table.#call(lease.call), lease)
    }
    for (const call of table.#calls) {
      table.#paths.setService(call.call, callServiceUs(call.leases, reading))
      table.#spend?.update(call)
    }
    table.#threads = ThreadTable.resume(checkpoint.threads)
    for (const { thread, last_call, last_ended } of checkpoint.threads.tails) {
      for (const call of [last_call, last_ended]) {
        if (call !== null && !table.#byId.has(call)) table.#tails.set(call, thread)
      }
    }
    table.#absent = checkpoint.calls - calls.length
    return table
  }

  /** Null: a sum is beyond what can be stored. */
  checkpoint(): Omit<Checkpoint, 'engines'> | null {
    if (!Object.values(this.#totals).every(Number.isSafeInteger) || !this.#gathered.isExact) return null
    const live = new Set(this.openCalls)
    for (const lease of this.openLeases) live.add(this.#call(lease.call))
    for (const call of this.#acting.all()) live.add(call)
    for (const call of this.#spend?.open() ?? []) live.add(this.#call(call))
    this.#addBehind(live)
    const names = [...live].map(({ call }) => call)
    const { gathered } = this
    return {
      calls: this.size,
      totals: { ...this.#totals },
      ...(this.#spend === null ? {} : { spent: this.#spend.historyWithout(names) }),
      ...(gathered.leases === 0 ? {} : { gathered }),
      critical_path_us: this.#paths.scalarUs(),
      threads: this.#threads.tails(CHECKPOINT_THREADS_MAX),
      live: [...live].map(({ call, position, leases, followed }) => ({
        position,
        start_us: this.#paths.startUs(call),
        leases: leases.map(({ lease }) => lease),
        ...(followed ? { followed } : {}),
      })),
    }
  }

  /** Calls that go on from these: a record of one of these moves them on the critical path. */
  #addBehind(live: Set<CallState>): void {
    const names = new Set([...live].map(({ call }) => call))
    const first = Math.min(...[...live].map(({ position }) => position))
    const most = live.size + CHECKPOINT_BEHIND_MAX
    for (const call of this.#calls.slice(-Math.min(this.#calls.length, this.size - first))) {
      if (live.size >= most) return
      if (!call.parents.some((parent) => names.has(parent))) continue
      live.add(call)
      names.add(call.call)
    }
  }

  /** Whether the run's history is here. */
  get isWhole(): boolean {
    return this.#absent === 0
  }

  /** Whether an arriving call can be placed without the history. */
  canPlace({ parents, thread }: Pick<CallArrival, 'parents' | 'thread'>): boolean {
    if (this.isWhole) return true
    if (thread !== null && !this.#threads.holds(thread)) return false
    return parents?.every((parent) => this.#known(parent) !== undefined) ?? true
  }

  /** Whether something can be told of this call, and of this lease of it, without the history. */
  canChange(call: string | undefined, lease: string | null): boolean {
    if (this.isWhole) return true
    const known = lease === null ? undefined : this.#leases.get(lease)
    // A late grant may lower what the lease has already added to the critical path.
    if (known === undefined) return call !== undefined && this.#byId.has(call)
    return known.reason !== null || known.state !== 'settled'
  }

  get size(): number {
    return this.#calls.length + this.#absent
  }

  get(call: string): CallState | undefined {
    return this.#byId.get(call)
  }

  lease(lease: string): LeaseRow | undefined {
    return this.#leases.get(lease)
  }

  /** All leases, of a whole table. */
  leases(): IterableIterator<LeaseRow> {
    this.#assertWhole()
    return this.#leases.values()
  }

  /** Copies of the rows that are here. */
  held(): { calls: CallRow[]; leases: LeaseRow[] } {
    return { calls: this.#calls.map(callRow), leases: [...this.#leases.values()].map((lease) => ({ ...lease })) }
  }

  /** Calls by their position, of a whole table. */
  slice(from: number, to: number): CallState[] {
    this.#assertWhole()
    return this.#calls.slice(from, to)
  }

  /**
   * The longest path as a scalar. It never exceeds the sum of all calls. That bound matters when a late speed factor lowers
   * service that a later call has already inherited.
   */
  criticalPathUs(): number {
    return bounded(Math.min(this.#paths.scalarUs(), this.#totals.service_us))
  }

  /** Of the budget. Null: the program has none. */
  get spend(): ProgramSpend | null {
    return this.#spend
  }

  /** What calls were charged, of those whose charges the program tells. */
  get gathered(): RunSpendSums {
    return this.#gathered.sums
  }

  /** Opens a call that inherits the present scalar. */
  open(arrival: CallArrival, reserved: Reservation | null = null): CallState {
    const placement = this.#threads.place(arrival, this.openCalls.size, (call) => this.#known(call))
    this.#threads.remember(arrival.call, placement.thread, arrival)
    const last = this.#threads.lastCall(placement.thread)
    const place = { ...placement, source: arrival.source ?? null, overruled: [...(arrival.overruled ?? [])] }
    const call = this.#newCall(arrival.call, arrival.model, arrival.now_ms, this.criticalPathUs(), place)
    const parents = call.parents.map((parent) => this.#byId.get(parent))
    const behind = { parents, previous: this.#byId.get(last ?? ''), begins: last === null }
    const came = { results: [...(arrival.tool_results ?? [])], times: [...(arrival.tool_times ?? [])] }
    this.#acting.opened(call, behind, came)
    call.reserved = reserved
    if (arrival.gathers) call.gathers = true
    this.#changed(call)
    return call
  }

  /** No record is expected any more of calls that hold a share of the budget since before `opened_before_ms`. */
  expireReservations(opened_before_ms: number): void {
    for (const id of this.#spend?.open() ?? []) {
      const call = this.#call(id)
      if (call.reserved === null || call.opened_at_ms > opened_before_ms || call.leases.some(isOpen)) continue
      call.reserved = { ...call.reserved, expired: true }
      this.#changed(call)
    }
  }

  /** The tool behind the call that this one goes on from. Null: nothing names it. */
  lastTool({ brings }: CallState): string | null {
    const asked = this.#byId.get(brings?.of ?? '')?.tools?.names[0]
    return asked ?? brings?.results[0]?.name ?? brings?.times[0]?.name ?? null
  }

  /**
   * The lease of the call that `call` goes on from, if its engine keeps the program's KV for nothing: `call` runs on another
   * one, and no other call of the program is open there or has left its tool running there. Null: no engine does, or no
   * record says so.
   */
  leftContext({ brings }: CallState, engine: string): LeaseRow | null {
    const before = this.#byId.get(brings?.of ?? '')
    const left = before?.leases.at(-1)
    if (!isKept(before?.tools?.handled ?? null) || left === undefined || left.engine === engine) return null
    const isThere = (lease: LeaseRow | undefined) => lease?.engine === left.engine
    const is_used =
      [...this.openLeases].some(isThere) || this.#acting.all().some(({ leases }) => isThere(leases.at(-1)))
    return is_used ? null : left
  }

  /** Of calls behind which a tool may be running: the leases whose engines keep the program's KV, one of each engine. */
  keptContexts(): LeaseRow[] {
    const byEngine = new Map<string, LeaseRow>()
    for (const { tools, leases } of this.#acting.all()) {
      const last = leases.at(-1)
      if (last !== undefined && isKept(tools?.handled ?? null)) byEngine.set(last.engine, last)
    }
    return [...byEngine.values()]
  }

  /** What is running between calls, the latest first. */
  tools(): ToolUnderWay[] {
    return this.#acting.tools()
  }

  /**
   * Opens a call of which only a lease or a record came, because memory was lost. Several such calls may come back at once,
   * in any order. They must not chain on each other through the scalar, so each starts at the end of its own thread.
   */
  openForgotten(call: string, model: string, thread: string | null, now_ms: number): CallState {
    if (thread === null) return this.open({ call, thread, parents: null, model, now_ms })
    const previous = this.#byId.get(this.#threads.lastCall(thread) ?? '')
    const inherited_us =
      previous === undefined ? 0 : bounded(this.#paths.startUs(previous.call) + this.settledUs(previous))
    const place = { thread, parents: [], parents_known: false, source: null, overruled: [] }
    const opened = this.#newCall(call, model, now_ms, inherited_us, place)
    this.#acting.opened(opened, { parents: [], previous, begins: previous === undefined }, NOTHING_CAME)
    this.#dirty.add(opened)
    return opened
  }

  addGrant(call: CallState, grant: LeaseGrant): LeaseRow {
    const lease = leaseFromGrant(grant, call.leases.length)
    this.#attach(call, lease)
    this.#changed(call)
    return lease
  }

  /** Opens the lease that the call asks for, where it is expected. */
  expect(call: CallState, lease: string, pin: Pin, now_ms: number): LeaseRow {
    const expected = expectedLease(call.call, lease, pin, call.leases.length, now_ms)
    this.#attach(call, expected)
    this.#changed(call)
    return expected
  }

  /** A lease that was expected is where its grant says. */
  placeExpected(lease: LeaseRow, grant: LeaseGrant): void {
    placeLease(lease, grant)
    this.#changed(this.#call(lease.call))
  }

  /** The call was granted no lease. */
  dropExpected(call: CallState): void {
    const dropped = call.leases.filter((lease) => lease.expected && lease.state === 'open')
    if (dropped.length === 0) return
    call.leases = call.leases.filter((lease) => !dropped.includes(lease))
    for (const lease of dropped) {
      this.#leases.delete(lease.lease)
      this.openLeases.delete(lease)
    }
    this.#changed(call)
  }

  /**
   * The message that opened a lease came after its record. Only that message knows reason, speed factor and the pool's
   * time.
   */
  completeGrant(lease: LeaseRow, grant: LeaseGrant): void {
    addLease(this.#totals, lease, this.#reading, -1)
    lease.reason = grant.reason
    lease.speed_factor = grant.speed_factor
    lease.opened_at_ms = grant.now_ms
    addLease(this.#totals, lease, this.#reading)
    this.#measured(lease)
  }

  lose(lease: LeaseRow, error_code: string): void {
    lease.state = 'lost'
    lease.outcome = 'failed'
    lease.error_code = error_code
    this.openLeases.delete(lease)
    this.#changed(this.#call(lease.call))
  }

  /** Applies the record of an unsettled or unknown lease, and returns the lease's call. */
  settle(record: ProvenRecord, now_ms: number): CallState {
    const call = this.#byId.get(record.call) ?? this.openForgotten(record.call, record.model, record.thread, now_ms)
    let lease = this.#leases.get(record.lease)
    if (lease === undefined) {
      lease = leaseFromRecord(record, call.leases.length)
      this.#attach(call, lease)
    }
    const charged = chargedOf(call.leases)
    applyRecord(lease, record)
    if (call.gathers) lease.charged = gatheredCharge(record, now_ms)
    this.#gathered.settled(call.leases, lease, charged)
    call.tools ??= askedTools(record)
    this.openLeases.delete(lease)
    addLease(this.#totals, lease, this.#reading)
    this.#measured(lease)
    return call
  }

  /** Updates a call's state from what is known of it. True if that ended the call. */
  resolve(call: CallState, now_ms: number): boolean {
    const verdict = callVerdict(call)
    if (verdict.state === 'open') {
      this.#changed(call)
      return false
    }
    call.outcome = verdict.outcome
    call.finish_reason = verdict.finish_reason
    call.error_code = verdict.error_code
    const had_ended = call.state === 'ended'
    call.state = 'ended'
    this.#changed(call)
    this.#acting.update(call)
    if (had_ended) return false
    call.ended_at_ms = now_ms
    this.openCalls.delete(call)
    this.#threads.ended(call.thread, call.call)
    return true
  }

  /** What was said of the latest call that was settled, among the last OUTLOOK_CALLS_MAX. */
  outlook(): Outlook {
    const latest = this.#calls.slice(-OUTLOOK_CALLS_MAX).flatMap(({ leases }) => leases)
    return outlookOf(latest.findLast(({ rank }) => rank !== undefined) ?? {})
  }

  /** Service of a call's settled leases, in the ordering reading. */
  settledUs(call: CallState): number {
    return callServiceUs(call.leases, this.#reading)
  }

  get isDirty(): boolean {
    return this.#dirty.size > 0
  }

  /** Copies of the calls that changed since the last take, and all leases of each. */
  takeDirty(): { calls: CallRow[]; leases: LeaseRow[] } {
    const changed = [...this.#dirty]
    this.#dirty.clear()
    const leases = changed.flatMap((call) => call.leases.map((lease) => ({ ...lease })))
    return { calls: changed.map(callRow), leases }
  }

  giveBack(taken: { calls: readonly CallRow[] }): void {
    for (const { call } of taken.calls) this.#dirty.add(this.#call(call))
  }

  #newCall(
    call: string,
    model: string,
    opened_at_ms: number,
    inherited_us: number,
    place: Pick<CallRow, 'thread' | 'parents' | 'parents_known' | 'source' | 'overruled'>,
  ): CallState {
    const state: CallState = {
      call,
      ...place,
      model,
      opened_at_ms,
      ended_at_ms: null,
      state: 'open',
      outcome: null,
      finish_reason: null,
      error_code: null,
      position: this.size,
      inherited_us,
      answered: null,
      reserved: null,
      tools: null,
      returned: null,
      brings: null,
      leases: [],
      followed: false,
    }
    this.#add(state)
    return state
  }

  #add(call: CallState): void {
    this.#hold(call, call.parents, call.inherited_us)
    this.#threads.opened(call.thread, call.call)
  }

  #hold(call: CallState, parents: readonly string[], start_us: number): void {
    this.#calls.push(call)
    this.#byId.set(call.call, call)
    this.#paths.add(call.call, parents, start_us)
    if (call.state === 'open') this.openCalls.add(call)
  }

  #attach(call: CallState, lease: LeaseRow): void {
    call.leases.push(lease)
    this.#leases.set(lease.lease, lease)
    if (lease.state === 'open') this.openLeases.add(lease)
  }

  #changed(call: CallState): void {
    this.#dirty.add(call)
    this.#spend?.update(call)
  }

  #measured(lease: LeaseRow): void {
    const call = this.#call(lease.call)
    this.#changed(call)
    this.#paths.setService(call.call, this.settledUs(call))
  }

  #known(call: string): Pick<CallState, 'thread' | 'state'> | undefined {
    const held = this.#byId.get(call)
    const thread = held === undefined ? this.#tails.get(call) : undefined
    return thread === undefined ? held : { thread, state: 'ended' }
  }

  #assertWhole(): void {
    if (!this.isWhole) throw new Error('the history of the run is not loaded')
  }

  #call(id: string): CallState {
    const call = this.#byId.get(id)
    if (call === undefined) throw new Error(`call ${id} is not in the table`)
    return call
  }
}

function isOpen({ state }: LeaseRow): boolean {
  return state === 'open'
}
