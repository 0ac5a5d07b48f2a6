/** POST /agents/v1/records: who may send what, what is acknowledged, and what one broken program does to the others. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { programActor } from '../../src/actors/stubs.ts'
import { RECORDS_BODY_BYTES_MAX } from '../../src/api/agents.ts'
import { ACTORS_AT_ONCE_MAX } from '../../src/api/settle-records.ts'
import { DURATION_US_MAX, type LeaseTerms } from '../../src/core/call/lease-terms.ts'
import { type CallRecord, RECORDS_PER_BATCH_MAX } from '../../src/protocol/index.ts'
import { auditPage } from '../../src/store/audit.ts'
import { flushed } from './actor-tools.ts'
import { lastEnded } from './archive-tools.ts'
import {
  admission,
  KEY_A,
  openCall,
  programStub,
  proven,
  provision,
  recordOf,
  request,
  TOKEN_EAST,
  TOKEN_WEST,
} from './fixtures.ts'

beforeAll(provision)

beforeEach(() => {
  const logs = [vi.spyOn(console, 'error'), vi.spyOn(console, 'warn')]
  for (const log of logs) log.mockImplementation(() => undefined)
  return () => {
    for (const log of logs) log.mockRestore()
  }
})

/** Of a call that belongs to no program. */
const aloneRecord = (call: string) => recordOf(call, call, call)

async function send(
  unproven: readonly CallRecord[],
  token = TOKEN_EAST,
  agent = 'agent-east',
  terms: Partial<LeaseTerms> = {},
) {
  const records = await Promise.all(unproven.map((record) => proven(record, terms)))
  const response = await request('POST', '/agents/v1/records', token, { agent, records })
  return {
    status: response.status,
    body: (await response.json()) as { acknowledged?: string[]; refused?: string[]; error?: { code: string } },
  }
}

describe('acknowledgement', () => {
  it('covers every program of a batch, each with its own records', async () => {
    const records: CallRecord[] = []
    for (let i = 0; i < 20; i++) {
      const run = await openCall(`batch-${i}`, `call-${i}`)
      records.push(recordOf(`batch-${i}`, run, `call-${i}`, { service_modelled_us: 100 + i }))
    }
    const { status, body } = await send(records)
    expect(status).toBe(200)
    expect(body.acknowledged?.toSorted()).toEqual(records.map(({ lease }) => lease).toSorted())
    expect(await programActor(env, 'tenant-a', 'batch-7').describe(Date.now())).toMatchObject({ service_us: 107 })
  })

  it('keeps two tenants’ programs of one name apart', async () => {
    const runA = await openCall('same', 'call-a', 'tenant-a')
    const runB = await openCall('same', 'call-b', 'tenant-b')
    await send([
      recordOf('same', runA, 'call-a', { service_modelled_us: 11 }),
      recordOf('same', runB, 'call-b', { service_modelled_us: 22, tenant: 'tenant-b' }),
    ])
    expect(await programActor(env, 'tenant-a', 'same').describe(Date.now())).toMatchObject({ service_us: 11 })
    expect(await programActor(env, 'tenant-b', 'same').describe(Date.now())).toMatchObject({ service_us: 22 })
  })

  it('takes the record of a call without a program and keeps no program', async () => {
    const { body } = await send([aloneRecord('call-alone')])
    expect(body.acknowledged).toEqual(['lease-call-alone'])
    const tables = await runInDurableObject(programStub('call-alone'), (_, state) =>
      state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'runs'").toArray(),
    )
    expect(tables).toEqual([])
  })

  it('settles the call whose id its program took, as the first of a conversation, in that program', async () => {
    const run = await openCall('first-call', 'first-call')
    const { body } = await send([recordOf('first-call', run, 'first-call', { service_modelled_us: 77 })])
    expect(body.acknowledged).toEqual(['lease-first-call'])
    expect(await programActor(env, 'tenant-a', 'first-call').describe(Date.now())).toMatchObject({ service_us: 77 })
  })

  it('leaves out the program whose actor fails, and takes the others', async () => {
    const whole = await openCall('whole', 'call-whole')
    const broken = await openCall('broken', 'call-broken')
    await runInDurableObject(programStub('broken'), (instance) => {
      const now = async () => {
        throw new Error('storage is down')
      }
      Object.defineProperty(Reflect.get(instance, 'flush'), 'now', { value: now, configurable: true })
    })
    const records = [recordOf('whole', whole, 'call-whole'), recordOf('broken', broken, 'call-broken')]
    expect((await send(records)).body.acknowledged).toEqual(['lease-call-whole'])
    await runInDurableObject(programStub('broken'), (instance) => {
      Reflect.deleteProperty(Reflect.get(instance, 'flush'), 'now')
    })
    expect((await send(records)).body.acknowledged?.toSorted()).toEqual(['lease-call-broken', 'lease-call-whole'])
    expect(await programActor(env, 'tenant-a', 'broken').describe(Date.now())).toMatchObject({ service_us: 1_000 })
  })
})

