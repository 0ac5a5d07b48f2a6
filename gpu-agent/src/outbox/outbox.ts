/**
 * What must outlive the process: leases that were used, the engines' ledger, and records until they are acknowledged.
 *
 * Kept true here: a lease is opened at most once, across restarts, for longer than a ticket lives; a record is never on
 * disk before its ledger rows (group-commit.ts); a lease that a former process left open gets a record whose service is
 * the sum of its rows, at once or, where its engine outlives the agent, when that engine has told the rest
 * (lost-calls.ts); nothing unacknowledged is ever deleted.
 */
import {
  type CallRecord,
  type ClassData,
  ClassSketchData,
  TICKET_CLOCK_TOLERANCE_S,
  TICKET_LIFETIME_S,
  type TicketClaims,
} from '../../../src/protocol/index.ts'
import type { LedgerRow } from '../../engine/types.ts'
import { KNOWN_CLASSES_MAX } from '../classes/known-classes.ts'
import type { Report } from '../events.ts'
import type { OpenLeaseSums } from '../link/charge-reports.ts'
import { GroupCommit, type GroupCommitOptions } from './group-commit.ts'
import { type DatabaseOpening, openDatabase } from './outbox-database.ts'
import { prepareStatements, type Statements } from './outbox-statements.ts'
import { type LedgerSums, type OpenLease, recordOfLostCall } from './record.ts'

/** Acknowledged records, their leases and ledger rows are kept this long for people and tests to read. */
const RETENTION_MS = 60 * 60 * 1000
/** Past this many acknowledged records the oldest go earlier, but never before LEASE_MEMORY_MS. */
const ACKNOWLEDGED_RECORDS_MAX = 20_000
/** No ticket is valid for longer after it was signed, on any clock. */
export const LEASE_MEMORY_MS = (TICKET_LIFETIME_S + 2 * TICKET_CLOCK_TOLERANCE_S) * 1000
/** Leases deleted per transaction, so that pruning never holds the event loop for long. */
export const PRUNE_LEASES_PER_BATCH = 50
/** At this many unacknowledged records the agent takes no further calls until some are acknowledged. */
const UNACKNOWLEDGED_RECORDS_MAX = 100_000

export interface OutboxOptions {
  data_dir: string
  wall_ms: () => number
  report: Report
  /** The disk does not take what must be kept: end the process. */
  fatal: (message: string) => void
  /** The disk takes nothing, or takes writes again. */
  onFailing?: (failing: boolean) => void
  /** Whether a lease that is open on disk stays open: its engine may tell what became of it. None does without it. */
  stays_open?: (claims: TicketClaims) => boolean
  retention_ms?: number
  acknowledged_records_max?: number
  unacknowledged_records_max?: number
  commit?: Pick<GroupCommitOptions, 'operations_max' | 'retry_ms'>
}

export type OutboxOpening =
  | { status: 'open'; outbox: Outbox; recovered: readonly CallRecord[]; left_open: readonly OpenLease[] }
  | Exclude<DatabaseOpening, { status: 'open' }>

export type LeaseOpening =
  | { status: 'opened'; committed: Promise<void> }
  | { status: 'used' }
  /** Too much is unacknowledged. */
  | { status: 'full' }
  /** The disk takes nothing. */
  | { status: 'disk_full' }

export interface StoredRecord {
  seq: number
  record: CallRecord
}

export function openOutbox(options: OutboxOptions): OutboxOpening {
  const opening = openDatabase(options.data_dir)
  if (opening.status !== 'open') return opening
  const statements = prepareStatements(opening.db)
  const recovered: CallRecord[] = []
  const left_open: OpenLease[] = []
  opening.db.transaction(() => {
    for (const { lease, claims, prompt_tokens } of statements.openLeases.all()) {
      const { last_step, ...sums } = ledgerOnDisk(statements, lease)
      if (options.stays_open?.(claims) === true) {
        left_open.push({ claims, prompt_tokens, sums, last_step })
        continue
      }
      const record = recordOfLostCall(claims, sums, prompt_tokens, options.wall_ms())
      statements.insertRecord.run({ lease, record })
      statements.closeLease.run({ lease })
      recovered.push(record)
    }
  })
  const transaction = (body: () => void): void => opening.db.transaction(body)
  const outbox = new Outbox(options, statements, transaction, opening.close, left_open)
  return { status: 'open', outbox, recovered, left_open }
}

