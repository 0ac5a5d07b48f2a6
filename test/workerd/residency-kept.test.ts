/** A program that its first call holds to regions stays held, even if its actor or D1 loses state right after. */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { HELD_AFTER_STALE_MS } from '../../src/actors/program-residency.ts'
import { programActor } from '../../src/actors/stubs.ts'
import { HOLD_REMEMBERED_MS } from '../../src/core/program/program-state.ts'
import { residencyOf } from '../../src/store/residency.ts'
import { breakD1, replaceD1, storedTables } from './actor-tools.ts'
import { lastEnded } from './archive-tools.ts'
import { admission, programStub, provision, recordOf } from './fixtures.ts'

const TENANT = 'tenant-a'
const EAST = ['us-east']

beforeAll(provision)

beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

const actor = (program: string) => programActor(env, TENANT, program)
const inD1 = async (program: string) => (await residencyOf(env.DB, TENANT, program)).regions

async function open(program: string): Promise<void> {
  expect(await actor(program).admit(admission(program, 'call-0', { regions: EAST }))).toMatchObject({ regions: EAST })
}

it('when the actor dies before its flush', async () => {
  await open('crashed')
  await abortAllDurableObjects()
  const next = await actor('crashed').admit(admission('crashed', 'call-1'))
  expect(next).toMatchObject({ status: 'admitted', regions: EAST })
})

it('when D1 is down as it opens: D1 learns of it later', async () => {
  await actor('down').describe(Date.now())
  await breakD1('down')
  await open('down')
  await replaceD1('down', env.DB)
  await expect.poll(() => inD1('down')).toEqual(EAST)
})

it('when D1 is down and the actor dies: D1 learns of it from the next actor', async () => {
  await actor('both').describe(Date.now())
  await breakD1('both')
  await open('both')
  await abortAllDurableObjects()
  expect(await inD1('both')).toBeNull()
  await actor('both').describe(Date.now())
  await expect.poll(() => inD1('both')).toEqual(EAST)
})

it('and is forgotten where it ends before D1 answers again', async () => {
  await actor('ended').describe(Date.now())
  await breakD1('ended')
  await open('ended')
  await replaceD1('ended', env.DB)
  await actor('ended').end(Date.now())
  await open('later')
  await expect.poll(() => inD1('later')).toEqual(EAST)
  expect(await inD1('ended')).toBeNull()
})

describe('a program that went stale', () => {
  const STALE_MS = Number(env.PROGRAM_STALE_AFTER_S) * 1000
  const WEST = ['eu-west']

  /** Started so long ago that it is over by now, archived, and evicted. */
  async function stale(program: string): Promise<void> {
    const now_ms = Date.now() - STALE_MS - 1
    await actor(program).start({ tenant: TENANT, program, app: null, metadata: null, regions: EAST, now_ms })
    expect(await runDurableObjectAlarm(programStub(program))).toBe(true)
    await expect.poll(() => lastEnded(TENANT, program)).toMatchObject({ end_reason: 'stale' })
    await evictDurableObject(programStub(program))
  }
  const next = (program: string, regions: string[] | null = null) =>
    actor(program).admit(admission(program, 'call-1', { regions }))

  it('opens again in its regions, which a call does not change, for everybody who asks', async () => {
    await stale('paused')
    expect(await inD1('paused')).toEqual(EAST)
    expect(await next('paused', WEST)).toMatchObject({ status: 'admitted', regions: EAST })
    await expect.poll(() => inD1('paused')).toEqual(EAST)
    expect(await next('paused')).toMatchObject({ regions: EAST })
  })

  it('opens in them for a late record', async () => {
    await stale('late')
    await actor('late').settle([recordOf('late', 'lost-run', 'call-7')])
    expect(await actor('late').describe(Date.now())).toMatchObject({ state: 'running', regions: EAST })
  })

  it('is free when its client ends it', async () => {
    await stale('done')
    await actor('done').end(Date.now())
    await expect.poll(() => inD1('done')).toBeNull()
    expect(await next('done')).toMatchObject({ regions: null })
  })

  it('is free when its client starts it without regions, and held to others when started with them', async () => {
    for (const [program, regions] of [
      ['anew', null],
      ['moved', WEST],
    ] as const) {
      await stale(program)
      const start = { tenant: TENANT, program, app: null, metadata: null, regions, now_ms: Date.now() }
      expect(await actor(program).start(start)).toMatchObject({ status: 'started', summary: { regions } })
      await expect.poll(() => inD1(program)).toEqual(regions)
      expect(await next(program)).toMatchObject({ regions })
    }
  })

  it('is forgotten after a time, with all that was stored of it', async () => {
    await stale('old')
    await runInDurableObject(programStub('old'), async (_, state) => {
      const hold = await state.storage.get<{ until_ms: number }>('hold')
      const left_ms = (hold?.until_ms ?? 0) - Date.now()
      expect(left_ms).toBeGreaterThan(HELD_AFTER_STALE_MS - 60_000)
      expect(left_ms).toBeLessThanOrEqual(HELD_AFTER_STALE_MS)
      expect(await state.storage.getAlarm()).toBe(hold?.until_ms)
      await state.storage.put('hold', { ...hold, until_ms: Date.now() - 1 })
    })
    await evictDurableObject(programStub('old'))
    await breakD1('old')
    await runDurableObjectAlarm(programStub('old'))
    expect(await inD1('old')).toEqual(EAST)
    await replaceD1('old', env.DB)
    await evictDurableObject(programStub('old'))
    await runDurableObjectAlarm(programStub('old'))
    expect(await inD1('old')).toBeNull()
    const left = await runInDurableObject(programStub('old'), async (_, state) => ({
      tables: storedTables(state),
      values: (await state.storage.list()).size,
      alarm: await state.storage.getAlarm(),
    }))
    expect(left).toEqual({ tables: [], values: 0, alarm: null })
    expect(await next('old')).toMatchObject({ regions: null })
  })
})

