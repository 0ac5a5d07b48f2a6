/**
 * Settle, the Worker's part: it tells the ProgramActor which engine serves, which leases failed, and how the client was
 * answered. None of it is on the call path, and none of it is a measurement: only the agent's record is. If a note is lost,
 * the record repairs the state, or the actor closes the call as orphaned.
 *
 * Each note is a request that is billed, so what the actor knows or will know from the record is not told: a lease where the
 * actor expects it, and the end of a completed call. Its next call from this isolate brings that end with it (ended-calls.ts),
 * since the record may come after that call.
 */
import type { ProgramRpc } from '../actors/contracts.ts'
import { type FieldNotes, type FieldWarnings, fieldWarnings, NO_FIELD_NOTES } from '../core/call/field-warnings.ts'
import type { NotedFields } from '../core/call/request-fields.ts'
import type { ExpectedReason } from '../core/program/program-state.ts'
import type { Outcome } from '../protocol/index.ts'
import type { Admission } from './admit.ts'
import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'
import type { Leased } from './lease.ts'
import { askTwice } from './rpc.ts'

export class SettleNotes {
  readonly #call: IdentifiedCall
  readonly #admission: Admission
  readonly #deps: RelayDeps
  /** Notes arrive in the order in which they were written, so a lease is opened before it is lost. */
  #last: Promise<void> = Promise.resolve()
  #not_applied: string | null = null
  /** Of a call that went to its engine in its client's own API. */
  #native: FieldNotes | null = null
  #is_leased = false

  constructor(call: IdentifiedCall, admission: Admission, deps: RelayDeps) {
    this.#call = call
    this.#admission = admission
    this.#deps = deps
  }

  /** Resolves when every note so far was delivered or has failed. */
  get told(): Promise<void> {
    return this.#last
  }

  leaseOpened(leased: Leased): void {
    this.#is_leased = true
    if (this.#isExpected(leased)) return
    const { lease, agent, engine, epoch, region, reason, speed_factor, pin } = leased
    const { id: call, model } = this.#call
    const opened = { call, lease, agent, engine, epoch, region: region.id, model, reason, speed_factor, pin }
    this.#note((program, run, now_ms) => program.leaseOpened({ ...opened, run, now_ms }))
  }

  /** The lease failed. Its pool takes it back, so that it does not count as load. */
  leaseLost(leased: Leased, error_code: string): void {
    const { lease } = leased
    const { id: call, model } = this.#call
    this.#note((program, run, now_ms) => program.leaseLost({ run, call, lease, error_code, now_ms }))
    releaseLease(leased, model, this.#deps)
  }

  /** The engine's agent has named the hints that it does not apply. */
  hintsNotApplied(named: string | null): void {
    this.#not_applied = named
  }

  /** The engine gets the client's own body without these fields. Null: it gets the translated one. */
  sent(ignored_natively: NotedFields | null): void {
    this.#native = ignored_natively === null ? null : { ...NO_FIELD_NOTES, ignored: ignored_natively }
  }

  /** Of the fields of the call's body that have no effect, as far as it is known. */
  get warnings(): FieldWarnings | null {
    return fieldWarnings(this.#native ?? this.#call.warnings, this.#not_applied)
  }

  callEnded(outcome: Outcome, error_code: string | null): void {
    const { id: call, tenant, program: name } = this.#call
    const warnings = this.warnings ?? undefined
    const ended = { call, outcome, error_code, ...(this.#is_leased ? {} : { is_unleased: true as const }) }
    const told_before = fieldWarnings(this.#call.warnings, null) ?? undefined
    const { run, position } = this.#admission
    // A position: the actor has admitted the call, under this run.
    if (outcome === 'completed' && name !== null && position !== null && isEqual(warnings, told_before)) {
      this.#deps.ended.remember(tenant, name, { ...ended, run, warnings, now_ms: this.#deps.now() })
      return
    }
    this.#note((program, known_run, now_ms) => program.callEnded({ ...ended, run: known_run, warnings, now_ms }))
  }

  #isExpected(leased: Leased): boolean {
    const { expected_lease, pin } = this.#admission
    if (leased.lease !== expected_lease || pin === null || expectedReason(leased) === null) return false
    return leased.engine === pin.engine && leased.epoch === pin.epoch && leased.region.id === pin.region
  }

  #note(tell: (program: ProgramRpc, run: string, now_ms: number) => Promise<void>): void {
    const { tenant, program } = this.#call
    if (program === null) return
    const now_ms = this.#deps.now()
    const before = this.#last
    this.#last = (async () => {
      await before
      const run = await this.#admission.known_run
      if (run === null) return
      const reply = await askTwice(() => tell(this.#deps.program(tenant, program), run, now_ms))
      if (reply.status === 'failed') this.#deps.report('note_failed', reply.error)
    })()
    this.#deps.waitUntil(this.#last)
  }
}

/** Null: the actor is told of the lease. */
export function expectedReason({ reason }: Pick<Leased, 'reason'>): ExpectedReason | null {
  return reason === 'pinned' || reason === 'least_used' || reason === 'spilled' ? reason : null
}

/** Both are made by the same function, in the same order of fields. */
function isEqual(one: FieldWarnings | undefined, other: FieldWarnings | undefined): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

/** The pool takes back a lease that failed, so that it does not count as load. */
export function releaseLease({ lease, region, shard }: Leased, model: string, deps: RelayDeps): void {
  const released = askTwice(() => deps.pool(region, model, shard).release(lease))
  deps.waitUntil(
    released.then((reply) => {
      if (reply.status === 'failed') deps.report('release_failed', reply.error)
    }),
  )
}
