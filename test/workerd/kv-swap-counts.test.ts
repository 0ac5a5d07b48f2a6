/**
 * What preemptions did to KV: `swapped_out_tokens`, `swapped_in_tokens`, `recomputed_tokens` and `swap_s`, from the agent's
 * record to the process table, the archive and the API. In records and rows of versions that did not count them they are 0.
 */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { programActor } from '../../src/actors/stubs.ts'
import { ProgramEntry } from '../../src/core/program/process-table.ts'
import type { LeaseRow } from '../../src/core/program/program-state.ts'
import { storeLeasesApart } from './actor-tools.ts'
import { endedRowsOf, keepRun } from './archive-tools.ts'
import {
  admission,
  KEY_A,
  leaseOf,
  openCall,
  programStub,
  proven,
  provision,
  recordOf,
  request,
  TOKEN_EAST,
} from './fixtures.ts'

const TENANT = 'tenant-a'
const FIELDS = ['swapped_out_tokens', 'swapped_in_tokens', 'recomputed_tokens', 'swap_us'] as const
const OF_ONE = { swapped_out_tokens: 12, swapped_in_tokens: 8, recomputed_tokens: 3, swap_s: 0.00006 }
const OF_TWO = { swapped_out_tokens: 24, swapped_in_tokens: 16, recomputed_tokens: 6, swap_s: 0.00012 }
const NONE = { swapped_out_tokens: 0, swapped_in_tokens: 0, recomputed_tokens: 0, swap_s: 0 }

beforeAll(provision)

const actor = (program: string) => programActor(env, TENANT, program)

async function read(program: string) {
  const get = async (path: string) => (await request('GET', `/v1/programs/${program}${path}`, KEY_A)).json()
  const calls = (await get('/calls')) as { data: { leases: object[] }[] }
  return { summary: await get(''), calls: calls.data }
}

/** As a version without the fields wrote it. */
function older<Row extends object>(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).filter(([name]) => !(FIELDS as readonly string[]).includes(name)),
  ) as Row
}

async function send(records: readonly object[]): Promise<number> {
  const body = { agent: 'agent-east', records }
  return (await request('POST', '/agents/v1/records', TOKEN_EAST, body)).status
}

describe('what preemptions did to KV', () => {
  it('is told of a lease, a call and a program, while it runs and after its end', async () => {
    let run = ''
    for (const call of ['c-0', 'c-1']) run = await openCall('swapped', call)
    await actor('swapped').settle(['c-0', 'c-1'].map((call) => recordOf('swapped', run, call)))
    const running = await read('swapped')
    expect(running.summary).toMatchObject(OF_TWO)
    const call = { ...OF_ONE, leases: [OF_ONE] }
    expect(running.calls).toMatchObject([call, call])
    await actor('swapped').end(Date.now())
    const ended = await read('swapped')
    expect(ended.summary).toMatchObject({ state: 'ended', ...OF_TWO })
    expect(ended.calls).toMatchObject([call, call])
  })

  it('comes late and is added to the archive', async () => {
    let run = ''
    for (const call of ['c-0', 'c-1']) run = await openCall('late-swap', call)
    await actor('late-swap').settle([recordOf('late-swap', run, 'c-0')])
    await actor('late-swap').end(Date.now())
    expect((await read('late-swap')).summary).toMatchObject(OF_ONE)
    await actor('late-swap').settle([recordOf('late-swap', run, 'c-1')])
    expect((await read('late-swap')).summary).toMatchObject(OF_TWO)
  })
})

describe('versions that did not count it', () => {
  it('an agent’s record is taken', async () => {
    const run = await openCall('old-agent', 'c-0')
    const record = await proven(recordOf('old-agent', run, 'c-0'))
    expect(await send([older(record)])).toBe(200)
    const { summary, calls } = await read('old-agent')
    expect(summary).toMatchObject({ ...NONE, output_tokens: 5 })
    expect(calls).toMatchObject([{ ...NONE, preemptions: 2 }])
  })

  it('a running program’s rows load, and what comes then is added', async () => {
    let run = ''
    for (const call of ['c-0', 'c-1']) run = await openCall('old-rows', call)
    await actor('old-rows').settle([recordOf('old-rows', run, 'c-0')])
    const removed = FIELDS.map((field) => `'$.${field}'`).join(', ')
    await runInDurableObject(programStub('old-rows'), (_, state) => {
      const { storage } = state
      storeLeasesApart(state)
      storage.sql.exec(`UPDATE leases SET row = json_remove(row, ${removed})`)
      const [stored] = storage.sql.exec<{ row: string }>('SELECT row FROM leases').toArray()
      expect(stored?.row).not.toContain('swapped')
    })
    await evictDurableObject(programStub('old-rows'))
    expect((await read('old-rows')).summary).toMatchObject({ ...NONE, output_tokens: 5 })
    await actor('old-rows').settle([recordOf('old-rows', run, 'c-1')])
    expect((await read('old-rows')).summary).toMatchObject({ ...OF_ONE, output_tokens: 10 })
  })

  it('a segment in R2 is read, and a late record of its run is added', async () => {
    const now_ms = Date.now()
    const entry = ProgramEntry.open({
      ...{ tenant: TENANT, program: 'old-segment', run: 'run-old', app: null, class: 'tenant', metadata: null },
      ...{ reading: 'modelled', now_ms },
    })
    for (const call of ['c-0', 'c-1']) {
      entry.admit({ ...admission('old-segment', call), now_ms })
      entry.leaseOpened(leaseOf('run-old', call))
    }
    entry.settle(recordOf('old-segment', 'run-old', 'c-0', NOTHING_MOVED), now_ms)
    entry.end(now_ms, 'explicit')
    const rows = entry.rows()
    await keepRun({ ...rows, leases: rows.leases.map(older<LeaseRow>) }, entry.summary())
    expect((await read('old-segment')).calls).toMatchObject([{ ...NONE, output_tokens: 5 }, NONE])
    await actor('old-segment').settle([recordOf('old-segment', 'run-old', 'c-1')])
    const { summary, calls } = await read('old-segment')
    expect(summary).toMatchObject(OF_ONE)
    expect(calls).toMatchObject([NONE, OF_ONE])
    const run = await endedRowsOf({ tenant: TENANT, program: 'old-segment', run: 'run-old' })
    expect(run.status === 'found' && run.rows.leases).toEqual(
      expect.arrayContaining([expect.objectContaining(NOTHING_MOVED)]),
    )
  })
})

const NOTHING_MOVED = { swapped_out_tokens: 0, swapped_in_tokens: 0, recomputed_tokens: 0, swap_us: 0 }
