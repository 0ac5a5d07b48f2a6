/**
 * ProgramActor: nothing is lost and nothing counts twice when messages repeat or come out of order, when the object is
 * evicted, and when the archive is down.
 */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ProgramRpc } from '../../src/actors/contracts.ts'
import { RUNS_UNARCHIVED_MAX } from '../../src/actors/program-opening.ts'
import { archiveActor, programActor, tenantActor } from '../../src/actors/stubs.ts'
import type { CallRecord } from '../../src/protocol/index.ts'
import type { EndedRun } from '../../src/store/ended-run.ts'
import { batches, flushed, replaceBindings, shuffled, storedTables, storeLeasesApart, sums } from './actor-tools.ts'
import { breakArchive, endedCallsOf, lastEnded } from './archive-tools.ts'
import { admission, leaseOf, openCall, programStub, provision, recordOf } from './fixtures.ts'

const TENANT = 'tenant-a'

beforeAll(provision)

const actor = (program: string) => programActor(env, TENANT, program)
const describeProgram = (program: string) => actor(program).describe(Date.now())

describe('the call path', () => {
  it('writes nothing: a program that was only admitted is in memory alone', async () => {
    const reply = await actor('unwritten').admit(admission('unwritten', 'call-0'))
    expect(reply.status).toBe('admitted')
    const tables = await runInDurableObject(programStub('unwritten'), (_, state) => storedTables(state))
    expect(tables).toEqual([])
  })

  it('is written by the flush that follows, and read again after eviction', async () => {
    const run = await openCall('flushed', 'call-0')
    await flushed('flushed')
    await evictDurableObject(programStub('flushed'))
    const summary = await describeProgram('flushed')
    expect(summary).toMatchObject({ run, state: 'running', calls: 1, open_calls: 1 })
    expect(summary?.threads[0]).toMatchObject({ call: 'call-0', engine: 'agent-east-e0' })
  })

  it('loads rows of an earlier version, whose leases are rows of their own, and writes them as one row when they change', async () => {
    const run = await openCall('older', 'call-0')
    await actor('older').settle([recordOf('older', run, 'call-0')])
    await openCall('older', 'call-1')
    await flushed('older')
    const stub = programStub('older')
    await runInDurableObject(stub, (_, state) => storeLeasesApart(state))
    for (const settled of [0, 1]) {
      await evictDurableObject(stub)
      expect(await describeProgram('older')).toMatchObject({
        run,
        calls: 2,
        open_calls: 1 - settled,
        service_us: 1_000 * (1 + settled),
      })
      await actor('older').settle([0, 1].map((call) => recordOf('older', run, `call-${call}`)))
    }
    const listed = await runInDurableObject(stub, (_, { storage: { sql } }) =>
      sql.exec('SELECT position FROM calls WHERE leases IS NOT NULL').toArray(),
    )
    expect(listed).toEqual([{ position: 1 }])
  })

  it('puts the program into its tenant’s index when it opens', async () => {
    await openCall('indexed', 'call-0')
    await expect
      .poll(async () => (await tenantActor(env, TENANT).running({ cursor: null, limit: 100 }))?.programs ?? [])
      .toContainEqual(expect.objectContaining({ program: 'indexed', calls: 1, open_calls: 1 }))
  })

  it('takes the ordering reading of the first call', async () => {
    const reply = await actor('by-wall').admit(admission('by-wall', 'call-0', { reading: 'wall' }))
    if (reply.status !== 'admitted') throw new Error('refused')
    await actor('by-wall').settle([recordOf('by-wall', reply.run, 'call-0')])
    expect(await describeProgram('by-wall')).toMatchObject({ service_us: 2_000, service_modelled_us: 1_000 })
  })
})

