/**
 * How a tenant's ended programs of each class went, day by day: counts and percentiles. One query over the index by tenant and end,
 * which reads TREND_PROGRAMS_MAX rows at most, those that ended last.
 */
import { z } from 'zod'

/** Programs that one answer is of. */
export const TREND_PROGRAMS_MAX = 20_000
/** Classes and days of one answer. */
export const TREND_ROWS_MAX = 1_000
export const DAY_MS = 86_400_000

/** A program's response time goes to its last answer: one that went stale waited half an hour for nothing after it. */
const QUERY = `
WITH recent AS (
  SELECT class, ended_at_ms / ${DAY_MS} AS day, wait_us, service_us,
    MAX(0, COALESCE(last_completion_ms, ended_at_ms) - started_at_ms) AS response_ms
  FROM ended_programs
  WHERE tenant = ?1 AND ended_at_ms >= ?2 AND calls > 0
  ORDER BY ended_at_ms DESC
  LIMIT ${TREND_PROGRAMS_MAX}
), ranked AS (
  SELECT class, day, response_ms, wait_us, service_us,
    COUNT(*) OVER (PARTITION BY class, day) AS programs,
    ROW_NUMBER() OVER (PARTITION BY class, day ORDER BY response_ms) AS by_response,
    ROW_NUMBER() OVER (PARTITION BY class, day ORDER BY wait_us) AS by_wait
  FROM recent
)
SELECT class, day, programs, SUM(service_us) AS service_us,
  MAX(CASE WHEN by_response = (programs * 50 + 99) / 100 THEN response_ms END) AS response_p50_ms,
  MAX(CASE WHEN by_response = (programs * 95 + 99) / 100 THEN response_ms END) AS response_p95_ms,
  MAX(CASE WHEN by_wait = (programs * 50 + 99) / 100 THEN wait_us END) AS wait_p50_us,
  MAX(CASE WHEN by_wait = (programs * 95 + 99) / 100 THEN wait_us END) AS wait_p95_us
FROM ranked
GROUP BY class, day
ORDER BY day DESC, programs DESC, class
LIMIT ${TREND_ROWS_MAX + 1}`

const Amount = z.number().nonnegative()

const TrendRow = z.object({
  class: z.string(),
  /** Days since 1970, UTC. */
  day: z.number().int(),
  programs: Amount,
  service_us: Amount,
  response_p50_ms: Amount,
  response_p95_ms: Amount,
  wait_p50_us: Amount,
  wait_p95_us: Amount,
})
export type TrendRow = z.infer<typeof TrendRow>

export interface Trends {
  /** The latest day first, then the class with the most programs. */
  rows: TrendRow[]
  /** False: there are more classes and days, or more programs. */
  is_whole: boolean
}

/** Of programs that ended at `since_ms` or later. */
export async function trendsOf(d1: D1Database, tenant: string, since_ms: number): Promise<Trends> {
  const { results } = await d1.prepare(QUERY).bind(tenant, since_ms).all()
  const rows = z.array(TrendRow).parse(results)
  const programs = rows.reduce((sum, row) => sum + row.programs, 0)
  const is_whole = rows.length <= TREND_ROWS_MAX && programs < TREND_PROGRAMS_MAX
  return { rows: rows.slice(0, TREND_ROWS_MAX), is_whole }
}
