/** A call's share of its program's budget: what it wants, what it gets, and why it gets none. */
import { AMOUNT_KINDS, type AmountKind, type Amounts, NOTHING } from './budget.ts'
import type { TokenPrices } from './call-cap.ts'

/** What was reserved for a call. Of kinds without a limit nothing is. */
export interface Reservation {
  amounts: { [kind in AmountKind]?: number | undefined }
  prices: TokenPrices | null
  /** No record came for so long that none is expected. */
  expired: boolean
}

/** What a call may want, before it runs. */
export interface CallWants {
  /** The most that it can use. */
  most: Amounts
  /** Fewer tokens than this would not be worth a start: its prompt, as it is estimated, and one of output. */
  least_tokens: number
  prices: TokenPrices | null
}

export interface BudgetRefusal {
  status: 'refused'
  code: 'program_budget_exceeded' | 'program_deadline_exceeded' | 'program_budget_reserved' | 'model_without_price'
  /** Null: of the deadline. */
  kind: AmountKind | null
}
export type Reserving = { status: 'reserved'; reservation: Reservation } | BudgetRefusal

/** Of kinds without a limit nothing is. */
export function heldBy(reserved: Reservation | null): Amounts {
  const held = { ...NOTHING }
  for (const kind of AMOUNT_KINDS) held[kind] = reserved?.amounts[kind] ?? 0
  return held
}