describe('an explicit start', () => {
  it('leaves the ordering reading to the model of the first call', async () => {
    const now_ms = Date.now()
    await actor('started').start({ tenant: TENANT, program: 'started', app: null, metadata: null, now_ms })
    const reply = await actor('started').admit(admission('started', 'call-0', { reading: 'wall' }))
    if (reply.status !== 'admitted') throw new Error('refused')
    expect(reply.reading).toBe('wall')
    await actor('started').settle([recordOf('started', reply.run, 'call-0')])
    expect(await actor('started').admit(admission('started', 'call-1'))).toMatchObject({ settled_service_us: 2_000 })
    await evictDurableObject(programStub('started'))
    expect(await describeProgram('started')).toMatchObject({ service_us: 2_000, service_modelled_us: 1_000 })
  })
})

describe('records', () => {
  it('count once each, sent three times in shuffled order, across evictions', async () => {
    const records: CallRecord[] = []
    for (let i = 0; i < 20; i++) {
      const run = await openCall('shuffled', `call-${i}`)
      records.push(
        recordOf('shuffled', run, `call-${i}`, { service_wall_us: 1_000 + i, service_modelled_us: 7 * i, wait_us: i }),
      )
    }
    for (const batch of batches(shuffled([...records, ...records, ...records]), 7)) {
      expect((await actor('shuffled').settle(batch)).confirmed).toEqual(batch.map(({ lease }) => lease))
      await evictDurableObject(programStub('shuffled'))
    }
    expect(await describeProgram('shuffled')).toMatchObject(sums(records))
  })

  it('are stored when they are acknowledged: a crash right after loses none', async () => {
    const run = await openCall('acked', 'call-0')
    await actor('acked').settle([recordOf('acked', run, 'call-0')])
    await abortAllDurableObjects()
    expect(await describeProgram('acked')).toMatchObject({ service_us: 1_000, wait_us: 300, open_calls: 0 })
  })

  it('open a run again that was lost before its first flush', async () => {
    const run = await openCall('lost', 'call-0')
    await abortAllDurableObjects()
    expect(await describeProgram('lost')).toBeNull()
    const record = recordOf('lost', run, 'call-0')
    await actor('lost').settle([record])
    expect(await describeProgram('lost')).toMatchObject({ run, service_us: 1_000, calls: 1 })
  })

  it('of a lost run belong to the run that followed it, and still count once after that was archived', async () => {
    const lost = await openCall('followed', 'call-0')
    await abortAllDurableObjects()
    const run = await openCall('followed', 'call-1')
    const records = [recordOf('followed', lost, 'call-0'), recordOf('followed', run, 'call-1')]
    await actor('followed').settle([...records, ...records])
    expect(await describeProgram('followed')).toMatchObject({ run, service_us: 2_000 })
    await actor('followed').end(Date.now())
    await actor('followed').settle(records)
    expect(await describeProgram('followed')).toBeNull()
    expect(await lastEnded(TENANT, 'followed')).toMatchObject({ run, service_us: 2_000 })
  })
})