describe('programs that hang', () => {
  it('more than are settled at a time: the others are acknowledged, and they are when they go on', async () => {
    const names = Array.from({ length: ACTORS_AT_ONCE_MAX + 1 }, (_, i) => `hanging-${i}`)
    const runs = await Promise.all(names.map((name) => openCall(name, `call-${name}`)))
    const hanging = names.map((name, i) => recordOf(name, runs[i] as string, `call-${name}`))
    const { promise, resolve } = Promise.withResolvers<void>()
    for (const name of names) {
      await runInDurableObject(programStub(name), (instance) => {
        const flush: unknown = Reflect.get(instance, 'flush')
        const now = Reflect.get(flush as object, 'now') as () => Promise<void>
        Object.defineProperty(flush, 'now', { value: () => promise.then(() => now.call(flush)), configurable: true })
      })
    }
    const run = await openCall('lively', 'call-lively')
    const sent = await send([...hanging, recordOf('lively', run, 'call-lively')])
    expect(sent).toMatchObject({ status: 200, body: { acknowledged: ['lease-call-lively'], refused: [] } })
    resolve()
    expect((await send(hanging)).body.acknowledged).toHaveLength(hanging.length)
    for (const name of names) {
      expect(await programActor(env, 'tenant-a', name).describe(Date.now())).toMatchObject({ service_us: 1_000 })
    }
  })
})

describe('records that cannot be true', () => {
  const absurd = {
    ...{ service_wall_us: 2 ** 53 - 1, service_modelled_us: 2 ** 53 - 1, wait_us: 2 ** 53 - 1 },
    ...{ prompt_tokens: 2 ** 53 - 1, cached_tokens: 2 ** 53 - 1, output_tokens: 2 ** 53 - 1 },
    ...{ preemptions: 2 ** 53 - 1, swapped_out_tokens: 2 ** 53 - 1, swapped_in_tokens: 2 ** 53 - 1 },
    ...{ recomputed_tokens: 2 ** 53 - 1, swap_us: 2 ** 53 - 1 },
    ...{ first_token_us: 2 ** 53 - 1, duration_us: 2 ** 53 - 1 },
  }

  it('are lowered, and their program goes on: it loads, takes calls and ends', async () => {
    const run = await openCall('absurd', 'call-0')
    for (const call of ['call-1', 'call-2']) await openCall('absurd', call)
    const records = ['call-0', 'call-1', 'call-2'].map((call) => recordOf('absurd', run, call, absurd))
    expect((await send(records)).body.acknowledged).toHaveLength(3)
    await evictDurableObject(programStub('absurd'))
    const read = await request('GET', '/v1/programs/absurd', KEY_A)
    expect(read.status).toBe(200)
    await openCall('absurd', 'call-3')
    await flushed('absurd')
    await evictDurableObject(programStub('absurd'))
    const summary = await programActor(env, 'tenant-a', 'absurd').describe(Date.now())
    expect(summary).toMatchObject({ calls: 4, output_tokens: 3 * 8192 })
    expect(summary?.service_wall_us).toBeLessThanOrEqual(3 * DURATION_US_MAX)
    expect((await request('DELETE', '/v1/programs/absurd', KEY_A)).status).toBe(200)
  })

  it('are lowered to the time that has passed, and their agent stands in the audit, once an hour', async () => {
    const run = await openCall('inflated', 'call-inflated')
    const lie = recordOf('inflated', run, 'call-inflated', { service_wall_us: 7_200_000_000, output_tokens: 500 })
    const terms = { granted_at_ms: Date.now() - 60_000, output_tokens_max: 33 }
    for (let turn = 0; turn < 2; turn += 1) await send([lie], TOKEN_EAST, 'agent-east', terms)
    const summary = await programActor(env, 'tenant-a', 'inflated').describe(Date.now())
    expect(summary?.output_tokens).toBe(33)
    expect(summary?.service_wall_us).toBeGreaterThanOrEqual(60_000_000)
    expect(summary?.service_wall_us).toBeLessThan(7_200_000_000)
    const flags = async () =>
      (await auditPage(env.DB, { object: 'agent:agent-east', after: null }, 50)).filter(
        ({ action }) => action === 'agent.record_lowered',
      )
    await expect.poll(async () => (await flags()).length).toBeGreaterThan(0)
    const lowered = await flags()
    // Two where the hour has just passed.
    expect(lowered.length).toBeLessThanOrEqual(2)
    expect(lowered[0]).toMatchObject({ actor: 'control-plane', before: null })
    expect(lowered[0]?.after).toHaveProperty('fields')
  })
})

