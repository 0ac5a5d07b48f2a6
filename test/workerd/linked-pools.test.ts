/** Pools that an agent has linked to are told from the many of a region and a model that never had one. */
import { env, exports } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { allPools, freshCatalogue } from '../../src/store/catalogue.ts'
import { noteLinked } from '../../src/store/linked-pools.ts'
import { json, MODEL, ORIGIN, provision, request, TOKEN_WEST } from './fixtures.ts'
import { Link } from './link-client.ts'

beforeAll(provision)

const admin = (method: string, path: string, body?: unknown) => request(method, path, env.ADMIN_KEY, body)
const listed = async (query: string): Promise<string[]> => {
  const { pools } = await json<{ pools: { region: string; model: string }[] }>(admin('GET', `/admin/v1/pools${query}`))
  return pools.map(({ region, model }) => `${region} ${model}`)
}

it('tells a pool as linked from its first link on', async () => {
  await admin('POST', '/admin/v1/models', { id: 'another', context_tokens_max: 4096 })
  expect(await listed('?linked=true')).toEqual([])
  const headers = { authorization: `Bearer ${TOKEN_WEST}`, upgrade: 'websocket' }
  const query = new URLSearchParams({ region: 'eu-west', model: MODEL })
  const response = await exports.default.fetch(new Request(`${ORIGIN}/agents/v1/link?${query}`, { headers }))
  if (response.webSocket === null) throw new Error(`no link: ${response.status}`)
  const link = new Link(response.webSocket)
  // The link does not wait long for D1.
  await expect.poll(() => listed('?linked=true')).toEqual([`eu-west ${MODEL}`])
  expect(await listed('')).toHaveLength(4)
  const { linked, others } = allPools(await freshCatalogue(env))
  expect(linked).toMatchObject([{ region: { id: 'eu-west' }, model: MODEL }])
  expect(others).toHaveLength(3)
  link.socket.close(1000)
  expect(await listed('?linked=true')).toEqual([`eu-west ${MODEL}`])
})

/** D1 that can go away and come back, and the work that goes on behind an opened link. */
function around() {
  const state = { away: false, behind: [] as Promise<void>[] }
  const prepare = (sql: string): D1PreparedStatement => {
    if (state.away) throw new Error('D1 is away')
    return env.DB.prepare(sql)
  }
  const waitUntil = (work: Promise<void>): void => void state.behind.push(work)
  return { state, at: { env: { ...env, DB: { prepare } as unknown as D1Database }, waitUntil } }
}

it('writes a pool once', async () => {
  const known = await freshCatalogue(env)
  const { state, at } = around()
  await noteLinked(at, known, 'us-east', MODEL)
  await noteLinked(at, known, 'us-east', MODEL)
  await Promise.all(state.behind)
  const { linked } = await freshCatalogue(env)
  expect([...(linked.get(MODEL) ?? [])].sort()).toEqual(['eu-west', 'us-east'])
  // Known already: D1 is not asked.
  await noteLinked(at, { ...known, linked }, 'us-east', MODEL)
  expect(state.behind).toHaveLength(2)
})

it('lets a link open while D1 is away, and writes the pool when D1 is back', async () => {
  const { state, at } = around()
  state.away = true
  await noteLinked(at, await freshCatalogue(env), 'us-east', 'another')
  expect((await freshCatalogue(env)).linked.has('another')).toBe(false)
  state.away = false
  await Promise.all(state.behind)
  expect((await freshCatalogue(env)).linked.get('another')).toContain('us-east')
})
