/** How a tenant's programs went, by class and day: GET /v1/trends, and the same for the operator. */
import { z } from '@hono/zod-openapi'
import { archiveDatabases } from '../actors/archive-store.ts'
import type { Env } from '../env.ts'
import { fromStore } from '../store/database.ts'
import { DAY_MS, TREND_PROGRAMS_MAX, TREND_ROWS_MAX, trendsOf } from '../store/trends.ts'
import { Seconds, seconds, Tokens } from './measured-json.ts'

export const TREND_DAYS_MAX = 90
const TREND_DAYS_DEFAULT = 14

export const TrendsQuery = z.object({
  days: z.coerce.number().int().min(1).max(TREND_DAYS_MAX).default(TREND_DAYS_DEFAULT).openapi({
    description: 'So many days, this one included, UTC',
  }),
})

const Percentiles = z.object({ p50: Seconds, p95: Seconds })

const Trend = z.object({
  class: z.string(),
  day: z.iso.date().openapi({ description: 'On which they ended, UTC' }),
  programs: Tokens,
  response_s: Percentiles.openapi({ description: 'From the start of a program to its last answer' }),
  wait_s: Percentiles.openapi({ description: 'Summed over the calls of a program' }),
  service_s: Seconds.openapi({ description: 'Of all of them, in the reading that orders calls' }),
})

export const TrendsJson = z
  .object({
    object: z.literal('trends'),
    is_whole: z.boolean().openapi({
      description: `False: it is of the ${TREND_PROGRAMS_MAX} programs that ended last, or has ${TREND_ROWS_MAX} rows and there are more`,
    }),
    data: z.array(Trend).openapi({ description: 'The latest day first, then the class with the most programs' }),
  })
  .openapi('Trends')

export async function trendsJson(
  env: Env,
  tenant: string,
  { days }: z.infer<typeof TrendsQuery>,
  now_ms: number,
): Promise<z.infer<typeof TrendsJson>> {
  const since_ms = (Math.floor(now_ms / DAY_MS) - days + 1) * DAY_MS
  const { rows, is_whole } = await fromStore(async () =>
    trendsOf(await archiveDatabases(env, tenant), tenant, since_ms),
  )
  return {
    ...{ object: 'trends', is_whole },
    data: rows.map((row) => ({
      ...{ class: row.class, day: new Date(row.day * DAY_MS).toISOString().slice(0, 10), programs: row.programs },
      response_s: { p50: row.response_p50_ms / 1000, p95: row.response_p95_ms / 1000 },
      wait_s: { p50: seconds(row.wait_p50_us), p95: seconds(row.wait_p95_us) },
      service_s: seconds(row.service_us),
    })),
  }
}