export class Outbox {
  readonly #options: OutboxOptions
  readonly #statements: Statements
  readonly #commit: GroupCommit
  readonly #close: () => void
  /** Sums of the ledger rows of open leases; bounded by the calls that data planes, this process's and the last one's, hold open. */
  readonly #open = new Map<string, LedgerSums & { engine: string }>()
  #unacknowledged: number
  #acknowledged: number
  #pruning = false
  #closed = false

  constructor(
    options: OutboxOptions,
    statements: Statements,
    transaction: (body: () => void) => void,
    close: () => void,
    left_open: readonly OpenLease[],
  ) {
    for (const { claims, sums } of left_open) this.#open.set(claims.lease, { ...sums, engine: claims.engine })
    this.#options = options
    this.#statements = statements
    this.#close = close
    const onFailing = options.onFailing === undefined ? {} : { onFailing: options.onFailing }
    this.#commit = new GroupCommit({
      transaction,
      report: options.report,
      overflow: options.fatal,
      ...onFailing,
      ...options.commit,
    })
    this.#unacknowledged = statements.countUnacknowledged.get()?.n ?? 0
    this.#acknowledged = statements.countAcknowledged.get()?.n ?? 0
  }

  /** Records that wait for their acknowledgement. */
  get depth(): number {
    return this.#unacknowledged
  }

  /** Claims the lease for this process at once; the call may go to its engine when `committed` resolves. */
  openLease(claims: TicketClaims): LeaseOpening {
    const lease = claims.lease
    if (this.#open.has(lease) || this.#statements.knowsLease.get({ lease }) !== undefined) return { status: 'used' }
    const unacknowledged_max = this.#options.unacknowledged_records_max ?? UNACKNOWLEDGED_RECORDS_MAX
    if (this.#commit.failing) return { status: 'disk_full' }
    if (this.#unacknowledged + this.#open.size >= unacknowledged_max) return { status: 'full' }
    this.#open.set(lease, { engine: claims.engine, wall_us: 0, modelled_us: 0, computed_tokens: 0, sampled_tokens: 0 })
    const row = { lease, claims, arrived_at_ms: this.#options.wall_ms() }
    return { status: 'opened', committed: this.#committed(() => this.#statements.openLease.run(row)) }
  }

  /** Until its record is on disk. */
  isOpen(lease: string): boolean {
    return this.#open.has(lease)
  }

  promptTokens(lease: string, prompt_tokens: number): void {
    this.#commit.push({ apply: () => this.#statements.setPromptTokens.run({ lease, prompt_tokens }) }, 'delayed')
  }

  /** Rows of a lease that is not under way are a front's bug: they could change a record that was sent. */
  ledger(rows: readonly LedgerRow[]): void {
    for (const row of rows) {
      const sums = this.#open.get(row.lease)
      if (sums === undefined) {
        this.#options.report({ event: 'ledger_mismatch', lease: row.lease, what: 'row outside of its lease' })
        continue
      }
      sums.wall_us += row.wall_us
      sums.modelled_us += row.modelled_us
      sums.computed_tokens += row.computed_tokens
      sums.sampled_tokens += row.sampled_tokens
      this.#commit.push({ apply: () => this.#insertRow(row) }, 'delayed')
    }
  }

  /** Of the ledger rows of an open lease. */
  sumsOf(lease: string): LedgerSums {
    const sums = this.#open.get(lease)
    if (sums === undefined) throw new Error(`lease ${lease} is not open`)
    const { engine: _, ...of_rows } = sums
    return of_rows
  }

  /** Every open lease with what its ledger rows say so far, in the order of opening. */
  *openSums(): Generator<OpenLeaseSums> {
    for (const [lease, { engine, wall_us, modelled_us }] of this.#open) yield { lease, engine, wall_us, modelled_us }
  }

  /** Ends the lease. Resolves when the record is on disk, and every ledger row of its lease with it. */
  record(record: CallRecord): Promise<void> {
    const lease = record.lease
    const sums = this.#open.get(lease)
    if (sums === undefined) throw new Error(`lease ${lease} is not open`)
    if (sums.wall_us !== record.service_wall_us || sums.modelled_us !== record.service_modelled_us) {
      const what = `measured ${record.service_wall_us}/${record.service_modelled_us} us, ledger ${sums.wall_us}/${sums.modelled_us} us`
      this.#options.report({ event: 'ledger_mismatch', lease, what })
    }
    return this.#committed(
      () => {
        this.#statements.insertRecord.run({ lease, record })
        this.#statements.closeLease.run({ lease })
      },
      () => {
        this.#open.delete(lease)
        this.#unacknowledged += 1
      },
    )
  }

  /** Up to `limit` records that are on disk, in the order of their ends, with `seq` greater than `after`. */
  unacknowledged(after: number, limit: number): StoredRecord[] {
    return this.#statements.unacknowledged.all({ after, limit })
  }

  /** Resolves when the acknowledgement is on disk. Leases that are unknown or acknowledged already change nothing. */
  acknowledge(leases: readonly string[]): Promise<void> {
    const now_ms = this.#options.wall_ms()
    let changed = 0
    return this.#committed(
      () => {
        changed = 0
        for (const lease of leases) changed += this.#statements.acknowledge.run({ lease, now_ms }).changes
      },
      () => {
        this.#unacknowledged -= changed
        this.#acknowledged += changed
      },
    )
  }

  /** What was kept of classes of programs, the one told longest ago first. A row that does not load is left out. */
  keptClasses(): ClassData[] {
    return this.#statements.classes.all().flatMap(({ tenant, class: name, sketch }) => {
      const read = ClassSketchData.safeParse(sketch)
      return read.success ? [{ tenant, class: name, sketch: read.data }] : []
    })
  }

  /** Keeps what is known of these classes, and of KNOWN_CLASSES_MAX in all. A disk that takes nothing does without it. */
  keepClasses(classes: readonly ClassData[]): void {
    if (classes.length === 0 || this.#commit.failing) return
    const keep = (): void => {
      let told = this.#statements.lastTold.get()?.told ?? 0
      for (const { tenant, class: name, sketch } of classes) {
        told += 1
        this.#statements.putClass.run({ tenant, class: name, told, sketch })
      }
      this.#statements.keepLatestClasses.run({ limit: KNOWN_CLASSES_MAX })
    }
    this.#commit.push({ apply: keep }, 'delayed')
  }

  /** Deletes what is acknowledged and old. Call it from a timer; it goes on by itself while there is more. */
  prune(): void {
    if (this.#pruning || this.#closed) return
    const { retention_ms = RETENTION_MS, acknowledged_records_max = ACKNOWLEDGED_RECORDS_MAX } = this.#options
    const crowded = this.#acknowledged > acknowledged_records_max
    const age_ms = crowded ? LEASE_MEMORY_MS : Math.max(retention_ms, LEASE_MEMORY_MS)
    const limit = crowded
      ? Math.min(PRUNE_LEASES_PER_BATCH, this.#acknowledged - acknowledged_records_max)
      : PRUNE_LEASES_PER_BATCH
    const rows = this.#statements.acknowledgedBefore.all({ before_ms: this.#options.wall_ms() - age_ms, limit })
    if (rows.length === 0) return
    const victims = rows.map((row) => row.lease)
    this.#pruning = true
    this.#commit.push(
      {
        apply: () => this.#statements.forget(victims),
        committed: () => {
          this.#acknowledged -= victims.length
          this.#pruning = false
          if (victims.length === limit) setImmediate(() => this.prune())
        },
      },
      'delayed',
    )
  }

  /** Commits what is queued and closes the file. Nothing may be called after it. */
  close(): void {
    this.#closed = true
    this.#commit.close()
    this.#close()
  }

  #committed(apply: () => void, then?: () => void): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const committed = (): void => {
      then?.()
      resolve()
    }
    this.#commit.push({ apply, committed }, 'soon')
    return promise
  }

  #insertRow(row: LedgerRow): void {
    if (this.#statements.insertLedger.run({ ...row }).changes === 1) return
    this.#options.report({ event: 'ledger_mismatch', lease: row.lease, what: `step ${row.step} written twice` })
  }
}

function ledgerOnDisk(statements: Statements, lease: string): LedgerSums & { last_step: number } {
  const sums = statements.sumLedger.get({ lease })
  return {
    wall_us: sums?.wall_us ?? 0,
    modelled_us: sums?.modelled_us ?? 0,
    computed_tokens: sums?.computed_tokens ?? 0,
    sampled_tokens: sums?.sampled_tokens ?? 0,
    last_step: sums?.last_step ?? 0,
  }
}
