/**
 * Budgets of a tenant of several shards. Its ledger is in the first one, and charges of its calls are counted in all. What is charged and
 * what is reserved never exceed a limit, and nothing stays reserved, through restarts and shards that do not answer.
 */
import { evictDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, beforeAll, expect, it, vi } from 'vitest'
import type { TenantRpc } from '../../src/actors/contracts.ts'
import { programActor, tenantActor } from '../../src/actors/stubs.ts'
import { AWAITED_ASKED_MS, tenantOfActor } from '../../src/actors/tenant-shards.ts'
import { NOTHING } from '../../src/core/budget/budget.ts'
import type { BudgetQuestion, LedgerLimits, Some } from '../../src/core/budget/budget-ledger.ts'
import { inShard, tenantShard } from '../../src/core/program/tenant-shards.ts'
import { seededRandom } from '../../src/core/seeded-random.ts'
import type { CallRecord } from '../../src/protocol/index.ts'
import { BudgetShares } from '../../src/relay/budget-shares.ts'
import * as actors from '../../src/worker.ts'
import { admission, json, leaseOf, proven, provision, recordOf, request, TOKEN_EAST } from './fixtures.ts'

const KEY = 'key-00000000000000e1'
const SHARDS = 3
const LIMITS: LedgerLimits = { tenant: { day: { tokens: 20_000 } }, key: { month: { calls: 400 } } }
const TIMES = { budget_timeout_ms: 10_000, budget_told_ms: 5, budget_idle_ms: 5 }

beforeAll(provision)
afterEach(() => vi.restoreAllMocks())

let tenants = 0
async function made(): Promise<string> {
  const tenant = `budget-shards-${tenants++}`
  const asked = { id: tenant, name: tenant, shards: SHARDS }
  expect((await request('POST', '/admin/v1/tenants', env.ADMIN_KEY, asked)).status).toBe(201)
  return tenant
}

async function send(...records: CallRecord[]): Promise<string[]> {
  const granted_at_ms = Date.now()
  const signed = await Promise.all(records.map((record) => proven(record, { granted_at_ms, key: KEY })))
  const body = { agent: 'agent-east', records: signed }
  return (await json<{ acknowledged: string[] }>(request('POST', '/agents/v1/records', TOKEN_EAST, body))).acknowledged
}

const restart = async (tenant: string, shard: number): Promise<void> => {
  await evictDurableObject(tenantActor(env, tenant, shard) as never).catch((error: unknown) => {
    if (!String(error).includes('not currently running')) throw error
  })
}

/** The record of a call of no program. */
const alone = (tenant: string, call: string, shard: number, output_tokens: number) =>
  recordOf(call, inShard(call, shard), call, { tenant, prompt_tokens: 10, cached_tokens: 0, output_tokens })

let seq = 0
const question = (change: Partial<BudgetQuestion>): BudgetQuestion => ({
  ...{ holder: 'one', seq: ++seq, key: KEY, limits: LIMITS, reserved: NOTHING, free: NOTHING, ended: [], needs: [] },
  ...{ chunk_for: null, ...change },
})

/** Tokens that the tenant has used and that are reserved. */
async function tokensOf(tenant: string): Promise<number[] | undefined> {
  const answer = await tenantActor(env, tenant).shareBudget(question({ holder: 'reader' }))
  return answer?.standing.filter(({ of }) => of === 'tenant').flatMap(({ used, reserved }) => [used, reserved])
}

/** Shards are asked again by then. */
function later(ms: number): void {
  const then_ms = Date.now() + ms
  vi.spyOn(Date, 'now').mockReturnValue(then_ms)
}

