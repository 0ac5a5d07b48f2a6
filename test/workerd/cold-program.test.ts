/** Long programs whose object starts anew: what is read for a call, and that nothing is different afterwards. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { ProgramRpc } from '../../src/actors/contracts.ts'
import { ProgramStorage } from '../../src/actors/program-storage.ts'
import { programActor } from '../../src/actors/stubs.ts'
import { CHECKPOINT_CALLS_MIN } from '../../src/core/program/program-state.ts'
import { lastEnded } from './archive-tools.ts'
import { admission, leaseOf, openCall, programStub, provision, recordOf } from './fixtures.ts'

const TENANT = 'tenant-a'
beforeAll(provision)

const actor = (program: string) => programActor(env, TENANT, program)

/** A run with so many settled calls, and one that is open. */
async function longProgram(program: string, calls: number): Promise<string> {
  const run = await openCall(program, `${program}-open`)
  const records = Array.from({ length: calls }, (_, i) => recordOf(program, run, `${program}-${i}`))
  for (let from = 0; from < calls; from += 500) await actor(program).settle(records.slice(from, from + 500))
  return run
}

/** Rows that loading this program reads from its storage. */
function rowsRead(program: string): Promise<number> {
  return runInDurableObject(programStub(program), async (_, { storage }) => {
    const cursors: { rowsRead: number }[] = []
    const sql = new Proxy(storage.sql, {
      get: (target, name) => {
        if (name !== 'exec') return Reflect.get(target, name)
        return (text: string, ...values: unknown[]) => {
          const cursor = target.exec(text, ...values)
          cursors.push(cursor)
          return cursor
        }
      },
    })
    const counted = new Proxy(storage, {
      get: (target, name) => {
        if (name === 'sql') return sql
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    expect(await new ProgramStorage(counted).load()).toHaveLength(1)
    return cursors.reduce((sum, cursor) => sum + cursor.rowsRead, 0)
  })
}

describe('a cold program', () => {
  it('reads what is open and not its history: as much of 600 calls as of 300', async () => {
    await longProgram('c300', 300)
    await longProgram('c600', 600)
    const [few, many] = [await rowsRead('c300'), await rowsRead('c600')]
    expect(many).toBe(few)
    expect(many).toBeLessThan(50)
  })

  it('goes on with its sums, and has its history when that is asked for', async () => {
    const run = await longProgram('resumed', CHECKPOINT_CALLS_MIN)
    const before = await actor('resumed').describe(Date.now())
    await evictDurableObject(programStub('resumed'))
    expect(await actor('resumed').describe(Date.now())).toEqual(before)
    const reply = await actor('resumed').admit(admission('resumed', 'resumed-next', { parents: ['resumed-7'] }))
    expect(reply).toMatchObject({ status: 'admitted', run, settled_service_us: CHECKPOINT_CALLS_MIN * 1_000 })
    await evictDurableObject(programStub('resumed'))
    const page = await actor('resumed').calls({ after: 'resumed-6', limit: 1 })
    expect(page?.calls).toMatchObject([{ call: 'resumed-7', leases: [{ state: 'settled' }] }])
  })

  it('counts a record once that it has in its history, one of an open call, and one of a call that it does not know', async () => {
    const run = await longProgram('counted', CHECKPOINT_CALLS_MIN)
    for (let i = 0; i < 2; i++) {
      await evictDurableObject(programStub('counted'))
      const records = ['3', 'open', 'unknown'].map((name) => recordOf('counted', run, `counted-${name}`))
      expect((await actor('counted').settle(records)).confirmed).toHaveLength(3)
    }
    const calls = CHECKPOINT_CALLS_MIN + 2
    expect(await actor('counted').describe(Date.now())).toMatchObject({
      calls,
      service_us: calls * 1_000,
      open_calls: 0,
    })
  })

  it('is archived with all of its calls', async () => {
    const run = await longProgram('whole', CHECKPOINT_CALLS_MIN)
    await evictDurableObject(programStub('whole'))
    await actor('whole').leaseOpened(leaseOf(run, 'whole-open'))
    await actor('whole').settle([recordOf('whole', run, 'whole-open')])
    await actor('whole').end(Date.now())
    const calls = CHECKPOINT_CALLS_MIN + 1
    expect(await lastEnded(TENANT, 'whole')).toMatchObject({ calls, service_us: calls * 1_000 })
  })

  it('whose history does not load is set aside once that is needed, and the program goes on', async () => {
    const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
    const run = await longProgram('spoilt', CHECKPOINT_CALLS_MIN)
    await runInDurableObject(programStub('spoilt'), (_, { storage }) => {
      storage.sql.exec("UPDATE calls SET row = '{}' WHERE position = 5")
    })
    await evictDurableObject(programStub('spoilt'))
    // Asked in the object: workerd reports the refusal of a call from outside as unhandled, even if its caller handles it.
    const refused = await runInDurableObject(programStub('spoilt'), async (object) => {
      const instance = object as unknown as Pick<ProgramRpc, 'calls'>
      return instance.calls({ after: null, limit: 1 }).then(
        () => false,
        () => true,
      )
    }).catch(() => true)
    expect(refused).toBe(true)
    await expect
      .poll(async () => {
        await actor('spoilt')
          .describe(Date.now())
          .catch(() => null)
        return lastEnded(TENANT, 'spoilt')
      })
      .toMatchObject({ run, calls: CHECKPOINT_CALLS_MIN })
    expect(await actor('spoilt').admit(admission('spoilt', 'next'))).toMatchObject({ status: 'admitted' })
    log.mockRestore()
  })
})
