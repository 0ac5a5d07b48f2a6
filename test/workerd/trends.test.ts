/** /v1/trends over real archives: what ended programs took, by class and day. */
import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { TREND_DAYS_MAX } from '../../src/api/trends-json.ts'
import { endedPrograms } from '../../src/store/archive-schema.ts'
import { database } from '../../src/store/database.ts'
import { DAY_MS, TREND_PROGRAMS_MAX, trendsOf } from '../../src/store/trends.ts'
import { ownRows } from './archive-tools.ts'
import { json, KEY_A, KEY_B, provision, request } from './fixtures.ts'

interface Trends {
  is_whole: boolean
  data: { class: string; day: string; programs: number; response_s: object; wait_s: object; service_s: number }[]
}

const TODAY_MS = Math.floor(Date.now() / DAY_MS) * DAY_MS
const NOTHING = {
  ...{ prompt_tokens: 0, cached_tokens: 0, output_tokens: 0, service_wall_us: 0, service_modelled_us: 0 },
  ...{ preemptions: 0, swapped_out_tokens: 0, swapped_in_tokens: 0, recomputed_tokens: 0, swap_us: 0 },
}

async function ended(
  program: string,
  ended_at_ms: number,
  { of = 'tenant-a', name = 'app:x', response_ms = 1_000, wait_us = 0, calls = 1, idle_ms = 0, old = false } = {},
): Promise<void> {
  const last_completion_ms = ended_at_ms - idle_ms
  const row = {
    ...{ tenant: of, program, run: `run of ${program}`, class: name, metadata: '{}', reading: 'modelled' as const },
    ...{ started_at_ms: last_completion_ms - response_ms, ended_at_ms, last_completion_ms, calls },
    ...{ end_reason: 'explicit' as const, service_us: 1_000_000, critical_path_us: 1, engines: '[]', pins: '[]' },
    ...{ ...NOTHING, wait_us },
  }
  await database(old ? env.DB : ownRows(of))
    .insert(endedPrograms)
    .values(row)
}

beforeAll(async () => {
  await provision()
  for (let n = 1; n <= 20; n++) {
    await ended(`x${n}`, TODAY_MS + n, {
      response_ms: n * 1_000,
      wait_us: n * 100_000,
      idle_ms: 1_800_000,
      old: n % 3 === 0,
    })
  }
  await ended('y1', TODAY_MS - 1, { name: 'app:y', response_ms: 5_000 })
  await ended('empty', TODAY_MS + 1, { name: 'app:z', calls: 0 })
  await ended('long ago', TODAY_MS - 20 * DAY_MS, { name: 'app:old' })
  await ended('of b', TODAY_MS + 1, { of: 'tenant-b', name: 'app:b' })
})

it('has p50 and p95 of each class and day, to the last answer of a program', async () => {
  const { is_whole, data } = await json<Trends>(request('GET', '/v1/trends', KEY_A))
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10)
  expect(is_whole).toBe(true)
  expect(data).toEqual([
    {
      ...{ class: 'app:x', day: day(TODAY_MS), programs: 20, service_s: 20 },
      ...{ response_s: { p50: 10, p95: 19 }, wait_s: { p50: 1, p95: 1.9 } },
    },
    {
      ...{ class: 'app:y', day: day(TODAY_MS - 1), programs: 1, service_s: 1 },
      ...{ response_s: { p50: 5, p95: 5 }, wait_s: { p50: 0, p95: 0 } },
    },
  ])
})

it('is of the days that are asked for, and of the tenant alone', async () => {
  const classes = async (path: string, key: string) =>
    (await json<Trends>(request('GET', path, key))).data.map((one) => one.class)
  expect(await classes('/v1/trends?days=1', KEY_A)).toEqual(['app:x'])
  expect(await classes('/v1/trends?days=30', KEY_A)).toEqual(['app:x', 'app:y', 'app:old'])
  expect(await classes('/v1/trends', KEY_B)).toEqual(['app:b'])
  expect(await classes('/admin/v1/tenants/tenant-b/trends', env.ADMIN_KEY)).toEqual(['app:b'])
  expect((await request('GET', '/admin/v1/tenants/nobody/trends', env.ADMIN_KEY)).status).toBe(404)
  for (const days of ['0', String(TREND_DAYS_MAX + 1), '1.5', 'x']) {
    expect((await request('GET', `/v1/trends?days=${days}`, KEY_A)).status).toBe(400)
  }
})

it('reads no more programs than its bound, by the index', async () => {
  const rows = ownRows('many')
  const plan = await rows
    .prepare(
      'EXPLAIN QUERY PLAN SELECT class FROM ended_programs WHERE tenant = ?1 AND ended_at_ms >= ?2 ORDER BY ended_at_ms DESC',
    )
    .bind('tenant-a', 0)
    .all<{ detail: string }>()
  expect(plan.results.map(({ detail }) => detail).join()).toContain('ended_programs_by_end')
  const zeros = [...Object.keys(NOTHING), 'wait_us']
  const columns = `tenant, program, run, class, metadata, reading, started_at_ms, ended_at_ms, end_reason, service_us,
    critical_path_us, engines, pins, calls, ${zeros}`
  const many = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${TREND_PROGRAMS_MAX})
    INSERT INTO ended_programs (${columns}) SELECT 'many', 'p' || i, 'r', 'c', '{}', 'modelled', 0, i, 'explicit', 1,
    1, '[]', '[]', 1, ${zeros.map(() => 0)} FROM n`
  await rows.prepare(many).run()
  const {
    rows: [trend],
    is_whole,
  } = await trendsOf([rows], 'many', 0)
  expect([trend?.programs, is_whole]).toEqual([TREND_PROGRAMS_MAX, false])
})
