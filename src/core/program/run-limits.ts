/** Whether a run may open another call: its bounds, and the error that a client gets at them. */
import type { AmountKind } from '../budget/budget.ts'
import type { BudgetRefusal } from '../budget/reservation.ts'
import { type Admission, CALLS_PER_RUN_MAX, OPEN_CALLS_PER_PROGRAM_MAX } from './program-state.ts'
import { STALE_AFTER_MS } from './staleness.ts'

/** When there will be room is unknown: programs end when their agents end them or when they go stale. */
const LIVE_PROGRAMS_RETRY_AFTER_S = 10
/** The runtime lets go of a program that was left alone for this long. */
const NEW_PROGRAM_RETRY_AFTER_S = 10

export function liveProgramsExceeded(live_programs_max: number) {
  const message = `The tenant has ${live_programs_max} programs running, which is its limit. End some (DELETE /v1/programs/{id}) or wait.`
  const code = 'live_programs_exceeded' as const
  return { status: 'refused' as const, code, message, retry_after_s: LIVE_PROGRAMS_RETRY_AFTER_S }
}

/**
 * Null: the call may open. A run that has made all its calls takes no more until it ends, by request or by going stale. A
 * run with too many open calls takes the next one as soon as one of them ends.
 */
export function admissionRefusal(calls: number, open_calls: number): Extract<Admission, { status: 'refused' }> | null {
  if (calls >= CALLS_PER_RUN_MAX) {
    const message = `The program has made ${CALLS_PER_RUN_MAX} calls, which is the limit of one run. End it (DELETE /v1/programs/{id}).`
    return { status: 'refused', code: 'program_calls_exceeded', message, retry_after_s: STALE_AFTER_MS / 1000 }
  }
  if (open_calls >= OPEN_CALLS_PER_PROGRAM_MAX) {
    const message = `The program has ${OPEN_CALLS_PER_PROGRAM_MAX} calls open, which is the limit. Send the call again when one has ended.`
    return { status: 'refused', code: 'program_open_calls_exceeded', message, retry_after_s: 1 }
  }
  return null
}

const AMOUNT_NAMES: Readonly<Record<AmountKind, string>> = {
  calls: 'calls',
  tokens: 'tokens',
  service_us: 'service',
  cost_nanos: 'money',
}

/** What a client is told of a budget that does not cover its call. */
export function budgetRefusal({ code, kind }: BudgetRefusal): Extract<Admission, { status: 'refused' }> {
  const name = kind === null ? '' : AMOUNT_NAMES[kind]
  if (code === 'program_budget_reserved') {
    const message = `Calls under way have reserved what is left of the program's budget for ${name}. Send the call again when one has ended.`
    return { status: 'refused', code, message, retry_after_s: 1 }
  }
  if (code === 'model_without_price') {
    const message =
      "The program's budget is in money, and this model has no price. Ask the operator for one, or state the budget in tokens."
    return { status: 'refused', code, message, retry_after_s: null }
  }
  const message =
    code === 'program_deadline_exceeded'
      ? 'The deadline of the program is over. End it (DELETE /v1/programs/{id}) and start another.'
      : `The program has used its budget for ${name}. End it (DELETE /v1/programs/{id}) and start another with a larger one.`
  return { status: 'refused', code, message, retry_after_s: null }
}

/** 429: the runtime has no room for another program (relay/file-budget.ts). */
export function tooManyNewPrograms() {
  const message =
    'Too many programs have been used within seconds. Send the request again after Retry-After; programs in use go on.'
  return { message, code: 'too_many_new_programs', retry_after_s: NEW_PROGRAM_RETRY_AFTER_S }
}