describe('the end', () => {
  it('moves the run to D1 and clears the actor', async () => {
    const run = await openCall('moved', 'call-0')
    await actor('moved').settle([recordOf('moved', run, 'call-0')])
    const ended = await actor('moved').end(Date.now())
    expect(ended).toMatchObject({ status: 'ended', open_leases: [] })
    expect(await lastEnded(TENANT, 'moved')).toEqual({ ...ended.summary, threads: [], weight: null })
    const stored = await runInDurableObject(programStub('moved'), async (_, state) => ({
      tables: storedTables(state),
      alarm: await state.storage.getAlarm(),
    }))
    expect(stored).toEqual({ tables: [], alarm: null })
  })

  it('hands out the leases that engines still hold', async () => {
    await openCall('held', 'call-0')
    const { open_leases } = await actor('held').end(Date.now())
    expect(open_leases).toEqual([
      { lease: 'lease-call-0', region: 'us-east', model: 'test-model', agent: 'agent-east', engine: 'agent-east-e0' },
    ])
    expect(await actor('held').end(Date.now())).toMatchObject({ status: 'absent', open_leases: [] })
  })

  it('lets a record that comes after archiving update the archive, once', async () => {
    const run = await openCall('late', 'call-0')
    await openCall('late', 'call-1')
    await actor('late').settle([recordOf('late', run, 'call-0')])
    await actor('late').end(Date.now())
    const late = recordOf('late', run, 'call-1', {
      outcome: 'cancelled',
      finish_reason: null,
      service_modelled_us: 500,
    })
    for (let i = 0; i < 3; i++) expect((await actor('late').settle([late])).confirmed).toEqual(['lease-call-1'])
    expect(await lastEnded(TENANT, 'late')).toMatchObject({
      service_us: 1_500,
      wait_us: 600,
      output_tokens: 10,
    })
    const { calls } = await endedCallsOf({ tenant: TENANT, program: 'late', run }, null, 10)
    expect(calls.map(({ call, outcome, leases }) => [call, outcome, leases[0]?.state])).toEqual([
      ['call-0', 'completed', 'settled'],
      ['call-1', 'cancelled', 'settled'],
    ])
    expect(await describeProgram('late')).toBeNull()
  })

  it('lets a late record of an ended run pass by the run that is open', async () => {
    const first = await openCall('passed', 'call-0')
    await actor('passed').end(Date.now())
    const second = await openCall('passed', 'call-1')
    await actor('passed').settle([recordOf('passed', first, 'call-0')])
    expect(await describeProgram('passed')).toMatchObject({ run: second, service_us: 0 })
    expect(await lastEnded(TENANT, 'passed')).toMatchObject({ run: first, service_us: 1_000 })
  })

  it('leaves the tenant’s index', async () => {
    await actor('unlisted').start({
      tenant: TENANT,
      program: 'unlisted',
      app: null,
      metadata: null,
      now_ms: Date.now(),
    })
    await actor('unlisted').end(Date.now())
    const page = await tenantActor(env, TENANT).running({ cursor: null, limit: 100 })
    expect(page?.programs.map(({ program }) => program)).not.toContain('unlisted')
  })
})

describe('the alarm', () => {
  it('ends a stale program and archives it; fired again it does nothing', async () => {
    const stale_ms = Number(env.PROGRAM_STALE_AFTER_S) * 1000
    const now_ms = Date.now() - stale_ms - 1
    await actor('stale').start({ tenant: TENANT, program: 'stale', app: null, metadata: null, now_ms })
    const stub = programStub('stale')
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    const archived = await lastEnded(TENANT, 'stale')
    expect(archived).toMatchObject({ state: 'ended', end_reason: 'stale' })
    await runInDurableObject(stub, async (instance) => instance.alarm?.())
    expect(await runDurableObjectAlarm(stub)).toBe(false)
    expect(await lastEnded(TENANT, 'stale')).toEqual(archived)
  })

  it('lets a program that is at work be, and stands again', async () => {
    await openCall('at-work', 'call-0')
    await flushed('at-work')
    const stub = programStub('at-work')
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    expect(await describeProgram('at-work')).toMatchObject({ state: 'running' })
    expect(await runDurableObjectAlarm(stub)).toBe(true)
  })
})

