/** A tenant of several shards is, to every question, one of one shard: lists, spend, budgets and classes, through any change of their number. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { type ProgramListed, tenantActorName } from '../../src/actors/contracts.ts'
import { programActor, tenantActor } from '../../src/actors/stubs.ts'
import {
  RATE_OVER_MS,
  REQUESTS_PER_S_MAX,
  SHARDS_ADDED_EVERY_MS,
  SHARDS_KEY,
  type TenantShards,
  tenantOfActor,
} from '../../src/actors/tenant-shards.ts'
import { addCharge, type Charge, chargeOf, dayOf, NO_CHARGE } from '../../src/core/budget/charge.ts'
import { inShard, runShard, TENANT_SHARDS_MAX, tenantShard } from '../../src/core/program/tenant-shards.ts'
import { seededRandom } from '../../src/core/seeded-random.ts'
import type { CallRecord } from '../../src/protocol/index.ts'
import * as actors from '../../src/worker.ts'
import { admission, json, leaseOf, programStub, proven, provision, recordOf, request, TOKEN_EAST } from './fixtures.ts'

const WAITING = { timeout: 40_000, interval: 250 }
const KEY_1 = 'key-00000000000000d1'

beforeAll(provision)
afterEach(() => vi.restoreAllMocks())

let tenants = 0
/** A tenant of its own, with a key. */
async function made(shards: number, more: object = {}): Promise<{ tenant: string; key: string }> {
  const tenant = `sharded-${tenants++}`
  const asked = { id: tenant, name: tenant, shards, ...more }
  expect((await request('POST', '/admin/v1/tenants', env.ADMIN_KEY, asked)).status).toBe(201)
  const { key } = await json<{ key: string }>(request('POST', `/admin/v1/tenants/${tenant}/keys`, env.ADMIN_KEY, {}))
  return { tenant, key }
}

async function openCall(tenant: string, program: string, call: string, tenant_shards: number): Promise<string> {
  const actor = programActor(env, tenant, program)
  const reply = await actor.admit({ ...admission(program, call, { tenant, tenant_shards }), gathers: true })
  if (reply.status !== 'admitted') throw new Error(reply.message)
  await actor.leaseOpened(leaseOf(reply.run, call))
  return reply.run
}

async function send(records: readonly CallRecord[]): Promise<string[]> {
  const granted_at_ms = Date.now()
  const signed = await Promise.all(records.map((record) => proven(record, { granted_at_ms, key: KEY_1 })))
  const body = { agent: 'agent-east', records: signed }
  return (await json<{ acknowledged: string[] }>(request('POST', '/agents/v1/records', TOKEN_EAST, body))).acknowledged
}

/** All pages. */
async function listOf<T>(path: string, key: string): Promise<T[]> {
  const rows: T[] = []
  let cursor = ''
  do {
    const answer = await request('GET', `${path}${cursor}`, key)
    expect(answer.status).toBe(200)
    const page = (await answer.json()) as { data: T[]; next_cursor: string | null }
    rows.push(...page.data)
    cursor = page.next_cursor === null ? '' : `&cursor=${page.next_cursor}`
  } while (cursor !== '')
  return rows
}

type Row = Charge & { period: string; name: string | null }
const spendOf = (key: string, query = '') => listOf<Row>(`/v1/spend?limit=2${query}`, key)

function sumOf(records: readonly CallRecord[]): Charge {
  const sum = { ...NO_CHARGE }
  for (const record of records)
    addCharge(sum, chargeOf(record, { prompt_picos: 0, cached_prompt_picos: 0, output_picos: 0 }))
  return sum
}

const restart = async (object: unknown): Promise<void> => {
  await evictDurableObject(object as never).catch((error: unknown) => {
    if (!String(error).includes('not currently running')) throw error
  })
}

const listed = (program: string, change: Partial<ProgramListed> = {}): ProgramListed => ({
  ...{ program, run: 'run-1', app: null, started_at_ms: 1_000, last_arrival_ms: 1_000, open_calls: 0, calls: 1 },
  ...{ service_us: 0, class: 'tenant', output_tokens: 0, source: null },
  ...change,
})

