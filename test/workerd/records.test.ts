/** POST /agents/v1/records: who may send what, what is acknowledged, and what one broken program does to the others. */
import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { programActor } from '../../src/actors/stubs.ts'
import { RECORDS_BODY_BYTES_MAX } from '../../src/api/agents.ts'
import { type CallRecord, RECORDS_PER_BATCH_MAX } from '../../src/protocol/index.ts'
import { archivedProgram } from '../../src/store/archive.ts'
import {
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
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

async function send(unproven: readonly CallRecord[], token = TOKEN_EAST, agent = 'agent-east') {
  const records = await Promise.all(unproven.map(proven))
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

  it('takes the record of a call without a program and keeps nothing', async () => {
    const { body } = await send([recordOf('call-alone', 'call-alone', 'call-alone')])
    expect(body.acknowledged).toEqual(['lease-call-alone'])
    const tables = await runInDurableObject(programStub('call-alone'), (_, state) =>
      state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'runs'").toArray(),
    )
    expect(tables).toEqual([])
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
    expect(await archivedProgram(env.DB, 'tenant-a', 'robbed')).toMatchObject({ service_us: 55 })
  })

  it('takes none without an agent’s token', async () => {
    expect((await send([recordOf('p', 'r', 'c')], KEY_A)).status).toBe(401)
  })

  it('bounds a batch in records and in bytes', async () => {
    const many = Array.from({ length: RECORDS_PER_BATCH_MAX }, (_, i) => recordOf(`call-${i}`, 'run', `call-${i}`))
    expect((await send(many)).body.acknowledged).toHaveLength(RECORDS_PER_BATCH_MAX)
    expect((await send([...many, recordOf('call-x', 'run', 'call-x')])).status).toBe(400)
    const fat = { ...recordOf('p', 'r', 'c'), padding: 'x'.repeat(RECORDS_BODY_BYTES_MAX) }
    expect((await send([fat])).status).toBe(413)
  })

  it('says what is wrong with a record', async () => {
    const { status, body } = await send([recordOf('p', 'r', 'c', { wait_us: -1 })])
    expect(status).toBe(400)
    expect(body.error).toMatchObject({ param: 'records.0.wait_us' })
  })
})
