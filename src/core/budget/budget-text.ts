/**
 * A budget as a client writes it: `tokens=20000, calls=50, service_s=30, cost=0.25, deadline_s=600` in X-Program-Budget or in
 * `metadata.program_budget`, in the form of HTTP's structured fields. It holds for the run that the call opens. A client may
 * send it with every call of the program: later ones change nothing.
 */
import type { HeaderGetter } from '../call/identity.ts'
import {
  type AmountKind,
  BUDGET_FIELDS,
  type BudgetField,
  type BudgetState,
  type BudgetStated,
  DEADLINE_S_MAX,
} from './budget.ts'
import type { Standing } from './budget-ledger.ts'

export const BUDGET_HEADER = 'X-Program-Budget'
/** Of an answer: what no call has used or reserved. This one has reserved its share. */
export const BUDGET_LEFT_HEADER = 'x-program-budget-left'
export const BUDGET_METADATA = 'program_budget'
const BUDGET_CHARS_MAX = 512

const NUMBER = /^\d{1,20}(\.\d{1,20})?$/
const NAMES = [...Object.keys(BUDGET_FIELDS), 'deadline_s'].join(', ')

export type BudgetRead = { ok: true; budget: BudgetStated | null } | { ok: false; param: string; message: string }

/** What the header says counts before metadata. Null: neither states one. */
export function readBudget(header: HeaderGetter, metadata: Readonly<Record<string, string>> | null): BudgetRead {
  const in_header = header(BUDGET_HEADER.toLowerCase())
  const text = in_header ?? metadata?.[BUDGET_METADATA] ?? ''
  const param = in_header == null ? `metadata.${BUDGET_METADATA}` : BUDGET_HEADER
  if (text.trim() === '') return { ok: true, budget: null }
  const fault = (message: string): BudgetRead => ({
    ok: false,
    param,
    message: `Invalid value for '${param}': ${message}`,
  })
  if (text.length > BUDGET_CHARS_MAX) return fault(`it is longer than ${BUDGET_CHARS_MAX} characters.`)
  const budget: BudgetStated = {}
  for (const part of text.split(',')) {
    const [name = '', value = '', ...more] = part.split('=').map((piece) => piece.trim())
    const most = mostOf(name)
    if (most === null) return fault(`'${name}' is no limit. Limits are ${NAMES}.`)
    if (Object.hasOwn(budget, name)) return fault(`${name} is there twice.`)
    const limit = NUMBER.test(value) && more.length === 0 ? Number(value) : Number.NaN
    if (!(limit > 0 && limit <= most)) return fault(`${name} is a number above 0 and at most ${most}.`)
    budget[name as keyof BudgetStated] = limit
  }
  return { ok: true, budget }
}

function mostOf(name: string): number | null {
  if (name === 'deadline_s') return DEADLINE_S_MAX
  return Object.hasOwn(BUDGET_FIELDS, name) ? BUDGET_FIELDS[name as BudgetField].max : null
}

/** Of an answer: what is left to the tenant and the key, as the ledger last told this isolate. */
export const PERIODS_LEFT_HEADER = 'x-budget-left'

/** `tenant_day_tokens=5200, key_month_cost=1.5`. Null: it is not known. */
export function periodsLeftText(standing: readonly Standing[]): string | null {
  const parts = standing.map(({ of, period, kind, limit, used, reserved }) => {
    const [name, { unit }] = fieldOf(kind)
    return `${of}_${period}_${name}=${Math.max(0, limit - used - reserved) / unit}`
  })
  return parts.length === 0 ? null : parts.join(', ')
}

function fieldOf(kind: AmountKind): [string, { unit: number }] {
  const found = Object.entries(BUDGET_FIELDS).find(([, field]) => field.kind === kind)
  if (found === undefined) throw new Error(`no field of a budget is of the kind ${kind}`)
  return found
}

/** Null: nothing but time is limited. */
export function budgetLeftText({ limits, used, reserved }: BudgetState): string | null {
  const parts = Object.entries(BUDGET_FIELDS).flatMap(([field, { kind, unit }]) => {
    const limit = limits[kind]
    return limit === null ? [] : `${field}=${Math.max(0, limit - used[kind] - reserved[kind]) / unit}`
  })
  return parts.length === 0 ? null : parts.join(', ')
}
