/**
 * How a tenant's ended programs of each class went, day by day: counts and percentiles. Of each database one query over the index by tenant
 * and end, which reads TREND_PROGRAMS_MAX rows at most, those that ended last.
 */
import { z } from 'zod'
import type { Databases } from './archive.ts'

/** Programs that one answer is of. */
export const TREND_PROGRAMS_MAX = 20_000
/** Classes and days of one answer. */
export const TREND_ROWS_MAX = 1_000
export const DAY_MS = 86_400_000

/** A program's response time goes to its last answer: one that went stale waited half an hour for nothing after it. */
const QUERY = `
SELECT class, ended_at_ms, wait_us, service_us, MAX(0, COALESCE(last_completion_ms, ended_at_ms) - started_at_ms)
FROM ended_programs
WHERE tenant = ?1 AND ended_at_ms >= ?2 AND calls > 0
ORDER BY ended_at_ms DESC
LIMIT ${TREND_PROGRAMS_MAX}`

const Amount = z.number().nonnegative()
const Program = z.tuple([z.string(), Amount, Amount, Amount, Amount])

export interface TrendRow {
  class: string
  /** Days since 1970, UTC. */
  day: number
  programs: number
  service_us: number
  response_p50_ms: number
  response_p95_ms: number
  wait_p50_us: number
  wait_p95_us: number
}

export interface Trends {
  /** The latest day first, then the class with the most programs. */
  rows: TrendRow[]
  /** False: there are more classes and days, or more programs. */
  is_whole: boolean
}

interface EndedProgram {
  class: string
  day: number
  ended_at_ms: number
  wait_us: number
  service_us: number
  response_ms: number
}

/** Of programs that ended at `since_ms` or later. */
export async function trendsOf(databases: Databases, tenant: string, since_ms: number): Promise<Trends> {
  const found = await Promise.all(databases.map((d1) => d1.prepare(QUERY).bind(tenant, since_ms).raw()))
  const ended = found
    .flatMap((rows) => z.array(Program).parse(rows))
    .map(([of_class, ended_at_ms, wait_us, service_us, response_ms]): EndedProgram => {
      const day = Math.floor(ended_at_ms / DAY_MS)
      return { class: of_class, day, ended_at_ms, wait_us, service_us, response_ms }
    })
    .sort((a, b) => b.ended_at_ms - a.ended_at_ms)
  const groups = Map.groupBy(ended.slice(0, TREND_PROGRAMS_MAX), (one) => `${one.day} ${one.class}`)
  const rows = [...groups.values()]
    .map(trendOf)
    .sort((a, b) => b.day - a.day || b.programs - a.programs || (a.class < b.class ? -1 : 1))
  const is_whole = rows.length <= TREND_ROWS_MAX && ended.length < TREND_PROGRAMS_MAX
  return { rows: rows.slice(0, TREND_ROWS_MAX), is_whole }
}

/** Of programs of one class and day. */
function trendOf(ended: readonly EndedProgram[]): TrendRow {
  const [{ class: of_class, day }] = ended as [EndedProgram]
  const response_ms = ended.map((one) => one.response_ms).sort((a, b) => a - b)
  const wait_us = ended.map((one) => one.wait_us).sort((a, b) => a - b)
  return {
    ...{ class: of_class, day, programs: ended.length },
    service_us: ended.reduce((sum, one) => sum + one.service_us, 0),
    ...{ response_p50_ms: percentile(response_ms, 50), response_p95_ms: percentile(response_ms, 95) },
    ...{ wait_p50_us: percentile(wait_us, 50), wait_p95_us: percentile(wait_us, 95) },
  }
}

/** The least that so many percent do not exceed. `values` ascend. */
function percentile(values: readonly number[], percent: number): number {
  return values[Math.ceil((values.length * percent) / 100) - 1] as number
}