it('a charge that another shard counts takes the place of what was reserved', async () => {
  const tenant = await made()
  const call = `${tenant}-call`
  const metered = vi.spyOn(actors.TenantActor.prototype, 'meter')
  const need = { call, most: { ...NOTHING, calls: 1, tokens: 300 }, least_tokens: 10 }
  const answer = await tenantActor(env, tenant).shareBudget(question({ needs: [need] }))
  expect(answer?.shares).toMatchObject([{ status: 'reserved', amounts: { tokens: 300 } }])
  const ended = [{ call, lease: `lease-${call}`, shard: 2, amounts: { ...NOTHING, calls: 1, tokens: 300 } }]
  await tenantActor(env, tenant).shareBudget(question({ ended }))
  // No shard has it yet.
  later(AWAITED_ASKED_MS)
  await restart(tenant, 0)
  expect(await tokensOf(tenant)).toEqual([0, 300])
  expect(await send(alone(tenant, call, 2, 40))).toEqual([`lease-${call}`])
  expect(metered.mock.contexts.map((actor) => placeOf(actor))).toEqual([2])
  later(AWAITED_ASKED_MS)
  expect(await tokensOf(tenant)).toEqual([50, 0])
  // The isolate did not hear the answer and tells it again.
  await tenantActor(env, tenant).shareBudget(question({ ended }))
  expect(await tokensOf(tenant)).toEqual([50, 300])
  await restart(tenant, 0)
  await restart(tenant, 2)
  later(AWAITED_ASKED_MS)
  expect(await tokensOf(tenant)).toEqual([50, 0])
})

it('calls of a program are metered in the shard of its run, and each record once', async () => {
  const tenant = await made()
  const names = Array.from({ length: 20 }, (_, i) => `named-${i}`)
  const program = names.find((name) => tenantShard(name, SHARDS) === 1) ?? ''
  const call = `${program}-call`
  const actor = programActor(env, tenant, program)
  const reply = await actor.admit(admission(program, call, { tenant, tenant_shards: SHARDS }))
  if (reply.status !== 'admitted') throw new Error(reply.message)
  await actor.leaseOpened(leaseOf(reply.run, call))
  const metered = vi.spyOn(actors.TenantActor.prototype, 'meter')
  const record = recordOf(program, reply.run, call, { tenant, prompt_tokens: 10, output_tokens: 40 })
  expect(await send(record)).toEqual([record.lease])
  await restart(tenant, 1)
  expect(await send(record)).toEqual([record.lease])
  expect(new Set(metered.mock.contexts.map((asked) => placeOf(asked)))).toEqual(new Set([1]))
  expect(await tokensOf(tenant)).toEqual([50, 0])
})

it('a shard that does not answer keeps reserved what its calls had', async () => {
  const tenant = await made()
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  const call = `${tenant}-call`
  const ended = [{ call, lease: `lease-${call}`, shard: 1, amounts: { ...NOTHING, calls: 1, tokens: 300 } }]
  await send(alone(tenant, `${call}-first`, 1, 90))
  await tenantActor(env, tenant).shareBudget(question({ ended }))
  await send(alone(tenant, call, 1, 40))
  const deaf = vi.spyOn(actors.TenantActor.prototype, 'chargedNow').mockRejectedValue(new Error('deaf'))
  later(AWAITED_ASKED_MS)
  expect(await tokensOf(tenant)).toEqual([100, 300])
  expect(log.mock.calls.join()).toContain('tenant_shard_not_asked')
  deaf.mockRestore()
  later(AWAITED_ASKED_MS)
  expect(await tokensOf(tenant)).toEqual([150, 0])
})

it('a shard that is in the next day takes the ledger there, so that no day looks unused', async () => {
  const tenant = await made()
  await send(alone(tenant, `${tenant}-here`, 0, 190), alone(tenant, `${tenant}-there`, 1, 90))
  expect(await tokensOf(tenant)).toEqual([300, 0])
  const { chargedNow } = actors.TenantActor.prototype
  const DAY_MS = 24 * 60 * 60 * 1000
  const start_ms = Date.now()
  vi.spyOn(actors.TenantActor.prototype, 'chargedNow').mockImplementation(async function (this: unknown, awaited) {
    const clock = vi.spyOn(Date, 'now').mockReturnValue(start_ms + DAY_MS)
    const answer = await chargedNow.call(this as never, awaited)
    clock.mockReturnValue(start_ms + 11_000)
    return answer
  })
  later(11_000)
  // Not 200: that would be the old day without what the shard had in it.
  expect(await tokensOf(tenant)).toEqual([0, 0])
})