describe('starts and calls that meet', () => {
  const start = (program: string, regions: string[]) =>
    actor(program).start({ tenant: TENANT, program, app: null, metadata: null, regions, now_ms: Date.now() })

  it('of two starts one holds the program, in D1 too', async () => {
    const both = await Promise.all([start('twice', EAST), start('twice', ['eu-west'])])
    expect(both.map(({ status }) => status).sort()).toEqual(['exists', 'started'])
    const held = (await actor('twice').describe(Date.now()))?.regions
    await expect.poll(() => inD1('twice')).toEqual(held)
  })

  it('a start that comes too late leaves nothing of its regions', async () => {
    await actor('raced').describe(Date.now())
    const { promise: written, resolve: write } = Promise.withResolvers<void>()
    const prepare = (text: string) => {
      const statement = env.DB.prepare(text)
      const bind = (...values: unknown[]) => {
        const bound = statement.bind(...values)
        return { ...wrapped(bound), run: () => written.then(() => bound.run()) }
      }
      return { bind }
    }
    await replaceD1('raced', { prepare, batch: env.DB.batch.bind(env.DB) })
    const starting = start('raced', ['eu-west'])
    await expect.poll(async () => (await actor('raced').admit(admission('raced', 'call-0'))).status).toBe('admitted')
    write()
    expect(await starting).toMatchObject({ status: 'exists', summary: { regions: null } })
    await expect.poll(() => inD1('raced')).toBeNull()
  })
})

function wrapped(bound: D1PreparedStatement) {
  return { first: () => bound.first(), all: () => bound.all(), raw: () => bound.raw() }
}

it('a run that is held to other regions than calls were told just before waits until no isolate remembers those', async () => {
  const program = 'changed-regions'
  const told_at_ms = Date.now()
  expect(await actor(program).admit(admission(program, 'call-0'))).toMatchObject({ regions: null })
  await actor(program).end(Date.now())
  // The same again, and none at all, need no wait.
  await actor(program).start({ tenant: TENANT, program, app: null, metadata: null, now_ms: Date.now() })
  await actor(program).end(Date.now())
  const request = { tenant: TENANT, program, app: null, metadata: null, regions: EAST, now_ms: Date.now() }
  expect(await actor(program).start(request)).toMatchObject({ status: 'started', summary: { regions: EAST } })
  expect(Date.now() - told_at_ms).toBeGreaterThanOrEqual(HOLD_REMEMBERED_MS)
})
