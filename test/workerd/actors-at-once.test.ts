/** One request asks many actors, and never more than its bound side by side. */
import { createExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { POOLS_AT_ONCE_MAX } from '../../src/api/admin/pools.ts'
import { app } from '../../src/api/app.ts'
import { ACTORS_AT_ONCE_MAX } from '../../src/api/settle-records.ts'
import type { CallRecord } from '../../src/protocol/index.ts'
import { ORIGIN, proven, provision, recordOf, TOKEN_EAST } from './fixtures.ts'

beforeAll(provision)

/** Actors that take a moment to answer and count how many of them are asked at once. */
class Counted {
  most = 0
  #asked = 0

  async answer<T>(value: T): Promise<T> {
    this.#asked += 1
    this.most = Math.max(this.most, this.#asked)
    await new Promise((resolve) => setTimeout(resolve, 1))
    this.#asked -= 1
    return value
  }
}

function ask(method: string, path: string, key: string, bindings: object, body?: unknown): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
  const all = { ...env, ...bindings } as typeof env
  return Promise.resolve(app.fetch(new Request(`${ORIGIN}${path}`, init), all, createExecutionContext()))
}

it('a batch of records is settled with as many programs at once as the bound', async () => {
  const counted = new Counted()
  const settle = (records: CallRecord[]) =>
    counted.answer({ confirmed: records.map(({ lease }) => lease), gathered: [] })
  const PROGRAM = { getByName: () => ({ settle }) }
  const calls = Array.from({ length: ACTORS_AT_ONCE_MAX + 1 }, (_, i) => recordOf(`p${i}`, 'run', `call-${i}`))
  const records = await Promise.all(calls.map((record) => proven(record)))
  const response = await ask('POST', '/agents/v1/records', TOKEN_EAST, { PROGRAM }, { agent: 'agent-east', records })
  expect(((await response.json()) as { acknowledged: string[] }).acknowledged).toHaveLength(records.length)
  expect(counted.most).toBe(ACTORS_AT_ONCE_MAX)
})

it('pools are described with as many at once as the bound, in order of regions and models', async () => {
  for (let n = 0; n < POOLS_AT_ONCE_MAX; n += 1) {
    await env.DB.prepare('insert into regions (id, position) values (?, ?)')
      .bind(`region-${n}`, 100 + n)
      .run()
  }
  const counted = new Counted()
  const getByName = (name: string) => {
    const [region, model] = JSON.parse(name) as [string, string]
    const pool = { region, model, version: 1, taken_at_ms: 0, bytes_per_token: null, engines: [] }
    return { describe: () => counted.answer(pool) }
  }
  const response = await ask('GET', '/admin/v1/pools', env.ADMIN_KEY, { POOL: { getByName } })
  const { pools } = (await response.json()) as { pools: { region: string }[] }
  const extra = Array.from({ length: POOLS_AT_ONCE_MAX }, (_, n) => `region-${n}`)
  expect(pools.map(({ region }) => region)).toEqual(['us-east', 'eu-west', ...extra])
  expect(counted.most).toBe(POOLS_AT_ONCE_MAX)
})
