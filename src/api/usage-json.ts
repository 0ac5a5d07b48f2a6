/** Usage of calls that belong to no program, as the API tells it: to a tenant of its own, to the operator of any. */
import { z } from '@hono/zod-openapi'
import type { UsageListed } from '../actors/contracts.ts'

const Seconds = z.number().nonnegative()
const Tokens = z.number().int().nonnegative()

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
    prompt_tokens: Tokens,
    cached_tokens: Tokens,
    output_tokens: Tokens,
    service_wall_s: Seconds,
    service_modelled_s: Seconds,
    wait_s: Seconds,
    preemptions: z.number().int().nonnegative(),
  })
  .openapi('Usage')

export function usageJson({
  service_wall_us,
  service_modelled_us,
  wait_us,
  ...counts
}: UsageListed): z.infer<typeof Usage> {
  return {
    object: 'usage',
    ...counts,
    service_wall_s: service_wall_us / 1e6,
    service_modelled_s: service_modelled_us / 1e6,
    wait_s: wait_us / 1e6,
  }
}
