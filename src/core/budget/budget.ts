/**
 * What a program may spend, and how a client states it. A limit that is left out is none.
 *
 * `calls` counts calls, `tokens` those of prompts (cached ones too) and of output, `service_us` the modelled reading
 * (core/call/service.ts) whatever the engine's speed, since nothing is known of that when a call reserves its share, and
 * `cost_nanos` billionths of the currency in which the operator states prices.
 */
/** What a call can use up. Integers. */
export interface Amounts {
  calls: number
  tokens: number
  service_us: number
  cost_nanos: number
}
export type AmountKind = keyof Amounts
export const AMOUNT_KINDS = ['calls', 'tokens', 'service_us', 'cost_nanos'] as const satisfies readonly AmountKind[]

export interface Budget extends Readonly<Record<AmountKind, number | null>> {
  /** No call begins after it, and open ones end at it. Null: none. */
  ends_at_ms: number | null
}

/** A budget, and where it stands. */
export interface BudgetState {
  limits: Budget
  /** By calls that are over. */
  used: Amounts
  /** For calls that are open, or whose record has not come. */
  reserved: Amounts
}

export const NOTHING: Readonly<Amounts> = Object.freeze({ calls: 0, tokens: 0, service_us: 0, cost_nanos: 0 })

/** Names in the header and in the API, with what one of each is in a budget's unit, and the most that may be stated. */
export const BUDGET_FIELDS = {
  calls: { kind: 'calls', unit: 1, max: 1_000_000 },
  tokens: { kind: 'tokens', unit: 1, max: 1_000_000_000_000 },
  service_s: { kind: 'service_us', unit: 1_000_000, max: 1_000_000_000 },
  cost: { kind: 'cost_nanos', unit: 1_000_000_000, max: 1_000_000 },
} as const satisfies Record<string, { kind: AmountKind; unit: number; max: number }>
export type BudgetField = keyof typeof BUDGET_FIELDS

/** From now to the deadline: 30 days at most. */
export const DEADLINE_S_MAX = 30 * 24 * 60 * 60

/** What a client states, in the API's units. */
export type BudgetStated = { [field in BudgetField | 'deadline_s']?: number | undefined }

/** Null: it limits nothing. */
export function budgetOf(stated: BudgetStated, now_ms: number): Budget | null {
  const limits: Budget = { calls: null, tokens: null, service_us: null, cost_nanos: null, ends_at_ms: null }
  const set = { ...limits } as Record<keyof Budget, number | null>
  for (const [field, { kind, unit }] of Object.entries(BUDGET_FIELDS)) {
    const limit = stated[field as BudgetField]
    if (limit !== undefined) set[kind] = Math.min(Math.floor(limit * unit), Number.MAX_SAFE_INTEGER)
  }
  if (stated.deadline_s !== undefined) set.ends_at_ms = now_ms + Math.ceil(stated.deadline_s * 1000)
  return Object.values(set).every((limit) => limit === null) ? null : set
}

/** What is left for the next run of the program, of which `spent` was spent. */
export function budgetLeft(budget: Budget, spent: Readonly<Amounts>): Budget {
  const left = (kind: AmountKind): number | null => {
    const limit = budget[kind]
    return limit === null ? null : Math.max(0, limit - spent[kind])
  }
  return {
    ...{ calls: left('calls'), tokens: left('tokens'), service_us: left('service_us'), cost_nanos: left('cost_nanos') },
    ends_at_ms: budget.ends_at_ms,
  }
}
