/** A call's share of what its tenant and its key may spend: what it leaves the call, and the error that its client gets. */
import { AMOUNT_KINDS, type AmountKind, type Amounts } from '../core/budget/budget.ts'
import { limitedKinds, type ShareRefusal, type Some, type Standing } from '../core/budget/budget-ledger.ts'
import type { Period } from '../core/budget/period-limits.ts'
import { type ApiErrorFields, RETRY_AFTER_S } from '../platform/api-error.ts'
import type { Admission } from './admit.ts'
import type { AgentFailure } from './agent-connection.ts'
import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'

export type Sharing =
  | { status: 'shared'; call: IdentifiedCall }
  | { status: 'refused'; http_status: 400 | 402 | 429 | 503; error: ApiErrorFields; retry_after_s: number | null }

/** As OpenAI names errors of an account without means. */
const BUDGET_ERROR_TYPE = 'insufficient_quota'
const NAMES: Readonly<Record<AmountKind, string>> = {
  ...{ calls: 'calls', tokens: 'tokens', service_us: 'service', cost_nanos: 'money' },
}

/** Reserves what the call may use, or refuses it. What it wants is lowered to its share. */
export async function share(call: IdentifiedCall, deps: RelayDeps): Promise<Sharing> {
  const { limits, wants } = call
  if (limits === null) return { status: 'shared', call }
  if (wants.prices === null && limitedKinds(limits).includes('cost_nanos')) return { ...UNPRICED, status: 'refused' }
  const taking = await deps.shares.take({ ...call, limits }, deps)
  if (taking.status === 'unlimited') return { status: 'shared', call }
  if (taking.status === 'unknown') return { ...UNKNOWN, status: 'refused' }
  if (taking.status === 'refused') return refusalOf(taking.refusal)
  const most = lowered(wants.most, taking.share.amounts)
  return { status: 'shared', call: { ...call, wants: { ...wants, most }, share: taking.share } }
}

/** The cap of its ticket is the lowest of its program's, its tenant's and its key's. */
export function withShare(admission: Admission, { share: taken, wants }: IdentifiedCall): Admission {
  if (taken === null) return admission
  const { reserved } = admission
  const amounts: Some = { ...reserved?.amounts }
  for (const kind of AMOUNT_KINDS) {
    const own = taken.amounts[kind]
    if (own !== undefined) amounts[kind] = Math.min(amounts[kind] ?? own, own)
  }
  const { prices } = reserved ?? wants
  return { ...admission, reserved: { amounts, prices, expired: false } }
}

/** An agent knows one cap. Where only the tenant or its key has a budget, its refusal is of that one. */
export function failureUnderShare(
  failure: AgentFailure,
  { share: taken }: Pick<IdentifiedCall, 'share'>,
  { budget }: Pick<Admission, 'budget'>,
): AgentFailure {
  const left = (one: Standing) => (one.limit - one.used - one.reserved) / one.limit
  const [tightest] = (taken?.standing ?? []).toSorted((a, b) => left(a) - left(b))
  if (failure.error.code !== AGENTS_CODE || budget !== null || tightest === undefined) return failure
  const { of, period, kind } = tightest
  const message = exceeded(of, kind, period)
  return { ...failure, error: { ...failure.error, code: `${of}_budget_exceeded`, message } }
}
const AGENTS_CODE = 'program_budget_exceeded'

function exceeded(of: Standing['of'], kind: AmountKind, period: Period): string {
  return `What is left of this ${WHOSE[of]}'s budget of ${NAMES[kind]} for the ${period} does not cover the call.`
}
const WHOSE = { tenant: 'tenant', key: 'API key' } as const

function lowered(most: Readonly<Amounts>, to: Some): Amounts {
  const amounts = { ...most }
  for (const kind of AMOUNT_KINDS) amounts[kind] = Math.min(most[kind], to[kind] ?? most[kind])
  return amounts
}

function refusalOf({ code, period, kind, ends_at_ms }: ShareRefusal): Sharing {
  const of = code.startsWith('key') ? 'key' : 'tenant'
  const ends = new Date(ends_at_ms).toISOString()
  if (code === 'tenant_budget_reserved' || code === 'key_budget_reserved') {
    const message = `Calls under way have reserved what is left of this ${WHOSE[of]}'s budget of ${NAMES[kind]} for the ${period}. Send the call again when one has ended.`
    const error = { message, code, type: 'rate_limit_error' }
    return { status: 'refused', http_status: 429, error, retry_after_s: RETRY_AFTER_S }
  }
  const message = `${exceeded(of, kind, period)} The next ${period} begins at ${ends}. The operator can raise the budget.`
  const error = { message, code, type: BUDGET_ERROR_TYPE }
  return { status: 'refused', http_status: 402, error, retry_after_s: null }
}

const UNKNOWN = {
  http_status: 503,
  error: {
    message: 'What is left of the budget of this tenant is unknown at the moment. Send the call again.',
    code: 'budget_unknown',
  },
  retry_after_s: RETRY_AFTER_S,
} as const

const UNPRICED = {
  http_status: 400,
  error: {
    message: 'The budget of this tenant or key is in money, and this model has no price. Ask the operator for one.',
    code: 'model_without_price',
    param: 'model',
  },
  retry_after_s: null,
} as const
