/**
 * What the calls of one run have used of its budget, and what is reserved for those under way.
 *
 * Keeps true, for calls, tokens, service and cost: what has been used and what is reserved together never exceed the budget.
 * A call reserves the most that it may use when it is admitted. Its engine holds it to that (call-cap.ts). What it really
 * used takes the place of the reservation as soon as its record is here.
 *
 * A call of which its client was told that it failed uses nothing. So does a lease that failed: only the last lease of a call
 * counts, since the client was served by it.
 */
import { ORPHANED } from '../program/program-state.ts'
import type { CallState } from '../program/stored-rows.ts'
import { AMOUNT_KINDS, type AmountKind, type Amounts, type Budget, NOTHING } from './budget.ts'
import { costNanos } from './call-cap.ts'
import { type CallWants, heldBy, type Reservation, type Reserving } from './reservation.ts'

interface Counted {
  amounts: Amounts
  /** The call is over and its record is here, so that they hardly change. */
  final: boolean
}

export class ProgramSpend {
  readonly budget: Budget
  /** Of calls whose share is final, and of all. */
  #used: Amounts
  #counted: Amounts
  /** What each call counts for. Of the run's history only the sum is known. */
  #of = new Map<string, Counted>()

  constructor(budget: Budget, history: Readonly<Amounts> = NOTHING) {
    this.budget = budget
    this.#used = { ...history }
    this.#counted = { ...history }
  }

  /** Of calls whose share is final. */
  get used(): Readonly<Amounts> {
    return this.#used
  }

  /** For calls that are open, or whose record has not come. */
  get reserved(): Amounts {
    return combined(this.#counted, this.#used, -1)
  }

  /** What no call has used or reserved. Null: no limit. */
  left(kind: AmountKind): number | null {
    const limit = this.budget[kind]
    return limit === null ? null : Math.max(0, limit - this.#counted[kind])
  }

  reserve({ most, least_tokens, prices }: CallWants, now_ms: number): Reserving {
    const { ends_at_ms } = this.budget
    if (ends_at_ms !== null && now_ms >= ends_at_ms) {
      return { status: 'refused', code: 'program_deadline_exceeded', kind: null }
    }
    if (this.budget.cost_nanos !== null && prices === null) {
      return { status: 'refused', code: 'model_without_price', kind: 'cost_nanos' }
    }
    const amounts: Reservation['amounts'] = {}
    for (const kind of AMOUNT_KINDS) {
      const limit = this.budget[kind]
      const left = this.left(kind)
      if (limit === null || left === null) continue
      if (this.#used[kind] >= limit) return { status: 'refused', code: 'program_budget_exceeded', kind }
      const least = kind === 'tokens' ? least_tokens : 1
      const others = this.#counted[kind] - this.#used[kind]
      // Without others under way nothing more will be free, and the engine's count of the prompt decides.
      if (left <= 0 || (left < least && others > 0)) {
        return { status: 'refused', code: 'program_budget_reserved', kind }
      }
      amounts[kind] = Math.min(left, most[kind])
    }
    return { status: 'reserved', reservation: { amounts, prices, expired: false } }
  }

  /** The call has changed. */
  update(call: CallState): void {
    const before = this.#of.get(call.call)
    if (before !== undefined) this.#add(before, -1)
    const now = counted(call)
    this.#of.set(call.call, now)
    this.#add(now, 1)
  }

  /** Ids of calls that hold a reservation. */
  open(): string[] {
    return [...this.#of].flatMap(([call, { final }]) => (final ? [] : [call]))
  }

  /** The shares of all calls but these. */
  historyWithout(calls: Iterable<string>): Amounts {
    let history = { ...this.#counted }
    for (const call of calls) history = combined(history, this.#of.get(call)?.amounts ?? NOTHING, -1)
    return history
  }

  #add({ amounts, final }: Counted, sign: 1 | -1): void {
    this.#counted = combined(this.#counted, amounts, sign)
    if (final) this.#used = combined(this.#used, amounts, sign)
  }
}

function counted(call: CallState): Counted {
  const { reserved, answered, leases } = call
  if (reserved === null) return { amounts: { ...NOTHING }, final: true }
  // An orphaned call may have been served: only its record tells.
  const has_failed = answered?.outcome === 'failed' && answered.error_code !== ORPHANED
  if (has_failed) return { amounts: { ...NOTHING }, final: true }
  const held = heldBy(reserved)
  const last = leases.at(-1)
  // Another engine may be tried as long as the call is open, under the same reservation.
  if (call.state === 'open' || last?.state === 'open') return { amounts: held, final: false }
  if (last === undefined || last.state !== 'settled') {
    return reserved.expired ? { amounts: { ...NOTHING }, final: true } : { amounts: held, final: false }
  }
  if (last.outcome === 'failed') return { amounts: { ...NOTHING }, final: true }
  // A call that went on elsewhere is charged as an unbroken one: its prompt once, and all that its client has.
  const output_tokens = last.resumed_tokens + last.output_tokens
  const used: Amounts = {
    calls: 1,
    tokens: last.prompt_tokens + output_tokens,
    service_us: last.service_modelled_us,
    cost_nanos: reserved.prices === null ? 0 : costNanos(reserved.prices, { ...last, output_tokens }),
  }
  const amounts = { ...used }
  for (const kind of AMOUNT_KINDS) amounts[kind] = Math.min(used[kind], reserved.amounts[kind] ?? used[kind])
  return { amounts, final: true }
}

function combined(a: Readonly<Amounts>, b: Readonly<Amounts>, sign: 1 | -1): Amounts {
  return {
    calls: a.calls + sign * b.calls,
    tokens: a.tokens + sign * b.tokens,
    service_us: a.service_us + sign * b.service_us,
    cost_nanos: a.cost_nanos + sign * b.cost_nanos,
  }
}
