/** Usage of calls that belong to no program, as the API tells it: to a tenant of its own, to the operator of any. */
import { z } from '@hono/zod-openapi'
import type { UsageListed } from '../actors/contracts.ts'
import { MeasuredShape, measuredJson } from './measured-json.ts'

export const Usage = z
  .object({
    object: z.literal('usage'),
    day: z.iso.date().openapi({ description: 'UTC' }),
    key: z.string().nullable().openapi({ description: 'Id of the API key; null: not known' }),
    model: z.string(),
    calls: z.number().int().nonnegative(),
    leases: z
      .number()
      .int()
      .nonnegative()
      .openapi({ description: 'A call whose engine was replaced has several; all of them count' }),
    ...MeasuredShape,
  })
  .openapi('Usage')

export function usageJson({ day, key, model, calls, leases, ...sums }: UsageListed): z.infer<typeof Usage> {
  return { object: 'usage', day, key, model, calls, leases, ...measuredJson(sums) }
}
