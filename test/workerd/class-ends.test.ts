/** What programs tell about their classes: each end once, also when actors refuse or are evicted. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { CLASS_TRIES_MAX, LATE_RECORDS_MS } from '../../src/actors/class-notifier.ts'
import type { ProgramRpc } from '../../src/actors/contracts.ts'
import { classActor } from '../../src/actors/stubs.ts'
import { replaceBindings, storedTables } from './actor-tools.ts'
import { lastEnded } from './archive-tools.ts'
import {
  actor,
  endedProgram,
  endsOf,
  FACTS,
  later,
  openCall,
  quietWithTrueClock,
  refused,
  sketchOf,
  TENANT,
} from './class-tools.ts'
import { admission, json, KEY_A, programStub, provision, recordOf, request } from './fixtures.ts'

beforeAll(provision)
beforeEach(quietWithTrueClock)

describe('a program that ends', () => {
  it('tells its class what it had, and another tenant’s class of that name learns nothing', async () => {
    await endedProgram('told', 'app:told')
    await expect.poll(() => endsOf('app:told')).toBe(1)
    const sketch = await sketchOf('app:told')
    expect(sketch).toMatchObject({ ends: 1, output_tokens: [[expect.any(Number), 1, 10]], calls: [[5, 1, 2]] })
    expect(await sketchOf('app:told', 'tenant-b')).toBeUndefined()
  })

  it('tells it once, although its end is told again and its archive changes', async () => {
    const run = await endedProgram('once', 'app:once')
    await classActor(env, TENANT, 'app:once').ended({ run, program: FACTS })
    await actor('once').settle([recordOf('once', run, 'late'), recordOf('once', run, 'later')])
    await actor('once').end(Date.now())
    expect(await endsOf('app:once')).toBe(1)
    expect((await sketchOf('app:once'))?.output_tokens[0]?.[2]).toBe(10)
  })

  it('before its last record has come tells what that says, too', async () => {
    const run = await openCall('eager', 'eager-0', 'app:eager')
    await actor('eager').end(Date.now())
    expect(await endsOf('app:eager')).toBe(0)
    await evictDurableObject(programStub('eager'))
    await actor('eager').settle([recordOf('eager', run, 'eager-0', { output_tokens: 77 })])
    await expect.poll(() => endsOf('app:eager')).toBe(1)
    expect((await sketchOf('app:eager'))?.output_tokens[0]?.[2]).toBe(77)
  })

  it('whose last record never comes tells what it had', async () => {
    const run = await openCall('lossy', 'lossy-0', 'app:lossy')
    await actor('lossy').settle([recordOf('lossy', run, 'lossy-0')])
    await openCall('lossy', 'lossy-1', 'app:lossy')
    await actor('lossy').end(Date.now())
    await runDurableObjectAlarm(programStub('lossy'))
    expect(await endsOf('app:lossy')).toBe(0)
    later(LATE_RECORDS_MS)
    await runDurableObjectAlarm(programStub('lossy'))
    expect(await endsOf('app:lossy')).toBe(1)
    expect(await runInDurableObject(programStub('lossy'), (_, state) => storedTables(state))).toEqual([])
  })

  it('without output tells nothing and takes no place', async () => {
    await actor('silent').start({ tenant: TENANT, program: 'silent', app: 'mute', metadata: null, now_ms: Date.now() })
    await actor('silent').end(Date.now())
    expect(await sketchOf('app:mute')).toBeUndefined()
  })
})

describe('the calls of a program', () => {
  const shown = async (program: string) => {
    const { data } = await json<{ data: Record<string, unknown>[] }>(
      request('GET', `/v1/programs/${program}/calls`, KEY_A),
    )
    return data.map((call) => [call.id, call.class, call.rank, call.expected_remaining_tokens])
  }

  it('say their class, and what their engine’s policy knew of them, while it runs, archived, and of late records', async () => {
    let run = ''
    for (const call of ['ranked-0', 'ranked-1', 'ranked-2']) run = await openCall('ranked', call, 'app:ranked')
    const known = { rank: -7, expected_remaining_tokens: 40.5 }
    await actor('ranked').settle([
      recordOf('ranked', run, 'ranked-0', known),
      recordOf('ranked', run, 'ranked-1', { rank: 12 }),
    ])
    const early = [
      ['ranked-0', 'app:ranked', -7, 40.5],
      ['ranked-1', 'app:ranked', 12, null],
    ]
    expect(await shown('ranked')).toEqual([...early, ['ranked-2', 'app:ranked', null, null]])
    await actor('ranked').end(Date.now())
    await expect.poll(() => actor('ranked').describe(Date.now())).toBeNull()
    expect(await shown('ranked')).toEqual([...early, ['ranked-2', 'app:ranked', null, null]])
    await actor('ranked').settle([recordOf('ranked', run, 'ranked-2', known)])
    expect(await shown('ranked')).toEqual([...early, ['ranked-2', 'app:ranked', -7, 40.5]])
  })
})

describe('the wait of a call that an attached server served', () => {
  const shown = async () => {
    const path = '/v1/programs/attached/calls'
    const { data } = await json<{ data: Record<string, unknown>[] }>(request('GET', path, KEY_A))
    return data.map(({ wait_s, queue_wait_s, server_wait_s, leases }) => {
      const [lease] = leases as Record<string, unknown>[]
      return { wait_s, queue_wait_s, server_wait_s, of_lease: lease?.queue_wait_s }
    })
  }

  it('is told apart while its program runs and archived, and only where its record does', async () => {
    let run = ''
    for (const call of ['attached-0', 'attached-1']) run = await openCall('attached', call, 'app:attached')
    await actor('attached').settle([
      recordOf('attached', run, 'attached-0', { wait_us: 3_000_000, queue_wait_us: 2_500_000 }),
      recordOf('attached', run, 'attached-1', { wait_us: 1_000_000 }),
    ])
    const told = [
      { wait_s: 3, queue_wait_s: 2.5, server_wait_s: 0.5, of_lease: 2.5 },
      { wait_s: 1, queue_wait_s: null, server_wait_s: null, of_lease: null },
    ]
    expect(await shown()).toEqual(told)
    await actor('attached').end(Date.now())
    await expect.poll(() => actor('attached').describe(Date.now())).toBeNull()
    expect(await shown()).toEqual(told)
  })
})

describe('while a class refuses', () => {
  const down = { CLASS: { getByName: () => ({ ended: refused }) } }

  it('its programs are archived as ever, and tell it later', async () => {
    const run = await openCall('patient', 'patient-0', 'app:patient')
    await actor('patient').settle([recordOf('patient', run, 'patient-0')])
    await replaceBindings(programStub('patient'), down)
    await actor('patient').end(Date.now())
    expect(await lastEnded(TENANT, 'patient')).toMatchObject({ run })
    expect(await endsOf('app:patient')).toBe(0)
    await evictDurableObject(programStub('patient'))
    later(2 * 60 * 60_000)
    await runDurableObjectAlarm(programStub('patient'))
    expect(await endsOf('app:patient')).toBe(1)
    expect(await runInDurableObject(programStub('patient'), (_, state) => storedTables(state))).toEqual([])
  })

  it('its programs tell it a bounded number of times', async () => {
    const told = vi.fn(refused)
    const run = await openCall('vain', 'vain-0', 'app:vain')
    await actor('vain').settle([recordOf('vain', run, 'vain-0')])
    await replaceBindings(programStub('vain'), { CLASS: { getByName: () => ({ ended: told }) } })
    await actor('vain').end(Date.now())
    for (let alarm = 0; alarm < CLASS_TRIES_MAX + 5; alarm++) {
      later(2 * 60 * 60_000)
      await runDurableObjectAlarm(programStub('vain'))
    }
    expect(told).toHaveBeenCalledTimes(CLASS_TRIES_MAX + 1)
    expect(await runInDurableObject(programStub('vain'), (_, state) => storedTables(state))).toEqual([])
  })

  it('a record that comes while a class is told reaches the archive', async () => {
    const run = await openCall('racing', 'racing-0', 'app:racing')
    await openCall('racing', 'racing-1', 'app:racing')
    await actor('racing').settle([0, 1].map((at) => recordOf('racing', run, `racing-${at}`)))
    const settled: ReturnType<ProgramRpc['settle']>[] = []
    const ended = async () => {
      settled.push(actor('racing').settle([recordOf('racing', run, 'racing-2')]))
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    await replaceBindings(programStub('racing'), { CLASS: { getByName: () => ({ ended }) } })
    await actor('racing').end(Date.now())
    expect(await Promise.all(settled)).toMatchObject([{ confirmed: ['lease-racing-2'] }])
    const program = await json(request('GET', '/v1/programs/racing', KEY_A))
    expect(program).toMatchObject({ state: 'ended', calls: 3, output_tokens: 15 })
  })

  it('a class that does not answer holds up neither the end nor another run', async () => {
    const run = await openCall('stuck', 'stuck-0', 'app:stuck')
    await actor('stuck').settle([recordOf('stuck', run, 'stuck-0')])
    await replaceBindings(programStub('stuck'), {
      CLASS: { getByName: () => ({ ended: () => new Promise(() => {}) }) },
    })
    expect((await actor('stuck').end(Date.now())).status).toBe('ended')
    expect((await actor('stuck').admit(admission('stuck', 'stuck-1'))).status).toBe('admitted')
  })
})
