/** How many pools and tenants one scrape of /metrics asks, at its bounds and past them, and what it counts of refused records. */
import { env } from 'cloudflare:workers'
import { beforeAll, expect, it, vi } from 'vitest'
import { POOLS_ASKED_MAX, TENANTS_ASKED_MAX } from '../../src/api/metrics.ts'
import { PROVISION, provision, recordOf, request, TOKEN_EAST } from './fixtures.ts'

const REGIONS = PROVISION.regions.length
/** A scrape asks some hundred actors, each new. */
const TIMEOUT_MS = 60_000

beforeAll(provision)

async function scrape(): Promise<string> {
  const response = await request('GET', '/metrics', env.ADMIN_KEY)
  expect(response.status).toBe(200)
  return response.text()
}

const series = (text: string, name: string) => text.split('\n').filter((line) => line.startsWith(`${name}{`)).length
const value = (text: string, name: string) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1])

async function addModels(from: number, to: number): Promise<void> {
  const insert = env.DB.prepare(
    "INSERT INTO models (id, ordering_service, context_tokens_max, bytes_per_token, created_at_ms) VALUES (?, 'modelled', 8192, 4, 0)",
  )
  const link = env.DB.prepare('INSERT INTO linked_pools (region, model) VALUES (?, ?)')
  const ids = Array.from({ length: to - from }, (_, index) => `m-${from + index}`)
  const links = ids.flatMap((model) => PROVISION.regions.map(({ id }) => link.bind(id, model)))
  if (ids.length > 0) await env.DB.batch([...ids.map((id) => insert.bind(id)), ...links])
  // Has the isolate read the catalogue anew.
  expect((await request('POST', '/admin/v1/tenants/tenant-a/keys', env.ADMIN_KEY, {})).status).toBe(201)
}

it(
  'of pools that have been linked to as many as the bound are asked, and past it the rest is counted',
  async () => {
    // The model of the fixtures is served nowhere.
    expect(series(await scrape(), 'switchyard_pool_up')).toBe(0)
    const at_bound = POOLS_ASKED_MAX / REGIONS
    await addModels(0, at_bound)
    const full = await scrape()
    expect([series(full, 'switchyard_pool_up'), value(full, 'switchyard_pools_not_asked')]).toEqual([500, 0])
    await addModels(at_bound, at_bound + 1)
    const over = await scrape()
    expect([series(over, 'switchyard_pool_up'), value(over, 'switchyard_pools_not_asked')]).toEqual([500, REGIONS])
  },
  TIMEOUT_MS,
)

it(
  'of tenants as many as the bound are asked, and past it some are said to be left out',
  async () => {
    const insert = env.DB.prepare('INSERT INTO tenants (id, name, weight, created_at_ms) VALUES (?, ?, 1, 0)')
    const add = (count: number, prefix: string) =>
      env.DB.batch(Array.from({ length: count }, (_, index) => insert.bind(`${prefix}-${index}`, 'x')))
    await add(TENANTS_ASKED_MAX - PROVISION.tenants.length, 'a')
    const running = 'switchyard_tenant_programs_running'
    const full = await scrape()
    expect([series(full, running), value(full, 'switchyard_tenants_left_out')]).toEqual([100, 0])
    await add(1, 'b')
    const over = await scrape()
    expect([series(over, running), value(over, 'switchyard_tenants_left_out')]).toEqual([100, 1])
  },
  TIMEOUT_MS,
)

it('records of leases that were never granted are counted', async () => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  const counted = async () => value(await scrape(), 'switchyard_isolate_records_unproven_total')
  const before = await counted()
  const records = [recordOf('p', 'run-1', 'call-1'), recordOf('p', 'run-1', 'call-2')]
  const sent = await request('POST', '/agents/v1/records', TOKEN_EAST, { v: 1, agent: 'agent-east', records })
  expect(await sent.json()).toMatchObject({ acknowledged: [], refused: ['lease-call-1', 'lease-call-2'] })
  expect((await counted()) - before).toBe(2)
  log.mockRestore()
})