it('no tenant has the name of another one’s shard', () => {
  for (const [tenant, shard] of [
    ['acme', 0],
    ['acme', 3],
    ['["acme",3]', 0],
    ['["acme",3]', 2],
  ] as const) {
    expect(tenantOfActor(tenantActorName(tenant, shard))).toEqual({ tenant, shard })
  }
  expect(() => tenantOfActor(' ["acme",3]'.repeat(2))).toThrow()
})

describe('programs', () => {
  it('start in the shards that their tenant has, and are listed, counted and ended as one list', async () => {
    const { tenant, key } = await made(4)
    const names = Array.from({ length: 23 }, (_, i) => `p-${String(i).padStart(2, '0')}`)
    for (const id of names) expect((await request('POST', '/v1/programs', key, { id })).status).toBe(201)
    const programs = await listOf<{ id: string; run: string; started_at: string }>('/v1/programs?limit=5', key)
    expect(programs.map(({ id }) => id).toSorted()).toEqual(names)
    const starts = programs.map(({ started_at }) => started_at)
    expect(starts).toEqual(starts.toSorted().reverse())
    const shards = new Set<number>()
    for (const { program, run } of (await tenantActor(env, tenant).running({ cursor: null, limit: 100 }))?.programs ??
      []) {
      expect(runShard(run)).toBe(tenantShard(program, 4))
      shards.add(runShard(run))
    }
    expect([...shards].sort()).toEqual([0, 1, 2, 3])
    expect(await tenantActor(env, tenant).runningCount()).toBe(23)
    for (const id of names.slice(0, 20)) expect((await request('DELETE', `/v1/programs/${id}`, key)).status).toBe(200)
    await vi.waitFor(async () => expect(await tenantActor(env, tenant).runningCount()).toBe(3), WAITING)
    const left = await listOf<{ id: string }>('/v1/programs?limit=2', key)
    expect(left.map(({ id }) => id).toSorted()).toEqual(names.slice(20))
    expect((await request('GET', '/v1/programs?cursor=xyz', key)).status).toBe(400)
  }, 60_000)

  it('from different shards are listed in one order, even if they started in the same millisecond', async () => {
    const tenant = 'sharded-order'
    const all = Array.from({ length: 30 }, (_, i) => listed(`o-${i}`, { started_at_ms: Math.floor(i / 10) }))
    for (const program of all) {
      await tenantActor(env, tenant, tenantShard(program.program, 3)).programFlushed(program)
    }
    await restart(tenantActor(env, tenant))
    const seen: ProgramListed[] = []
    let cursor: string | null = null
    do {
      const page: Awaited<ReturnType<ReturnType<typeof tenantActor>['running']>> = await tenantActor(
        env,
        tenant,
      ).running({ cursor, limit: 4 })
      expect(page?.programs.length).toBeLessThanOrEqual(4)
      seen.push(...(page?.programs ?? []))
      cursor = page?.next ?? null
    } while (cursor !== null)
    const order = (one: ProgramListed, other: ProgramListed) =>
      other.started_at_ms - one.started_at_ms || (one.program < other.program ? -1 : 1)
    expect(seen).toMatchObject(all.toSorted(order))
  })

  it('are never more than the tenant may have, shares of shards that are full included', async () => {
    const tenant = 'sharded-room'
    const room = (program: string, shards: number) =>
      tenantActor(env, tenant, tenantShard(program, shards)).roomForProgram({ program, live_programs_max: 5 })
    const asked = await Promise.all(Array.from({ length: 60 }, (_, i) => room(`r-${i}`, 4)))
    expect(asked.filter(Boolean)).toHaveLength(20)
  })

  it('from every shard count for their class, which the first shard keeps', async () => {
    const tenant = 'sharded-class'
    const counted = vi.spyOn(actors.TenantActor.prototype, 'classEnded')
    for (const program of ['c-0', 'c-1', 'c-2', 'c-3', 'c-4', 'c-5']) {
      const run = await openCall(tenant, program, `call-${program}`, 4)
      await send([recordOf(program, run, `call-${program}`, { tenant, output_tokens: 40 })])
      await programActor(env, tenant, program).end(Date.now())
    }
    const elsewhere = [0, 1, 2, 3, 4, 5].filter((i) => tenantShard(`c-${i}`, 4) !== 0)
    expect(elsewhere.length).toBeGreaterThan(1)
    await vi.waitFor(() => expect(counted).toHaveBeenCalledTimes(elsewhere.length), WAITING)
  }, 60_000)

  it('going on are of all shards in what a class knows', async () => {
    const tenant = 'sharded-going-on'
    for (let i = 0; i < 6; i += 1) {
      const program = listed(`g-${i}`, { class: 'app:x', open_calls: 1, output_tokens: 2 ** i })
      await tenantActor(env, tenant, i % 3).programFlushed(program)
    }
    const bins = await tenantActor(env, tenant).goingOn('app:x')
    expect(bins.reduce((sum, [, , of]) => sum + of, 0)).toBe(63)
  })
})

