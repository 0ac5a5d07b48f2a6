/** Spend as the API tells it: to a tenant of its own, to the operator of any. Sums are whole numbers, so that they add up. */
import { z } from '@hono/zod-openapi'
import type { SpendAsked, SpendListed } from '../actors/contracts.ts'
import { apiError } from '../platform/api-error.ts'
import { Id } from '../protocol/index.ts'
import { Tokens } from './measured-json.ts'
import { PageQuery } from './program-schemas.ts'

const Whole = z.number().int()

export const Charges = {
  calls: Tokens.openapi({ description: 'Calls that were answered' }),
  prompt_tokens: Tokens.openapi({ description: 'Cached ones too' }),
  cached_tokens: Tokens,
  output_tokens: Tokens,
  service_us: Whole.openapi({ description: 'Modelled service, microseconds' }),
  cost_nanos: Whole.openapi({
    description: 'Money, in billionths of your operator’s currency; 0 for models without a price',
  }),
}

export const Spend = z
  .object({
    object: z.literal('spend'),
    period: z.string().openapi({ description: 'UTC: a day, or a month', example: '2026-11-23' }),
    name: z.string().nullable().openapi({
      description:
        'The key, class, model or program. Null: all of them, not known, or one of the classes beyond 1,000 a day',
    }),
    ...Charges,
  })
  .openapi('Spend')

const Day = z.iso.date()
export const SpendPeriod = z.object({
  per: z.enum(['day', 'month']).default('day'),
  from: Day.optional().openapi({ description: 'First UTC day (default: the first of this month)' }),
  to: Day.optional().openapi({ description: 'Last UTC day (default: today)' }),
})

export const SpendQuery = PageQuery.extend({
  ...SpendPeriod.shape,
  by: z
    .enum(['total', 'key', 'class', 'model', 'program'])
    .default('total')
    .openapi({ description: 'Programs are told apart for 62 days, the others for 400' }),
  name: Id.optional().openapi({ description: 'Only of this key, class, model or program' }),
})

export function spendAsked(
  { per, by, name, from, to, cursor, limit }: z.infer<typeof SpendQuery>,
  now_ms: number,
): SpendAsked | Response {
  const days = daysOf({ from, to }, now_ms)
  if (days.from > days.to) return apiError(400, { message: 'from is after to.', param: 'from', code: 'invalid_value' })
  if (by === 'total' && name !== undefined) {
    const message = 'name goes with by=key, class, model or program.'
    return apiError(400, { message, param: 'name', code: 'invalid_value' })
  }
  return { ...{ per, by, limit, cursor: cursor ?? null, name: name ?? null }, ...days }
}

export function daysOf({ from, to }: { from?: string | undefined; to?: string | undefined }, now_ms: number) {
  const today = new Date(now_ms).toISOString().slice(0, 10)
  return { from: from ?? `${(to ?? today).slice(0, 7)}-01`, to: to ?? today }
}

export function spendJson({ period, name, ...sums }: SpendListed): z.infer<typeof Spend> {
  return { object: 'spend', period, name, ...sums }
}