function placeOf(actor: unknown): number {
  return tenantOfActor((actor as { ctx: DurableObjectState }).ctx.id.name ?? '').shard
}

it.each([1, 2, 3, 4])(
  'nothing is exceeded and nothing stays reserved while shards restart, are deaf and hear records late, seed %i',
  async (seed) => {
    vi.spyOn(console, 'error').mockImplementation(() => undefined)
    const random = seededRandom(seed)
    const below = (most: number) => Math.floor(random() * most)
    const tenant = await made()
    const start_ms = Date.now()
    let passed_ms = 0
    vi.spyOn(Date, 'now').mockImplementation(() => start_ms + passed_ms)
    const { chargedNow } = actors.TenantActor.prototype
    vi.spyOn(actors.TenantActor.prototype, 'chargedNow').mockImplementation(function (this: unknown, awaited) {
      return below(6) === 0 ? Promise.reject(new Error('deaf')) : chargedNow.call(this as never, awaited)
    })
    const background: Promise<unknown>[] = []
    let ids = 0
    const deps = {
      tenant: () => tenantActor(env, tenant) as Pick<TenantRpc, 'shareBudget'>,
      now: () => Date.now(),
      newId: () => `${tenant}-isolate-${ids++}`,
      waitUntil: (work: Promise<unknown>) => void background.push(work),
      report: () => {},
      times: TIMES,
    }
    const isolates = [new BudgetShares(), new BudgetShares()]
    /** What calls may still be charged. */
    const open = new Map<string, Some>()
    const late: { record: CallRecord }[] = []
    let charged_tokens = 0
    const within = () => {
      const may = [...open.values()].reduce((sum, { tokens = 0 }) => sum + tokens, 0)
      expect(charged_tokens + may).toBeLessThanOrEqual(20_000)
    }
    const charge = async (record: CallRecord) => {
      charged_tokens += record.prompt_tokens + record.output_tokens
      open.delete(record.call)
      within()
      expect(await send(record)).toEqual([record.lease])
    }
    let served = 0
    let refused = 0
    const one = async (at: number) => {
      const call = `${tenant}-c${at}`
      const wants = { most: { ...NOTHING, calls: 1, tokens: 50 + below(1_200) }, least_tokens: 20 }
      const asked = { id: call, tenant, key: KEY, limits: LIMITS, wants }
      const taking = await (isolates[below(2)] as BudgetShares).take(asked, deps)
      if (taking.status !== 'taken') {
        refused += 1
        return
      }
      served += 1
      const { share } = taking
      open.set(call, share.amounts)
      within()
      const shard = below(SHARDS)
      share.placed(`lease-${call}`, inShard(call, shard))
      const record = alone(tenant, call, shard, below((share.amounts.tokens ?? 0) - 9))
      const isLate = below(4) === 0
      if (!isLate && below(2) === 0) await charge(record)
      share.ended()
      if (isLate) late.push({ record })
      else if (open.has(call)) await charge(record)
    }
    for (let round = 0; round < 12; round += 1) {
      await Promise.all(Array.from({ length: 8 }, (_, i) => one(round * 8 + i)))
      passed_ms += below(3) * AWAITED_ASKED_MS
      if (below(2) === 0) await restart(tenant, below(SHARDS))
      while (late.length > 3) await charge((late.shift() as { record: CallRecord }).record)
    }
    expect(served).toBeGreaterThan(20)
    expect(refused).toBeGreaterThan(0)
    for (const { record } of late) await charge(record)
    for (let done = 0; done < background.length; done += 1) await background[done]
    let now: number[] | undefined
    for (let tries = 0; tries < 20 && now?.[1] !== 0; tries += 1) {
      passed_ms += AWAITED_ASKED_MS
      now = await tokensOf(tenant).catch(() => undefined)
    }
    expect(now).toEqual([charged_tokens, 0])
  },
  60_000,
)