describe('spend', () => {
  it('equals the sum over the records while the number of shards changes, through restarts, repeats and late records', async () => {
    const { tenant, key } = await made(1)
    const random = seededRandom(23)
    const below = (most: number) => Math.floor(random() * most)
    const records: CallRecord[] = []
    const counts = [1, 4, 4, 16, 2]
    const first = () => tenantActor(env, tenant)
    const shardOf = ({ run }: CallRecord) => tenantActor(env, tenant, runShard(run))
    for (const [round, shards] of counts.entries()) {
      for (let at = 0; at < 8; at += 1) {
        const program = `s-${below(7)}`
        const call = `${tenant}-${round}-${at}`
        const run = await openCall(tenant, program, call, shards)
        const record = recordOf(program, run, call, {
          ...{ tenant, prompt_tokens: 10 + below(5_000), output_tokens: below(900), class: `app:${below(3)}` },
        })
        records.push(record)
        if (below(4) > 0) await send([record])
        if (below(4) === 0) await send([records[below(records.length)] ?? record])
        if (below(6) === 0) await restart(first())
        if (below(6) === 0) await restart(shardOf(record))
        if (below(9) === 0) await restart(programStub(program, tenant))
        if (below(6) === 0) await spendOf(key)
        if (below(4) === 0) await programActor(env, tenant, program).end(Date.now())
      }
    }
    await send(records)
    for (let i = 0; i < 7; i += 1) await programActor(env, tenant, `s-${i}`).end(Date.now())
    await send(records)
    await vi.waitFor(async () => expect(await first().runningCount()).toBe(0), WAITING)
    expect(new Set(records.map(({ run }) => runShard(run))).size).toBeGreaterThan(4)
    expect(await spendOf(key)).toMatchObject([sumOf(records)])
    const programs = await spendOf(key, '&by=program')
    expect(programs.map(({ name }) => name)).toEqual([...new Set(records.map(({ program }) => program))].toSorted())
    for (const { period: _, name, ...sums } of programs) {
      expect(sums).toMatchObject(sumOf(records.filter(({ program }) => program === name)))
    }
    const { data } = await json<{ data: (Row & { tenant: string })[] }>(
      request('GET', '/admin/v1/spend?limit=100', env.ADMIN_KEY),
    )
    expect(data).toContainEqual(expect.objectContaining({ tenant, ...sumOf(records) }))
  }, 180_000)

  it('and usage of calls of no program are metered in the shards that their runs name, each lease once', async () => {
    const { tenant, key } = await made(3)
    const records = Array.from({ length: 18 }, (_, i) => {
      const call = `${tenant}-alone-${i}`
      return recordOf(call, inShard(call, i % 3), call, { tenant, prompt_tokens: 100 + i, model: `m-${i % 5}` })
    })
    const metered = vi.spyOn(actors.TenantActor.prototype, 'meter')
    expect(await send(records)).toHaveLength(18)
    expect(metered).toHaveBeenCalledTimes(3)
    await restart(tenantActor(env, tenant, 2))
    await send(records)
    expect(await spendOf(key)).toMatchObject([sumOf(records)])
    expect(await spendOf(key, '&by=program')).toEqual([])
    const usage = await listOf<{ model: string; calls: number; prompt_tokens: number }>('/v1/usage?limit=2', key)
    const expected = [4, 3, 2, 1, 0].map((of) => {
      const its = records.filter(({ model }) => model === `m-${of}`)
      return { model: `m-${of}`, calls: its.length, prompt_tokens: sumOf(its).prompt_tokens }
    })
    expect(usage).toMatchObject(expected)
  })

  it('waits until the first shard knows of another, so that no list leaves any out', async () => {
    const { tenant, key } = await made(2)
    const deaf = vi.spyOn(actors.TenantActor.prototype, 'hasShard').mockRejectedValue(new Error('deaf'))
    const other = tenantActor(env, tenant, 1)
    expect(await other.programFlushed(listed('unknown')).then(String, String)).toContain('deaf')
    expect(await listOf('/v1/programs?limit=5', key)).toEqual([])
    deaf.mockRestore()
    await other.programFlushed(listed('unknown'))
    expect(await listOf('/v1/programs?limit=5', key)).toMatchObject([{ id: 'unknown' }])
    await restart(tenantActor(env, tenant))
    expect(await listOf('/v1/programs?limit=5', key)).toMatchObject([{ id: 'unknown' }])
  })

  it('is of every shard after a restart, if several told the first one of themselves at once', async () => {
    const { tenant, key } = await made(4)
    const told = [3, 1, 2].map((shard) => tenantActor(env, tenant, shard).programFlushed(listed(`in-${shard}`)))
    await Promise.all(told)
    await runInDurableObject(tenantActor(env, tenant) as never, async (object) => {
      await Promise.all(
        [9, 5].map((shard) => (object as unknown as { hasShard(shard: number): unknown }).hasShard(shard)),
      )
    })
    await restart(tenantActor(env, tenant))
    const stored = await runInDurableObject(
      tenantActor(env, tenant) as never,
      (_: unknown, state: DurableObjectState) => state.storage.get(SHARDS_KEY),
    )
    expect(stored).toBe(10)
    expect(await listOf('/v1/programs?limit=5', key)).toHaveLength(3)
  })

  it('of other shards uses up a budget that comes later', async () => {
    const { tenant } = await made(3)
    const of = (shard: number, tokens: number) => {
      const day = dayOf(Date.now())
      const charge = { ...NO_CHARGE, calls: 1, prompt_tokens: tokens }
      const run = `${Date.now().toString(36)}-r${shard}-s${shard}`
      const places = [{ day, key: KEY_1, model: 'm', charge }]
      return tenantActor(env, tenant, shard).charged({ run, program: `b-${shard}`, class: 'tenant', leases: 1, places })
    }
    for (const [shard, tokens] of [
      [0, 100],
      [1, 200],
      [2, 300],
    ] as const) {
      await of(shard, tokens)
    }
    const nothing = { calls: 0, tokens: 0, service_us: 0, cost_nanos: 0 }
    const limits = { tenant: { month: { tokens: 1_000 } }, key: { day: { tokens: 5_000 } } }
    const standing = async (key: string) => {
      const answer = await tenantActor(env, tenant).shareBudget({
        ...{ holder: `reader-${key}`, seq: 1, key, limits, reserved: nothing, free: nothing, ended: [], needs: [] },
        chunk_for: null,
      })
      return answer?.standing.map(({ of: who, used }) => [who, used]).toSorted()
    }
    expect(await standing(KEY_1)).toEqual([
      ['key', 600],
      ['tenant', 600],
    ])
    expect(await standing('key-00000000000000d2')).toEqual([
      ['key', 0],
      ['tenant', 600],
    ])
    // A shard that does not answer has what it had. One that was never heard could have used up the budget.
    vi.spyOn(console, 'error').mockImplementation(() => undefined)
    vi.spyOn(actors.TenantActor.prototype, 'chargedNow').mockRejectedValue(new Error('deaf'))
    vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 11_000)
    expect(await standing('key-00000000000000d3')).toEqual([
      ['key', 0],
      ['tenant', 600],
    ])
    await restart(tenantActor(env, tenant))
    expect(await standing('key-00000000000000d4').then(String, String)).toContain('deaf')
  })

  it('is refused as a whole where one shard does not answer', async () => {
    const { tenant, key } = await made(3)
    await tenantActor(env, tenant, 2).programFlushed(listed('there'))
    vi.spyOn(console, 'error').mockImplementation(() => undefined)
    const { spend, running } = actors.TenantActor.prototype
    /** The object starts anew while it is asked. */
    const restartsFirst = async <T>(of: unknown, answer: () => Promise<T>): Promise<T> => {
      const { ctx } = of as { ctx: DurableObjectState }
      if (tenantOfActor(ctx.id.name ?? '').shard === 1) ctx.abort('restarted')
      return answer()
    }
    vi.spyOn(actors.TenantActor.prototype, 'spend').mockImplementation(function (this: unknown, ...asked) {
      return restartsFirst(this, () => spend.apply(this as never, asked))
    })
    vi.spyOn(actors.TenantActor.prototype, 'running').mockImplementation(function (this: unknown, ...asked) {
      return restartsFirst(this, () => running.apply(this as never, asked))
    })
    for (const path of ['/v1/spend', '/v1/programs']) {
      const answer = await request('GET', path, key)
      const { error } = (await answer.json()) as { error: { code: string } }
      expect([path, answer.status, error.code, answer.headers.get('retry-after')]).toEqual([
        ...[path, 503, 'actor_unavailable', '1'],
      ])
    }
  })
})

