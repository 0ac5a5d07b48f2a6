import { readFileSync } from 'node:fs'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { freshSecrets } from '../system/secrets.ts'
import { agentIdOf } from './agent-ids.ts'
import {
  applyMigrations,
  readMigrations,
  type SqlDatabase,
  type SqlStatement,
  splitStatements,
} from './d1-migrations.ts'
import { localProvision, provisionLocal } from './provision-local.ts'
import { regionPlace } from './regions.ts'
import { parseWorkerConfig, readWorkerConfig } from './worker-config.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
const WRANGLER_TOML = path.join(ROOT, 'wrangler.toml')

/** D1's API over node:sqlite: a batch is one transaction, as in D1. */
function testDatabase(): { sqlite: DatabaseSync; d1: SqlDatabase } {
  const sqlite = new DatabaseSync(':memory:')
  type Runnable = SqlStatement & { sql: string; values: (string | number | null)[] }
  const statement = (sql: string, values: (string | number | null)[]): Runnable => ({
    sql,
    values,
    bind: (...bound) => statement(sql, bound as (string | number | null)[]),
    all: async <Row>() => ({ results: sqlite.prepare(sql).all(...values) as Row[] }),
    run: async () => sqlite.prepare(sql).run(...values),
  })
  const d1: SqlDatabase = {
    prepare: (sql) => statement(sql, []),
    batch: async (statements) => {
      sqlite.exec('BEGIN')
      try {
        for (const { sql, values } of statements as Runnable[]) sqlite.prepare(sql).run(...values)
        sqlite.exec('COMMIT')
      } catch (error) {
        sqlite.exec('ROLLBACK')
        throw error
      }
    },
  }
  return { sqlite, d1 }
}

const FIRST = { name: '0000_first.sql', statements: ['CREATE TABLE a (x)', 'INSERT INTO a VALUES (1)'] }
const SECOND = { name: '0001_second.sql', statements: ['INSERT INTO a VALUES (2)'] }

test('each migration is applied once, in order, and booked as wrangler books it', async () => {
  const { sqlite, d1 } = testDatabase()
  expect(await applyMigrations(d1, [FIRST])).toEqual([FIRST.name])
  expect(await applyMigrations(d1, [FIRST, SECOND])).toEqual([SECOND.name])
  expect(await applyMigrations(d1, [FIRST, SECOND])).toEqual([])
  expect(sqlite.prepare('SELECT x FROM a').all()).toEqual([{ x: 1 }, { x: 2 }])
  const booked = sqlite.prepare('SELECT id, name, applied_at FROM d1_migrations').all()
  expect(booked).toMatchObject([
    { id: 1, name: FIRST.name },
    { id: 2, name: SECOND.name },
  ])
  expect(booked[0]?.applied_at).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
})

test('a migration that fails is named, leaves nothing of itself, and is tried again', async () => {
  const { sqlite, d1 } = testDatabase()
  const broken = { name: '0001_broken.sql', statements: ['INSERT INTO a VALUES (2)', 'INSERT INTO none VALUES (1)'] }
  await expect(applyMigrations(d1, [FIRST, broken])).rejects.toThrow(/0001_broken.sql/)
  expect(sqlite.prepare('SELECT x FROM a').all()).toEqual([{ x: 1 }])
  expect(await applyMigrations(d1, [FIRST, SECOND])).toEqual([SECOND.name])
})

test('statements are split at drizzle’s breakpoints and nowhere else', () => {
  expect(splitStatements("CREATE TABLE a (x);--> statement-breakpoint\nINSERT INTO a VALUES (';');\n")).toEqual([
    'CREATE TABLE a (x);',
    "INSERT INTO a VALUES (';');",
  ])
})

test('the repository’s migrations take the rows of a local system, and taking them again changes nothing', async () => {
  const { sqlite, d1 } = testDatabase()
  await applyMigrations(d1, await readMigrations(path.join(ROOT, 'migrations')))
  const regions = ['us-east', 'mars']
  const secrets = {
    ...(await freshSecrets()),
    agentTokens: { [agentIdOf('us-east')]: 'sya-a', [agentIdOf('mars')]: 'sya-b' },
  }
  const models = [
    { id: 'm', context_tokens: 2048 },
    { id: 'org/other:8b', context_tokens: 4096 },
  ]
  const system = { regions, models, secrets, now_ms: 1 }
  await provisionLocal(d1, system)
  await provisionLocal(d1, { ...system, now_ms: 2 })
  const count = (table: string) => sqlite.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows
  expect(['tenants', 'api_keys', 'regions', 'models', 'agents'].map(count)).toEqual([1, 1, 2, 2, 2])
  const stored = JSON.stringify(['api_keys', 'agents'].map((table) => sqlite.prepare(`SELECT * FROM ${table}`).all()))
  for (const secret of [secrets.apiKey, ...Object.values(secrets.agentTokens)]) expect(stored).not.toContain(secret)
})

test('an agent without a token is a mistake', async () => {
  const secrets = await freshSecrets()
  expect(() => localProvision({ regions: ['a'], models: [], secrets, now_ms: 1 })).toThrow(/a-1/)
})

test('a region that is not known has no place', () => {
  expect(regionPlace('eu-west').location_hint).toBe('weur')
  expect(regionPlace('mars')).toEqual({ location_hint: null, latitude: null, longitude: null })
})

test('what the control plane needs is read from wrangler.toml', async () => {
  const config = await readWorkerConfig(WRANGLER_TOML)
  expect(config).toMatchObject({ name: 'switchyard', main: 'src/worker.ts', database: { binding: 'DB' } })
  expect(config.durableObjects.map(({ className }) => className)).toContain('ProgramActor')
  expect(config.compatibilityFlags).toContain('enable_request_signal')
})

test('a Durable Object without an SQLite migration is refused, and so is a file that is no configuration', () => {
  const toml = readFileSync(WRANGLER_TOML, 'utf8')
  expect(() => parseWorkerConfig(toml.replace('"ProgramActor", "PoolActor"', '"PoolActor"'), 'w.toml')).toThrow(
    /ProgramActor/,
  )
  expect(() => parseWorkerConfig('name = "x"', 'w.toml')).toThrow(/w.toml/)
})
