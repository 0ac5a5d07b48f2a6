/** Spend equals what the stored records add up to, to the last unit, however often, late and in what order they come. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { CLASSES_PER_DAY_MAX } from '../../src/actors/spend-meter.ts'
import { programActor, tenantActor } from '../../src/actors/stubs.ts'
import { tokenPrices } from '../../src/core/budget/call-cap.ts'
import { addCharge, type Charge, chargeOf, dayOf, NO_CHARGE } from '../../src/core/budget/charge.ts'
import { PRICE_LEAD_MS } from '../../src/core/budget/price-history.ts'
import type { LeaseTerms } from '../../src/core/call/lease-terms.ts'
import { seededRandom } from '../../src/core/seeded-random.ts'
import type { CallRecord } from '../../src/protocol/index.ts'
import * as actors from '../../src/worker.ts'
import {
  admission,
  KEY_A,
  KEY_B,
  leaseOf,
  MODEL,
  openCall,
  programStub,
  proven,
  provision,
  recordOf,
  request,
  TOKEN_EAST,
} from './fixtures.ts'

const WAITING = { timeout: 40_000, interval: 500 }
const KEY_1 = 'key-00000000000000b1'
const KEY_2 = 'key-00000000000000b2'
const PRICES = { prompt_price: 0.15, cached_prompt_price: 0.07, output_price: 0.61 }

beforeAll(async () => {
  await provision()
  expect((await request('PATCH', `/admin/v1/models/${MODEL}`, env.ADMIN_KEY, PRICES)).status).toBe(200)
})
beforeEach(async () => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  for (const tenant of ['tenant-a', 'tenant-b']) await clear(tenant)
  return () => log.mockRestore()
})

async function clear(tenant: string): Promise<void> {
  await runInDurableObject(tenantActor(env, tenant) as never, async (_: unknown, state: DurableObjectState) => {
    const stored = state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'spend'").toArray()
    if (stored.length > 0)
      for (const table of ['spend', 'program_spend']) state.storage.sql.exec(`DELETE FROM ${table}`)
  })
}

let next = 0
const alone = (change: Partial<CallRecord> = {}): CallRecord => {
  const call = `spent-${next++}`
  return recordOf(call, call, call, change)
}

async function send(records: readonly CallRecord[], terms: Partial<LeaseTerms> = {}): Promise<string[]> {
  const granted_at_ms = Date.now()
  const signed = await Promise.all(records.map((record) => proven(record, { granted_at_ms, key: KEY_1, ...terms })))
  const response = await request('POST', '/agents/v1/records', TOKEN_EAST, { agent: 'agent-east', records: signed })
  return ((await response.json()) as { acknowledged: string[] }).acknowledged
}

type Row = Charge & { period: string; name: string | null }

async function spendOf(query = '', key = KEY_A): Promise<Row[]> {
  const rows: Row[] = []
  let cursor = ''
  do {
    const response = await request('GET', `/v1/spend?limit=7${query}${cursor}`, key)
    expect(response.status).toBe(200)
    const page = (await response.json()) as { data: (Row & { object: string })[]; next_cursor: string | null }
    rows.push(...page.data.map(({ object: _, ...row }) => row))
    cursor = page.next_cursor === null ? '' : `&cursor=${page.next_cursor}`
  } while (cursor !== '')
  return rows
}

const prices = tokenPrices(PRICES)
function sumOf(records: readonly CallRecord[]): Charge {
  const sum = { ...NO_CHARGE }
  for (const record of records) addCharge(sum, chargeOf(record, prices))
  return sum
}

describe('spend', () => {
  it('is what calls were charged, told apart by key, class, model and program, and of each tenant alone', async () => {
    const one = alone({ class: 'app:x', cached_tokens: 3 })
    const two = recordOf('told-apart', await openCall('told-apart', 'told-1'), 'told-1', { class: 'app:y' })
    await send([one])
    await send([two], { key: KEY_2 })
    await send([alone({ tenant: 'tenant-b', output_tokens: 900 })])
    const period = dayOf(Date.now())
    const named = (name: string | null, record: CallRecord) => ({ period, name, ...sumOf([record]) })
    expect(await spendOf()).toEqual([{ period, name: null, ...sumOf([one, two]) }])
    expect(await spendOf('&by=key')).toEqual([named(KEY_1, one), named(KEY_2, two)])
    expect(await spendOf('&by=class')).toEqual([named('app:x', one), named('app:y', two)])
    expect(await spendOf('&by=program')).toEqual([named('told-apart', two)])
    expect(await spendOf('&by=program&name=another')).toEqual([])
    expect(await spendOf('&by=model&per=month')).toEqual([
      { period: period.slice(0, 7), name: MODEL, ...sumOf([one, two]) },
    ])
    expect((await spendOf('', KEY_B))[0]?.output_tokens).toBe(900)
    expect(await spendOf('&from=2020-01-01&to=2020-12-31')).toEqual([])
  })

  it('is of the engine that served last, and of none that failed', async () => {
    const granted_at_ms = Date.now()
    const first = alone({ outcome: 'cancelled', output_tokens: 50 })
    const second = { ...first, lease: `${first.lease}-2`, outcome: 'completed' as const, output_tokens: 8 }
    await send([second], { granted_at_ms: granted_at_ms + 1_000 })
    await send([first], { granted_at_ms })
    const moved = alone({ outcome: 'cancelled' })
    const failed = { ...moved, lease: `${moved.lease}-2`, outcome: 'failed' as const, error_code: 'engine_failed' }
    await send([moved], { granted_at_ms })
    await send([failed], { granted_at_ms: granted_at_ms + 1_000 })
    const [total] = await spendOf()
    expect(total).toMatchObject(sumOf([second]))
  })

  it('equals the sum over the records after repeats, restarts and late records, to the last unit', async () => {
    const random = seededRandom(7)
    const below = (most: number) => Math.floor(random() * most)
    const records: CallRecord[] = []
    const runs = new Map<string, string>()
    for (let at = 0; at < 60; at += 1) {
      const measured = {
        ...{ prompt_tokens: 10 + below(5_000), cached_tokens: below(10), output_tokens: below(900) },
        ...{ service_modelled_us: below(100_000), class: `app:${below(3)}` },
        outcome: (['completed', 'completed', 'cancelled', 'failed'] as const)[below(4)] ?? 'completed',
      }
      if (below(2) === 0) records.push(alone(measured))
      else {
        const program = `spender-${below(4)}`
        const call = `spender-call-${at}`
        const run = await openCall(program, call)
        runs.set(program, run)
        records.push(recordOf(program, run, call, measured))
      }
    }
    const ended = 'spender-0'
    const late = records.filter(({ program }) => program === ended)
    for (const record of records.filter((one) => !late.includes(one))) {
      await send([record])
      if (below(4) === 0) await send(records.slice(0, records.indexOf(record) + 1).filter((one) => !late.includes(one)))
      if (below(10) === 0) await evictDurableObject(tenantActor(env, 'tenant-a') as never)
    }
    await request('DELETE', `/v1/programs/${ended}`, KEY_A)
    await evictDurableObject(programActor(env, 'tenant-a', ended) as never)
    await send(late)
    await send(records)
    const [total, ...others] = await spendOf()
    expect(others).toEqual([])
    expect(total).toMatchObject(sumOf(records))
    const classes = await spendOf('&by=class')
    for (const { period: _, name, ...sums } of classes) {
      expect(sums).toEqual(sumOf(records.filter((record) => record.class === name)))
    }
    const programs = await spendOf('&by=program')
    expect(programs).toHaveLength(4)
    for (const { period: _, name, ...sums } of programs) {
      expect(sums).toEqual(sumOf(records.filter(({ program }) => program === name)))
    }
  })

  it('charges calls placed before the first price of a model by it, as where a clock was set back', async () => {
    const early = alone({ prompt_tokens: 1_000, cached_tokens: 0, output_tokens: 0 })
    await send([early], { granted_at_ms: Date.now() - 60 * 60_000 })
    const [{ cost_nanos } = { cost_nanos: 0 }] = await spendOf('&per=month')
    expect(cost_nanos).toBe(150_000)
  })

  it('goes by the prices of the time at which a call was placed, however late its record comes', async () => {
    const placed_ms = Date.now()
    const early = alone({ prompt_tokens: 1_000, cached_tokens: 0, output_tokens: 0 })
    const change = { prompt_price: 3 }
    expect((await request('PATCH', `/admin/v1/models/${MODEL}`, env.ADMIN_KEY, change)).status).toBe(200)
    // Reads the catalogue again.
    const key = { name: 'fresh', models: [MODEL] }
    expect((await request('POST', '/admin/v1/tenants/tenant-b/keys', env.ADMIN_KEY, key)).status).toBe(201)
    const later = alone({ prompt_tokens: 1_000, cached_tokens: 0, output_tokens: 0 })
    await send([later], { granted_at_ms: Date.now() + PRICE_LEAD_MS + 1 })
    await send([early], { granted_at_ms: placed_ms })
    await request('PATCH', `/admin/v1/models/${MODEL}`, env.ADMIN_KEY, PRICES)
    const [{ cost_nanos } = { cost_nanos: 0 }] = await spendOf('&per=month')
    expect(cost_nanos).toBe(150_000 + 3_000_000)
  })

  it('tells so many classes apart in a day, and the others as one', async () => {
    const day = dayOf(Date.now())
    await send([alone()])
    // Its sum is written, and gone.
    await spendOf()
    await clear('tenant-a')
    await runInDurableObject(tenantActor(env, 'tenant-a') as never, (_: unknown, state: DurableObjectState) => {
      for (let at = 0; at < CLASSES_PER_DAY_MAX; at += 1) {
        state.storage.sql.exec("INSERT INTO spend VALUES (?, 'k', ?, 'm', 0, 0, 0, 0, 0, 0)", day, `c-${at}`)
      }
    })
    await evictDurableObject(tenantActor(env, 'tenant-a') as never)
    const [known, other] = [alone({ class: 'c-5' }), alone({ class: 'unheard' })]
    await send([known, other])
    const spent = (await spendOf('&by=class')).filter(({ calls }) => calls > 0)
    expect(spent.map(({ name }) => name)).toEqual([null, 'c-5'])
  })

  it('is shown to the operator of each tenant and of all, and is in the metrics', async () => {
    const record = alone()
    await send([record])
    const of = async (path: string) => (await request('GET', path, env.ADMIN_KEY)).json() as Promise<{ data: Row[] }>
    expect((await of('/admin/v1/tenants/tenant-a/spend')).data).toMatchObject([sumOf([record])])
    expect((await of('/admin/v1/spend')).data).toContainEqual(
      expect.objectContaining({ tenant: 'tenant-a', ...sumOf([record]) }),
    )
    const metrics = await (await request('GET', '/metrics', env.ADMIN_KEY)).text()
    expect(metrics).toContain(`switchyard_tenant_spend{tenant="tenant-a",kind="output_tokens"} ${record.output_tokens}`)
    expect((await request('GET', '/admin/v1/tenants/nobody/spend', env.ADMIN_KEY)).status).toBe(404)
    for (const query of ['cursor=xyz', 'from=2026-02-02&to=2026-01-01', 'name=x', 'per=year']) {
      expect([query, (await request('GET', `/v1/spend?${query}`, KEY_A)).status]).toEqual([query, 400])
    }
  })
})

describe('spend that programs tell', () => {
  /** Opens a call as the Worker does where no budget waits for its charge. */
  async function gatheredCall(program: string, call: string): Promise<string> {
    const actor = programActor(env, 'tenant-a', program)
    const reply = await actor.admit({ ...admission(program, call), gathers: true })
    if (reply.status !== 'admitted') throw new Error(reply.message)
    await actor.leaseOpened(leaseOf(reply.run, call))
    return reply.run
  }
  const told = (program: string) =>
    runInDurableObject(programStub(program), (instance) => (instance as unknown as Told).flush.now())
  interface Told {
    flush: { now(): Promise<void> }
  }

  /** What it has in memory is gone. */
  const restart = async (object: unknown): Promise<void> => {
    await evictDurableObject(object as never).catch((error: unknown) => {
      if (!String(error).includes('not currently running')) throw error
    })
  }
  // Knows no class of the tests before.
  beforeEach(() => restart(tenantActor(env, 'tenant-a')))

  const end = async (program: string) =>
    expect((await request('DELETE', `/v1/programs/${program}`, KEY_A)).status).toBe(200)
  const metered = () => vi.spyOn(tenantPrototype(), 'meter')
  function tenantPrototype(): { meter(records: unknown): Promise<void> } {
    return actors.TenantActor.prototype as never
  }

  it('is no request of a record, and whole when the program has ended', async () => {
    const spy = metered()
    const run = await gatheredCall('gathered', 'g-1')
    await gatheredCall('gathered', 'g-2')
    const records = [
      recordOf('gathered', run, 'g-1', { output_tokens: 70 }),
      recordOf('gathered', run, 'g-2', { output_tokens: 9, cached_tokens: 1 }),
    ]
    expect(await send(records)).toHaveLength(2)
    expect(await send(records)).toHaveLength(2)
    await end('gathered')
    expect(spy).not.toHaveBeenCalled()
    spy.mockRestore()
    const name = 'gathered'
    expect(await spendOf('&by=program')).toMatchObject([{ name, ...sumOf(records) }])
    expect(await spendOf('&by=key')).toMatchObject([{ name: KEY_1, ...sumOf(records) }])
    expect(await spendOf('&by=class')).toMatchObject([{ name: 'tenant', ...sumOf(records) }])
  })

  it('is told while the program runs, and survives the restart of either', async () => {
    const run = await gatheredCall('goes-on', 'on-1')
    const one = recordOf('goes-on', run, 'on-1')
    await send([one])
    // Its alarm tells the tenant.
    await vi.waitFor(async () => {
      await runDurableObjectAlarm(programStub('goes-on'))
      expect((await spendOf())[0]).toMatchObject(sumOf([one]))
    }, WAITING)
    await restart(tenantActor(env, 'tenant-a'))
    await restart(programStub('goes-on'))
    await gatheredCall('goes-on', 'on-2')
    const two = recordOf('goes-on', run, 'on-2', { prompt_tokens: 400 })
    await send([two])
    await told('goes-on')
    await restart(tenantActor(env, 'tenant-a'))
    await end('goes-on')
    expect(await spendOf()).toMatchObject([sumOf([one, two])])
    expect(await spendOf('&by=program')).toMatchObject([{ name: 'goes-on', ...sumOf([one, two]) }])
  }, 60_000)

  it('is told by a program that restarts before it has told it', async () => {
    const run = await gatheredCall('restarted', 'rs-1')
    // It has told that it runs, so what follows waits.
    await vi.waitFor(async () => {
      const running = await tenantActor(env, 'tenant-a').running({ cursor: null, limit: 100 })
      expect(running?.programs).toContainEqual(expect.objectContaining({ program: 'restarted' }))
    }, WAITING)
    const record = recordOf('restarted', run, 'rs-1')
    await send([record])
    expect(await spendOf()).toEqual([])
    await restart(programStub('restarted'))
    expect((await request('GET', '/v1/programs/restarted', KEY_A)).status).toBe(200)
    await vi.waitFor(async () => expect(await spendOf()).toMatchObject([sumOf([record])]), WAITING)
  }, 60_000)

  it('counts a record that comes after the archive, and a repeat of it nothing', async () => {
    const run = await gatheredCall('archived-late', 'al-1')
    await gatheredCall('archived-late', 'al-2')
    const [one, two] = ['al-1', 'al-2'].map((call) => recordOf('archived-late', run, call)) as [CallRecord, CallRecord]
    await send([one])
    await end('archived-late')
    expect(await spendOf()).toMatchObject([sumOf([one])])
    const spy = metered()
    for (let times = 0; times < 3; times += 1) {
      expect(await send([two])).toEqual([two.lease])
      if (times === 1) await restart(tenantActor(env, 'tenant-a'))
    }
    expect(spy).not.toHaveBeenCalled()
    spy.mockRestore()
    expect(await spendOf()).toMatchObject([sumOf([one, two])])
  })

  it('is acknowledged only when the tenant has heard of what comes after the archive', async () => {
    const run = await gatheredCall('unheard', 'uh-1')
    await end('unheard')
    const record = recordOf('unheard', run, 'uh-1')
    const deaf = vi.spyOn(tenantPrototype() as unknown as TenantTold, 'charged').mockRejectedValue(new Error('deaf'))
    expect(await send([record])).toEqual([])
    deaf.mockRestore()
    expect(await spendOf()).toEqual([])
    expect(await send([record])).toEqual([record.lease])
    expect(await spendOf()).toMatchObject([sumOf([record])])
  })
  interface TenantTold {
    charged(spend: unknown): Promise<void>
  }

  it('is of the engine that served last, in any order of the records', async () => {
    const granted_at_ms = Date.now()
    const run = await gatheredCall('replaced', 'rp-1')
    const first = recordOf('replaced', run, 'rp-1', { outcome: 'cancelled', output_tokens: 50 })
    const second = { ...first, lease: 'lease-rp-1-2', outcome: 'completed' as const, output_tokens: 8 }
    await send([second], { granted_at_ms: granted_at_ms + 1_000 })
    await told('replaced')
    expect(await send([first], { granted_at_ms })).toEqual([first.lease])
    await end('replaced')
    expect(await spendOf()).toMatchObject([sumOf([second])])
  })

  it('meters alone a record that comes when the tenant may have forgotten its day', async () => {
    const spy = metered()
    const run = await gatheredCall('ancient', 'an-1')
    const record = recordOf('ancient', run, 'an-1')
    for (let times = 0; times < 2; times += 1) {
      await send([record], { granted_at_ms: Date.now() - 7 * 24 * 60 * 60_000 })
    }
    await end('ancient')
    expect(spy).toHaveBeenCalledTimes(2)
    spy.mockRestore()
    expect(await spendOf('&from=2020-01-01')).toMatchObject([sumOf([record])])
  })

  it('equals the sum over the records, mixed with those that are metered, through restarts and messages that are lost', async () => {
    const random = seededRandom(11)
    const below = (most: number) => Math.floor(random() * most)
    const records: CallRecord[] = []
    const terms = new Map<string, Partial<LeaseTerms>>()
    const now_ms = Date.now()
    for (let at = 0; at < 50; at += 1) {
      const program = `mixed-${below(4)}`
      const call = `mixed-call-${at}`
      const run = await (below(4) === 0 ? openCall(program, call) : gatheredCall(program, call))
      const measured = {
        prompt_tokens: 10 + below(5_000),
        output_tokens: below(900),
        service_modelled_us: below(9_000),
      }
      const outcome = (['completed', 'cancelled', 'failed'] as const)[below(3)] ?? 'completed'
      const record = recordOf(program, run, call, { ...measured, outcome })
      records.push(record)
      terms.set(record.lease, { key: below(2) === 0 ? KEY_1 : KEY_2, granted_at_ms: now_ms - below(2) * 1_000 })
    }
    const sendOne = (record: CallRecord) => send([record], terms.get(record.lease))
    const late = records.filter((_, at) => at % 5 === 0)
    const programs = ['mixed-0', 'mixed-1', 'mixed-2', 'mixed-3']
    for (const record of records.filter((one) => !late.includes(one))) {
      await sendOne(record)
      if (below(3) === 0) await sendOne(records[below(records.length)] ?? record)
      if (below(6) === 0) await told(record.program)
      if (below(8) === 0) await restart(tenantActor(env, 'tenant-a'))
      if (below(8) === 0) await restart(programStub(record.program))
      if (below(8) === 0) await spendOf()
    }
    for (const program of programs.slice(0, 2)) await end(program)
    for (const record of [...late, ...records]) await sendOne(record)
    for (const program of programs.slice(2)) await end(program)
    for (const [by, name] of [
      ['program', (record: CallRecord) => record.program],
      ['key', ({ lease }: CallRecord) => terms.get(lease)?.key],
    ] as const) {
      for (const { period: _, name: row, ...sums } of await spendOf(`&by=${by}`)) {
        expect(sums).toEqual(sumOf(records.filter((record) => name(record) === row)))
      }
    }
    expect(await spendOf()).toMatchObject([sumOf(records)])
  }, 120_000)
})