describe('the number of shards', () => {
  interface Busy {
    readonly shards: TenantShards
  }
  const shardsOf = async (tenant: string) =>
    (await json<{ shards: number }>(request('GET', `/admin/v1/tenants/${tenant}`, env.ADMIN_KEY))).shards
  const asked = (tenant: string, requests: number, from_ms: number) =>
    runInDurableObject(tenantActor(env, tenant) as never, async (object) => {
      const { shards } = object as unknown as Busy
      const every_ms = (1.01 * RATE_OVER_MS) / requests
      for (let i = 0; i <= requests; i += 1) if (shards.isAskedTooMuch(from_ms + i * every_ms)) await shards.add()
    })
  const busy = 1.1 * REQUESTS_PER_S_MAX * (RATE_OVER_MS / 1000)

  it('doubles where the first one was asked for too much for a minute, and not again at once', async () => {
    vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    const { tenant } = await made(1)
    const start_ms = Date.now()
    await asked(tenant, busy / 2, start_ms)
    expect(await shardsOf(tenant)).toBe(1)
    const times = [0, 0.5, 1.2, 2.4, 3.6, 4.8, 6]
    const seen: number[] = []
    for (const time of times) {
      await asked(tenant, busy, start_ms + 3 * RATE_OVER_MS + time * SHARDS_ADDED_EVERY_MS)
      seen.push(await shardsOf(tenant))
    }
    expect(seen).toEqual([2, 2, 4, 8, TENANT_SHARDS_MAX, TENANT_SHARDS_MAX, TENANT_SHARDS_MAX])
  }, 60_000)

  it('is set and lowered by the operator, within its bounds', async () => {
    const { tenant } = await made(2)
    const set = async (shards: unknown) =>
      (await request('PATCH', `/admin/v1/tenants/${tenant}`, env.ADMIN_KEY, { shards })).status
    for (const bad of [0, TENANT_SHARDS_MAX + 1, 1.5, '2', null]) expect([bad, await set(bad)]).toEqual([bad, 400])
    expect(await set(8)).toBe(200)
    expect(await set(1)).toBe(200)
    expect(await shardsOf(tenant)).toBe(1)
  })
})
