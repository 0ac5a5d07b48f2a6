/** What is kept about a class and for how long, and how many classes a tenant has. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { CLASS_FLUSH_MS, ROW_INTERVAL_MS } from '../../src/actors/class.ts'
import type { ClassRpc } from '../../src/actors/contracts.ts'
import { classActor, tenantActor } from '../../src/actors/stubs.ts'
import { CLASSES_PER_TENANT_MAX, TENANT_CLASS } from '../../src/core/classes/tenant-classes.ts'
import { knownClass } from '../../src/store/classes.ts'
import { replaceBindings } from './actor-tools.ts'
import { classStub, endsOf, FACTS, later, quietWithTrueClock, refused, storedEnds, TENANT } from './class-tools.ts'
import { provision } from './fixtures.ts'

beforeAll(provision)
beforeEach(quietWithTrueClock)

const DAY_MS = 24 * 60 * 60_000
const d1Down = {
  prepare: () => {
    throw new Error('D1 is down')
  },
}

describe('a class', () => {
  const tell = (name: string, run: string) => classActor(env, TENANT, name).ended({ run, program: FACTS })

  it('writes nothing while it is told, then one value for all of it', async () => {
    for (let run = 0; run < 5; run++) await tell('busy', `run-${run}`)
    expect(await storedEnds('busy')).toBeNull()
    await expect.poll(() => storedEnds('busy'), { interval: CLASS_FLUSH_MS / 4 }).toBe(5)
    await evictDurableObject(classStub('busy'))
    await tell('busy', 'run-4')
    expect(await endsOf('busy')).toBe(5)
  })

  it('has a row in D1, written at most once a minute, and starts from it without its storage', async () => {
    await tell('rowed', 'run-0')
    await expect.poll(() => storedEnds('rowed')).toBe(1)
    await runDurableObjectAlarm(classStub('rowed'))
    const row = () => knownClass(env.DB, TENANT, 'rowed')
    expect(await row()).toMatchObject({ tenant: TENANT, class: 'rowed', ends: 1, sketch: { ends: 1 } })
    await tell('rowed', 'run-1')
    await expect.poll(() => storedEnds('rowed')).toBe(2)
    const due_ms = await runInDurableObject(classStub('rowed'), (_, { storage }) => storage.getAlarm())
    expect(due_ms).toBe(((await row())?.updated_at_ms ?? 0) + ROW_INTERVAL_MS)
    await runDurableObjectAlarm(classStub('rowed'))
    expect(await row()).toMatchObject({ ends: 2 })

    await runInDurableObject(classStub('rowed'), async (_, { storage }) => storage.deleteAll())
    await evictDurableObject(classStub('rowed'))
    await tell('rowed', 'run-2')
    expect(await endsOf('rowed')).toBe(3)
  })

  it('does not count while its storage is lost and D1 does not say what it knew', async () => {
    await replaceBindings(classStub('unsure'), { DB: d1Down })
    await runInDurableObject(classStub('unsure'), async (instance) => {
      const told = (instance as unknown as ClassRpc).ended({ run: 'run-0', program: FACTS })
      await expect(told).rejects.toThrow('D1 is down')
    })
    await evictDurableObject(classStub('unsure'))
    await tell('unsure', 'run-0')
    expect(await endsOf('unsure')).toBe(1)
  })

  it('keeps its row for later while D1 refuses it', async () => {
    await tell('refused', 'run-0')
    await replaceBindings(classStub('refused'), { DB: d1Down })
    await expect.poll(() => storedEnds('refused')).toBe(1)
    await runDurableObjectAlarm(classStub('refused'))
    expect(await knownClass(env.DB, TENANT, 'refused')).toBeNull()
    await evictDurableObject(classStub('refused'))
    await runDurableObjectAlarm(classStub('refused'))
    expect(await knownClass(env.DB, TENANT, 'refused')).toMatchObject({ ends: 1 })
  })

  it('without an end for as long as programs are kept is forgotten, in D1 too', async () => {
    await tell('past', 'run-0')
    await expect.poll(() => storedEnds('past')).toBe(1)
    await runDurableObjectAlarm(classStub('past'))
    later(Number(env.ARCHIVE_RETENTION_DAYS) * DAY_MS - 60_000)
    await runDurableObjectAlarm(classStub('past'))
    expect(await endsOf('past')).toBe(1)
    later(120_000)
    await runDurableObjectAlarm(classStub('past'))
    expect(await endsOf('past')).toBe(0)
    expect(await knownClass(env.DB, TENANT, 'past')).toBeNull()
    expect(await runInDurableObject(classStub('past'), async (_, { storage }) => (await storage.list()).size)).toBe(0)
  })

  it('tells of programs that go on, and nothing to one that knows it all', async () => {
    const tenant = tenantActor(env, TENANT)
    const running = { app: null, source: null, started_at_ms: 1, last_arrival_ms: 1, calls: 2, service_us: 1 }
    const told = (program: string, output_tokens: number, open_calls: number, of_class = 'known') =>
      tenant.programFlushed({ ...running, program, run: `of-${program}`, class: of_class, output_tokens, open_calls })
    const actor = classActor(env, TENANT, 'known')
    expect(await actor.sketch(null)).toBeNull()
    await told('going-on', 300, 1)
    await Promise.all([told('between', 400, 0), told('fresh', 0, 1), told('other', 500, 1, 'other')])
    const first = await actor.sketch(null)
    expect(first?.sketch).toMatchObject({ ends: 0, going_on: [[expect.any(Number), 1, 300]] })
    await tell('known', 'run-0')
    const second = await actor.sketch(first?.revision ?? '')
    expect(second?.sketch).toMatchObject({ ends: 1, going_on: first?.sketch.going_on })
    expect(await actor.sketch(second?.revision ?? '')).toBeNull()
    await tenant.programEnded('going-on', 'of-going-on')
    expect((await actor.sketch(second?.revision ?? ''))?.sketch).toMatchObject({ ends: 1, going_on: [] })
    await replaceBindings(classStub('known'), { TENANT: { getByName: () => ({ goingOn: refused }) } })
    expect((await actor.sketch(null))?.sketch).toMatchObject({ ends: 1, going_on: [] })
  })
})

describe('a tenant whose client invents classes', () => {
  it('has a bounded number of them, and one that lost its place is forgotten', async () => {
    const tenant = tenantActor(env, 'inventive')
    const ended = (name: string) => tenant.programEnded('program', 'run', name)
    await classActor(env, 'inventive', 'invented-0').ended({ run: 'run', program: FACTS })
    await expect.poll(() => storedEnds('invented-0', 'inventive')).toBe(1)
    for (let at = 0; at < CLASSES_PER_TENANT_MAX; at++) expect(await ended(`invented-${at}`)).toBe(`invented-${at}`)
    for (let at = 0; at < 50; at++) expect(await ended(`more-${at}`)).toBe(TENANT_CLASS)
    expect(await tenant.programEnded('program', 'run')).toBeNull()
    expect(await ended('used')).toBe(TENANT_CLASS)
    expect(await ended('used')).toBe('used')
    await expect.poll(() => storedEnds('invented-0', 'inventive')).toBeNull()
  })

  it('keeps them when its actor is evicted', async () => {
    const tenant = tenantActor(env, 'evicted')
    for (let at = 0; at < CLASSES_PER_TENANT_MAX; at++) await tenant.programEnded('program', 'run', `c${at}`)
    const stub = env.TENANT.getByName('evicted')
    const stored = () => runInDurableObject(stub, async (_, { storage }) => storage.get<unknown[]>('classes'))
    await expect.poll(stored).toHaveLength(CLASSES_PER_TENANT_MAX)
    await evictDurableObject(stub)
    expect(await tenant.programEnded('program', 'run', 'other')).toBe(TENANT_CLASS)
    expect(await tenant.programEnded('program', 'run', 'c0')).toBe('c0')
  })
})
