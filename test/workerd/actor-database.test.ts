/** An actor's own SQLite: made in one step where there was nothing, brought up to date where an earlier version made it. */
import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import { migrate } from 'drizzle-orm/durable-sqlite/migrator'
import { beforeAll, describe, expect, it } from 'vitest'
import { ActorDatabase, type ActorMigrations } from '../../src/actors/storage/actor-database.ts'
import {
  idempotencyMigrations,
  poolMigrations,
  programMigrations,
  responsesMigrations,
  tenantMigrations,
} from '../../src/actors/storage/migrations.gen.ts'
import { tenantActor } from '../../src/actors/stubs.ts'
import { KEY_A, MODEL, proven, provision, recordOf, request, TOKEN_EAST } from './fixtures.ts'

const KINDS: [string, ActorMigrations][] = [
  ['program', programMigrations],
  ['pool', poolMigrations],
  ['tenant', tenantMigrations],
  ['idempotency', idempotencyMigrations],
  ['responses', responsesMigrations],
]

/** Rows that are written by `work`, and the tables and indexes that there are after it. */
function onEmptyStorage(name: string, work: (storage: DurableObjectStorage) => Promise<unknown>) {
  return runInDurableObject(env.CONVERSATION.getByName(name), async (_, { storage }) => {
    await storage.deleteAll()
    const cursors: { rowsWritten: number }[] = []
    const { sql } = storage
    const exec = sql.exec.bind(sql)
    Object.defineProperty(sql, 'exec', {
      value: (text: string, ...values: unknown[]) => {
        const cursor = exec(text, ...values)
        cursors.push(cursor)
        return cursor
      },
      configurable: true,
    })
    await work(storage)
    const rows = cursors.reduce((sum, { rowsWritten }) => sum + rowsWritten, 0)
    const made = exec("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE '\\_%' ESCAPE '\\'")
    const schema = Object.fromEntries(made.toArray().map((row) => [row.name, row.sql]))
    const last = Number(exec('SELECT max(created_at) AS last_ms FROM __drizzle_migrations').one().last_ms)
    Reflect.deleteProperty(sql, 'exec')
    return { rows, schema, last }
  })
}

describe.each(KINDS)('the database of a %s', (kind, migrations) => {
  it('is made at once as its migrations would make it, in fewer rows', async () => {
    const apart = await onEmptyStorage(`${kind}-apart`, (storage) => migrate(drizzle(storage), migrations))
    const at_once = await onEmptyStorage(`${kind}-at-once`, (storage) =>
      new ActorDatabase(storage, migrations).writable(),
    )
    expect(Object.keys(at_once.schema).length).toBeGreaterThan(0)
    expect(at_once.schema).toEqual(apart.schema)
    expect(at_once.last).toBe(apart.last)
    expect(at_once.rows).toBeLessThan(apart.rows)
  })
})

describe('the database of an object that lives briefly', () => {
  const BREVITY = { without: ['leases'] }

  it('has no list of its migrations, and only the tables that are written', async () => {
    await runInDurableObject(env.CONVERSATION.getByName('brief'), async (_, { storage }) => {
      await storage.deleteAll()
      expect(await new ActorDatabase(storage, programMigrations, BREVITY).stored()).toBeNull()
      await new ActorDatabase(storage, programMigrations, BREVITY).writable()
      const tables = storage.sql.exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'",
      )
      expect(tables.toArray().map(({ name }) => name)).toEqual(['calls', 'runs'])
      storage.sql.exec("INSERT INTO runs VALUES ('r', '{}')")
      expect(await new ActorDatabase(storage, programMigrations, BREVITY).stored()).not.toBeNull()
      expect(storage.sql.exec('SELECT run FROM runs').toArray()).toEqual([{ run: 'r' }])
    })
  })

  it('is brought up to date by the migrations that come after it was made, once', async () => {
    const { journal, migrations } = programMigrations
    const last = journal.entries.at(-1) ?? expect.unreachable()
    const added = { ...last, idx: last.idx + 1, when: last.when + 1, tag: 'added' }
    const later: ActorMigrations = {
      ...programMigrations,
      journal: { entries: [...journal.entries, added] },
      migrations: { ...migrations, [`m${String(added.idx).padStart(4, '0')}`]: 'ALTER TABLE runs ADD more text' },
    }
    await runInDurableObject(env.CONVERSATION.getByName('brief-later'), async (_, { storage }) => {
      await storage.deleteAll()
      await new ActorDatabase(storage, programMigrations, BREVITY).writable()
      storage.sql.exec("INSERT INTO runs VALUES ('r', '{}')")
      for (let times = 0; times < 2; times += 1) await new ActorDatabase(storage, later, BREVITY).stored()
      expect(storage.sql.exec('SELECT run, more FROM runs').toArray()).toEqual([{ run: 'r', more: null }])
    })
  })
})

describe('a tenant of an earlier version', () => {
  beforeAll(provision)

  /** The migrations before `tag`, as that version had them. */
  function before(tag: string): ActorMigrations {
    const entries = tenantMigrations.journal.entries.filter((entry) => entry.tag < tag)
    return { ...tenantMigrations, journal: { entries } }
  }

  async function send(call: string, lease: string, granted_at_ms: number): Promise<void> {
    const record = await proven(recordOf(call, call, call, { lease, tenant: 'tenant-a' }), { granted_at_ms, key: null })
    const sent = await request('POST', '/agents/v1/records', TOKEN_EAST, { agent: 'agent-east', records: [record] })
    expect(await sent.json()).toMatchObject({ acknowledged: [lease] })
  }

  const callsSpent = async (): Promise<number> => {
    const spend = await request('GET', '/v1/spend', KEY_A)
    const { data } = (await spend.json()) as { data: { calls: number }[] }
    return data.reduce((sum, { calls }) => sum + calls, 0)
  }

  it('still counts each lease once, and a call whose engine was replaced once', async () => {
    const at_ms = Date.now()
    const day = new Date(at_ms).toISOString().slice(0, 10)
    await runInDurableObject(tenantActor(env, 'tenant-a') as never, async (_: unknown, state: DurableObjectState) => {
      await state.storage.deleteAll()
      await migrate(drizzle(state.storage), before('0010_leases_by_day'))
      const charge = { calls: 1, prompt_tokens: 1, cached_tokens: 0, output_tokens: 1, service_us: 1, cost_nanos: 0 }
      const place = { day, key: '', class: 'tenant', program: '', model: MODEL }
      for (const lease of ['old-1', 'old-2']) {
        const charged = JSON.stringify({ lease, granted_at_ms: at_ms, ...place, charge })
        state.storage.sql.exec('INSERT INTO metered VALUES (?, ?, ?, ?)', `call-${lease}`, lease, at_ms, charged)
      }
      const columns = "'', 'tenant', ?, 2, 2, 0, 2, 2, 0"
      state.storage.sql.exec(`INSERT INTO spend VALUES (?, ${columns})`, day, MODEL)
    })
    expect(await callsSpent()).toBe(2)
    await send('call-old-1', 'old-1', at_ms)
    expect(await callsSpent()).toBe(2)
    // It is charged in place of the one before.
    await send('call-old-2', 'replacing', at_ms + 1)
    expect(await callsSpent()).toBe(2)
    await send('call-new', 'new', at_ms)
    expect(await callsSpent()).toBe(3)
  })
})