describe('while the archive is down', () => {
  beforeEach(() => {
    const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
    return () => log.mockRestore()
  })

  it('an ended run stays, is shown, survives eviction, and is archived by the alarm', async () => {
    const run = await openCall('kept', 'call-0')
    await actor('kept').settle([recordOf('kept', run, 'call-0')])
    const stub = programStub('kept')
    await breakArchive('kept')
    expect(await actor('kept').end(Date.now())).toMatchObject({ status: 'ended' })
    expect(await describeProgram('kept')).toMatchObject({ run, state: 'ended', service_us: 1_000 })
    expect(await lastEnded(TENANT, 'kept')).toBeNull()
    await evictDurableObject(stub)
    expect(await describeProgram('kept')).toMatchObject({ run, state: 'ended', service_us: 1_000 })
    expect(await runDurableObjectAlarm(stub)).toBe(true)
    expect(await lastEnded(TENANT, 'kept')).toMatchObject({ run, service_us: 1_000 })
    expect(await describeProgram('kept')).toBeNull()
  })

  it('a record of the ended run reaches it here, and the archive with it', async () => {
    const run = await openCall('meanwhile', 'call-0')
    await flushed('meanwhile')
    await breakArchive('meanwhile')
    await actor('meanwhile').end(Date.now())
    await actor('meanwhile').settle([recordOf('meanwhile', run, 'call-0')])
    await evictDurableObject(programStub('meanwhile'))
    await runDurableObjectAlarm(programStub('meanwhile'))
    expect(await lastEnded(TENANT, 'meanwhile')).toMatchObject({ run, service_us: 1_000 })
  })

  it('records of a run that only the archive can place are not acknowledged', async () => {
    const run = await openCall('unplaced', 'call-0')
    await actor('unplaced').end(Date.now())
    await breakArchive('unplaced')
    await runInDurableObject(programStub('unplaced'), async (object) => {
      const instance = object as unknown as Pick<ProgramRpc, 'settle'>
      await expect(instance.settle([recordOf('unplaced', run, 'call-0')])).rejects.toThrow('the archive is down')
    })
  })

  it('a record that comes while the archive is slow to take the run reaches it', async () => {
    const run = await openCall('slow', 'call-0')
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const keep = vi.fn(async (run: EndedRun) => {
      await released
      return archiveActor(env, TENANT, 0).keep(run)
    })
    await replaceBindings(programStub('slow'), { ARCHIVE: { getByName: () => ({ keep }) } })
    const ended = actor('slow').end(Date.now())
    await expect.poll(() => keep.mock.calls.length).toBe(1)
    await actor('slow').settle([recordOf('slow', run, 'call-0')])
    release()
    await ended
    expect(await lastEnded(TENANT, 'slow')).toMatchObject({ run, service_us: 1_000 })
    expect(await describeProgram('slow')).toBeNull()
  })

  it('opens runs up to a bound, and refuses one past it', async () => {
    await openCall('bounded', 'call-0')
    await breakArchive('bounded')
    for (let i = 1; i < RUNS_UNARCHIVED_MAX; i++) {
      await actor('bounded').end(Date.now())
      await openCall('bounded', `call-${i}`)
    }
    await actor('bounded').end(Date.now())
    const refused = await actor('bounded').admit(admission('bounded', 'one-more'))
    expect(refused).toMatchObject({ status: 'refused', code: 'program_calls_exceeded' })
  })
})

it('ignores leases of runs that it does not have', async () => {
  await actor('strange').leaseOpened(leaseOf('no-such-run', 'call-0'))
  await actor('strange').callEnded({ run: 'x', call: 'y', outcome: 'failed', error_code: null, now_ms: Date.now() })
  expect(await describeProgram('strange')).toBeNull()
})

it('an archive that never answers holds a late record up for a while, and no other record', async () => {
  const run = await openCall('unanswered', 'call-0')
  await openCall('unanswered', 'call-1')
  await actor('unanswered').settle([recordOf('unanswered', run, 'call-0')])
  await actor('unanswered').end(Date.now())
  const next = await openCall('unanswered', 'call-2')
  const never = () => new Promise<never>(() => undefined)
  await replaceBindings(programStub('unanswered'), { ARCHIVE: { getByName: () => ({ keep: never, run: never }) } })
  const late = recordOf('unanswered', run, 'call-1')
  const settling = actor('unanswered')
    .settle([late])
    .catch(() => 'given up')
  expect((await actor('unanswered').settle([recordOf('unanswered', next, 'call-2')])).confirmed).toEqual([
    'lease-call-2',
  ])
  expect(await settling).toBe('given up')
  await evictDurableObject(programStub('unanswered'))
  expect((await actor('unanswered').settle([late])).confirmed).toEqual(['lease-call-1'])
})