it('counts a lease at the speed factor of its proof if the message that opened it was lost', async () => {
  const reply = await programActor(env, 'tenant-a', 'unopened').admit(admission('unopened', 'call-unopened'))
  if (reply.status !== 'admitted') throw new Error(reply.message)
  const record = recordOf('unopened', reply.run, 'call-unopened')
  await send([record], TOKEN_EAST, 'agent-east', { speed_factor: 2.5 })
  expect(await programActor(env, 'tenant-a', 'unopened').describe(Date.now())).toMatchObject({ service_us: 2_500 })
})

describe('refusals', () => {
  it('takes no records of another agent', async () => {
    const record = recordOf('foreign', 'run', 'call')
    expect(await send([record], TOKEN_WEST)).toMatchObject({ status: 403, body: { error: { code: 'wrong_agent' } } })
    expect(await send([record], TOKEN_WEST, 'agent-west')).toMatchObject({ status: 403 })
  })

  it('takes no record of a lease that another agent was given, running or archived', async () => {
    const run = await openCall('robbed', 'call-robbed')
    const own = recordOf('robbed', run, 'call-robbed', { service_modelled_us: 55 })
    const forged = { ...own, agent: 'agent-west', service_modelled_us: 0 }
    const honest = recordOf('call-honest', 'call-honest', 'call-honest', { agent: 'agent-west' })
    const rob = () => send([forged, honest], TOKEN_WEST, 'agent-west')
    expect((await rob()).body.acknowledged).toEqual(['lease-call-honest'])
    expect((await send([own])).body.acknowledged).toEqual(['lease-call-robbed'])
    expect((await rob()).body.acknowledged).toEqual(['lease-call-honest'])
    const actor = programActor(env, 'tenant-a', 'robbed')
    expect(await actor.describe(Date.now())).toMatchObject({ service_us: 55 })
    await actor.end(Date.now())
    expect((await rob()).body.acknowledged).toEqual(['lease-call-honest'])
    expect(await lastEnded('tenant-a', 'robbed')).toMatchObject({ service_us: 55 })
  })

  it('takes none without an agent’s token', async () => {
    expect((await send([recordOf('p', 'r', 'c')], KEY_A)).status).toBe(401)
  })

  it('bounds a batch in records and in bytes', async () => {
    const many = Array.from({ length: RECORDS_PER_BATCH_MAX }, (_, i) => aloneRecord(`call-${i}`))
    expect((await send(many)).body.acknowledged).toHaveLength(RECORDS_PER_BATCH_MAX)
    expect((await send([...many, aloneRecord('call-x')])).status).toBe(400)
    const fat = { ...recordOf('p', 'r', 'c'), padding: 'x'.repeat(RECORDS_BODY_BYTES_MAX) }
    expect((await send([fat])).status).toBe(413)
  })

  it('says what is wrong with a record', async () => {
    const { status, body } = await send([recordOf('p', 'r', 'c', { wait_us: -1 })])
    expect(status).toBe(400)
    expect(body.error).toMatchObject({ param: 'records.0.wait_us' })
  })
})
