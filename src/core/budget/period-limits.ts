/**
 * What a tenant or one of its keys may spend in a UTC day and in a UTC month, as the operator states it. A limit that is left
 * out is none.
 */
import { z } from 'zod'
import { type AmountKind, BUDGET_FIELDS, type BudgetField } from './budget.ts'

export const PERIODS = ['day', 'month'] as const
export type Period = (typeof PERIODS)[number]

const CALLS_MAX = 1_000_000_000
const limit = (field: BudgetField) =>
  z
    .number()
    .positive()
    .max(field === 'calls' ? CALLS_MAX : BUDGET_FIELDS[field].max)
const someLimit = [(limits: object) => Object.keys(limits).length > 0, 'name at least one limit'] as const

const StatedLimits = z
  .strictObject({
    calls: limit('calls').optional(),
    tokens: limit('tokens').optional(),
    service_s: limit('service_s').optional(),
    cost: limit('cost').optional(),
  })
  .refine(...someLimit)
/** `{"day": {"tokens": 1000000}, "month": {"cost": 200}}` */
export const StatedPeriods = z
  .strictObject({ day: StatedLimits.optional(), month: StatedLimits.optional() })
  .refine(...someLimit)
export type StatedPeriods = z.infer<typeof StatedPeriods>

/** In a budget's units. */
export type PeriodLimits = { [period in Period]?: { [kind in AmountKind]?: number } }

export function storedPeriods(stated: StatedPeriods | null): string | null {
  return stated === null ? null : JSON.stringify(stated)
}

/** Of a column. Null: nothing is limited. */
export function readPeriods(stored: string | null): StatedPeriods | null {
  return stored === null ? null : StatedPeriods.parse(JSON.parse(stored))
}

export function periodLimits(stated: StatedPeriods): PeriodLimits {
  const limits: PeriodLimits = {}
  for (const period of PERIODS) {
    const of_period: { [kind in AmountKind]?: number } = {}
    for (const [field, { kind, unit }] of Object.entries(BUDGET_FIELDS)) {
      const value = stated[period]?.[field as BudgetField]
      if (value !== undefined) of_period[kind] = Math.min(Math.floor(value * unit), Number.MAX_SAFE_INTEGER)
    }
    if (Object.keys(of_period).length > 0) limits[period] = of_period
  }
  return limits
}

/** The first instant after the period that `now_ms` is in. */
export function periodEnd(period: Period, now_ms: number): number {
  const now = new Date(now_ms)
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()]
  return period === 'day' ? Date.UTC(year, month, now.getUTCDate() + 1) : Date.UTC(year, month + 1, 1)
}
