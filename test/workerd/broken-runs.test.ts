/** Runs whose stored rows do not load: their program goes on, their rows and records are kept for the operator. */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { programActor } from '../../src/actors/stubs.ts'
import type { ProvenRecord } from '../../src/core/program/program-state.ts'
import { flushed } from './actor-tools.ts'
import { lastEnded, ownRows } from './archive-tools.ts'
import { json, KEY_A, openCall, programStub, provision, recordOf, request } from './fixtures.ts'

const TENANT = 'tenant-a'

beforeAll(provision)
beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

const actor = (program: string) => programActor(env, TENANT, program)

interface Letter {
  kind: string
  run: string
  agent: string | null
  content: string
}

async function letters(program: string): Promise<Letter[]> {
  const all: (Letter & { program: string })[] = []
  let cursor = ''
  do {
    const page = await json<{ data: (Letter & { program: string })[]; next_cursor: string | null }>(
      request('GET', `/admin/v1/dead-letters?limit=100${cursor}`, env.ADMIN_KEY),
    )
    all.push(...page.data)
    cursor = page.next_cursor === null ? '' : `&cursor=${page.next_cursor}`
  } while (cursor !== '')
  return all.filter((letter) => letter.program === program)
}

/** Runs `statement` on the program's storage, and ends the object. */
async function damage(program: string, statement: string): Promise<void> {
  await flushed(program)
  await runInDurableObject(programStub(program), (_, { storage }) => void storage.sql.exec(statement))
  await evictDurableObject(programStub(program))
}

it('a call that does not load: its run ends and is archived with the others, and the program goes on', async () => {
  const run = await openCall('one-call', 'call-0')
  await openCall('one-call', 'call-1')
  await actor('one-call').settle([recordOf('one-call', run, 'call-0'), recordOf('one-call', run, 'call-1')])
  await damage(
    'one-call',
    `UPDATE calls SET row = json_set(row, '$.inherited_us', 18014398509481984) WHERE position = 1`,
  )
  expect((await request('GET', '/v1/programs/one-call', KEY_A)).status).toBe(200)
  await expect.poll(() => lastEnded(TENANT, 'one-call')).toMatchObject({ run, calls: 1, service_us: 1_000 })
  const next = await openCall('one-call', 'call-2')
  expect(next).not.toBe(run)
  const [letter, ...others] = await letters('one-call')
  expect(others).toEqual([])
  expect(letter).toMatchObject({ kind: 'run', run })
  expect(letter?.content).toContain('18014398509481984')
  expect(letter?.content).toContain('lease-call-1')
  expect((await request('DELETE', '/v1/programs/one-call', KEY_A)).status).toBe(200)
})

it('a run that does not load at all: it is set aside, and its records are acknowledged once and for all', async () => {
  const run = await openCall('whole-run', 'call-0')
  await damage('whole-run', `UPDATE runs SET row = 'not JSON'`)
  const record: ProvenRecord = recordOf('whole-run', run, 'call-0')
  for (let turn = 0; turn < 2; turn += 1) {
    expect((await actor('whole-run').settle([record])).confirmed).toEqual([record.lease])
    await expect.poll(async () => (await letters('whole-run')).length).toBe(2)
    await evictDurableObject(programStub('whole-run'))
  }
  const kept = await letters('whole-run')
  expect(kept.map(({ kind }) => kind).sort()).toEqual(['record', 'run'])
  expect(kept.find(({ kind }) => kind === 'run')?.content).toContain('not JSON')
  expect(kept.find(({ kind }) => kind === 'record')).toMatchObject({ agent: 'agent-east', run })
  expect((await request('GET', '/v1/programs/whole-run', KEY_A)).status).toBe(404)
  expect(await openCall('whole-run', 'call-1')).not.toBe(run)
  expect(await actor('whole-run').describe(Date.now())).toMatchObject({ calls: 1, service_us: 0 })
})

it('nothing leaves storage before D1 has it', async () => {
  await openCall('kept', 'call-0')
  await damage('kept', `UPDATE runs SET row = '{}'`)
  await env.DB.exec('ALTER TABLE dead_letters RENAME TO elsewhere')
  try {
    expect(await actor('kept').describe(Date.now())).toBeNull()
    await runDurableObjectAlarm(programStub('kept'))
    await abortAllDurableObjects()
    const stored = await runInDurableObject(programStub('kept'), (_, { storage }) =>
      storage.sql.exec('SELECT row FROM runs').toArray(),
    )
    expect(stored).toEqual([{ row: '{}' }])
  } finally {
    await env.DB.exec('ALTER TABLE elsewhere RENAME TO dead_letters')
  }
  await evictDurableObject(programStub('kept'))
  await actor('kept').describe(Date.now())
  await expect.poll(async () => (await letters('kept')).length).toBe(1)
})

it('an archived run that does not load: its late records are acknowledged', async () => {
  const run = await openCall('archived', 'call-0')
  await openCall('archived', 'call-1')
  await actor('archived').settle([recordOf('archived', run, 'call-0')])
  await actor('archived').end(Date.now())
  await ownRows(TENANT).prepare(`UPDATE ended_programs SET pins = 'not JSON' WHERE program = 'archived'`).run()
  expect((await actor('archived').settle([recordOf('archived', run, 'call-1')])).confirmed).toEqual(['lease-call-1'])
  expect(await letters('archived')).toMatchObject([{ kind: 'record', run }])
})
