/** Budgets of tenants and keys in their actor: stored before an isolate hears of them, and the same after every restart. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { tenantActor } from '../../src/actors/stubs.ts'
import type { BudgetQuestion, LedgerLimits } from '../../src/core/budget/budget-ledger.ts'
import { RESERVED_LIFE_MS } from '../../src/core/budget/budget-ledger.ts'
import { authenticate } from '../../src/store/keys.ts'
import { proven, provision, recordOf, request, TOKEN_EAST } from './fixtures.ts'

const KEY = 'key-00000000000000c1'
const NOTHING = { calls: 0, tokens: 0, service_us: 0, cost_nanos: 0 }
const limits: LedgerLimits = { tenant: { day: { tokens: 1_000 } }, key: { month: { calls: 3 } } }

beforeAll(provision)
beforeEach(async () => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  await runInDurableObject(actor() as never, async (_: unknown, state: DurableObjectState) => {
    const tables = state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'spend'").toArray()
    for (const table of tables.length === 0 ? [] : ['spend', 'budget_state'])
      state.storage.sql.exec(`DELETE FROM ${table}`)
  })
  await evictDurableObject(actor() as never)
  return () => log.mockRestore()
})

const actor = () => tenantActor(env, 'tenant-a')
let seq = 0
let calls = 0
const need = (tokens: number) => ({
  call: `shared-${calls++}`,
  most: { ...NOTHING, calls: 1, tokens },
  least_tokens: 10,
})
const question = (change: Partial<BudgetQuestion>): BudgetQuestion => ({
  ...{ holder: 'one', seq: ++seq, key: KEY, limits, reserved: NOTHING, free: NOTHING, ended: [], needs: [] },
  ...{ chunk_for: null, ...change },
})
const reservedNow = async () => {
  const answer = await actor().shareBudget(question({ holder: 'reader' }))
  return answer?.standing.map(({ kind, used, reserved }) => [kind, used, reserved])
}

async function settled(call: string, output_tokens: number): Promise<void> {
  const record = recordOf(call, call, call, { prompt_tokens: 10, cached_tokens: 0, output_tokens })
  const signed = await proven(record, { granted_at_ms: Date.now(), key: KEY })
  await request('POST', '/agents/v1/records', TOKEN_EAST, { agent: 'agent-east', records: [signed] })
}

it('what an isolate has been given, and a call whose record has not come, outlive the actor', async () => {
  const first = need(300)
  expect(await actor().shareBudget(question({ needs: [first] }))).toMatchObject({
    shares: [{ status: 'reserved', amounts: { tokens: 300, calls: 1 } }],
  })
  await evictDurableObject(actor() as never)
  expect(await reservedNow()).toEqual([
    ['calls', 0, 1],
    ['tokens', 0, 300],
  ])
  const amounts = { ...NOTHING, calls: 1, tokens: 300 }
  const ended = [{ call: first.call, lease: `lease-${first.call}`, amounts }]
  await actor().shareBudget(question({ ended }))
  await evictDurableObject(actor() as never)
  expect(await reservedNow()).toEqual([
    ['calls', 0, 1],
    ['tokens', 0, 300],
  ])
  await settled(first.call, 40)
  expect(await reservedNow()).toEqual([
    ['calls', 1, 0],
    ['tokens', 50, 0],
  ])
  // The isolate did not hear the answer and tells it again.
  await actor().shareBudget(question({ ended }))
  await evictDurableObject(actor() as never)
  expect(await reservedNow()).toEqual([
    ['calls', 1, 0],
    ['tokens', 50, 0],
  ])
})

it('an older question of an isolate is not heard', async () => {
  const newer = question({ needs: [need(300)] })
  await actor().shareBudget(newer)
  expect(await actor().shareBudget({ ...question({}), seq: newer.seq })).toBeNull()
  expect(await reservedNow()).toContainEqual(['tokens', 0, 300])
})

it('what an isolate took along is given up after an hour', async () => {
  await actor().shareBudget(question({ needs: [need(995)] }))
  expect((await actor().shareBudget(question({ holder: 'two', needs: [need(900)] })))?.shares).toMatchObject([
    { code: 'tenant_budget_reserved' },
  ])
  const then = Date.now() + RESERVED_LIFE_MS + 1
  const clock = vi.spyOn(Date, 'now').mockReturnValue(then)
  const answer = await actor().shareBudget(question({ holder: 'two', needs: [need(995)] }))
  clock.mockRestore()
  expect(answer?.shares).toMatchObject([{ status: 'reserved' }])
  const names = await runInDurableObject(actor() as never, (_: unknown, state: DurableObjectState) =>
    state.storage.sql.exec('SELECT name FROM budget_state').toArray(),
  )
  expect(names).toEqual([{ name: 'holder:two' }])
})

it('is set by the operator for a tenant and a key, shown, checked and lifted', async () => {
  const of = async (method: string, path: string, body?: object) => {
    const response = await request(method, `/admin/v1/tenants/tenant-b${path}`, env.ADMIN_KEY, body)
    return { status: response.status, json: (await response.json()) as Record<string, unknown> }
  }
  const budget = { day: { tokens: 1_000_000, cost: 2.5 }, month: { service_s: 90_000 } }
  expect((await of('PATCH', '', { budget })).json).toMatchObject({ budget })
  expect((await of('GET', '')).json).toMatchObject({ budget })
  const made = await of('POST', '/keys', { name: 'limited', budget: { month: { calls: 10 } } })
  expect(made.json).toMatchObject({ budget: { month: { calls: 10 } } })
  expect((await of('PATCH', `/keys/${String(made.json.id)}`, { budget: null })).json).toMatchObject({ budget: null })
  for (const wrong of [{}, { day: {} }, { year: { calls: 1 } }, { day: { calls: 0 } }, { day: { steps: 1 } }]) {
    expect([wrong, (await of('PATCH', '', { budget: wrong })).status]).toEqual([wrong, 400])
  }
  expect((await of('PATCH', '', { budget: null })).json).toMatchObject({ budget: null })
})

it('of a tenant and of its key reach the isolate, each as its own', async () => {
  const admin = async (method: string, path: string, body: object) => {
    const response = await request(method, `/admin/v1/tenants/tenant-b${path}`, env.ADMIN_KEY, body)
    return (await response.json()) as { key: string }
  }
  await admin('PATCH', '', { budget: { day: { tokens: 7 } } })
  const { key } = await admin('POST', '/keys', { name: 'both', budget: { month: { cost: 2 } } })
  const { key: free } = await admin('POST', '/keys', { name: 'free' })
  const limits_of = async (presented: string, now_ms: number) => {
    const asked = new Request('https://switchyard.test/v1/models', {
      headers: { authorization: `Bearer ${presented}` },
    })
    const who = await authenticate(asked, env, now_ms)
    return who.status === 'tenant' ? who.identity.limits : who
  }
  // Once together with the catalogue, which is due, and once without.
  for (const now_ms of [Date.now() + 3_600_000, Date.now()]) {
    expect(await limits_of(key, now_ms)).toEqual({
      tenant: { day: { tokens: 7 } },
      key: { month: { cost_nanos: 2e9 } },
    })
    expect(await limits_of(free, now_ms)).toEqual({ tenant: { day: { tokens: 7 } }, key: null })
  }
  await admin('PATCH', '', { budget: null })
})
