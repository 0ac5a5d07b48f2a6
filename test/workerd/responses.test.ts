/** Stored responses and conversations through the whole Worker: real D1 and ResponsesActors. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { drizzle } from 'drizzle-orm/durable-sqlite'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { FLUSH_DELAY_MS, HISTORY_TURNS_MAX, KEPT_MS } from '../../src/actors/responses.ts'
import { responsesActorName, type StoredEntry } from '../../src/actors/responses-rpc.ts'
import { ResponsesStorage, sizeOf } from '../../src/actors/responses-storage.ts'
import { responsesActor } from '../../src/actors/stubs.ts'
import { provisionStatements } from '../../src/store/provision.ts'
import { storedTables } from './actor-tools.ts'

type Json = Record<string, unknown>

const MODEL = 'counted'

const KEYS = { 'tenant-r': `sk-sy-${'r'.repeat(40)}`, 'tenant-s': `sk-sy-${'s'.repeat(40)}` }

beforeAll(async () => {
  const statements = await provisionStatements(env.KEY_PEPPER, {
    created_at_ms: 1_700_000_000_500,
    tenants: Object.keys(KEYS).map((id) => ({ id, name: id, weight: 1 })),
    keys: Object.entries(KEYS).map(([tenant, key]) => ({ key, tenant, name: 'k' })),
    regions: [],
    models: [{ id: MODEL, ordering_service: 'modelled', context_tokens_max: 8192, bytes_per_token: 4 }],
    agents: [],
  })
  await env.DB.batch(statements.map(({ sql, params }) => env.DB.prepare(sql).bind(...params)))
})

async function ask(method: string, path: string, body?: unknown, tenant: keyof typeof KEYS = 'tenant-r') {
  const headers = { authorization: `Bearer ${KEYS[tenant]}`, 'content-type': 'application/json' }
  const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
  const response = await exports.default.fetch(new Request(`http://switchyard.test${path}`, init))
  return { status: response.status, body: (await response.json()) as Json }
}

function entry(key: string, change: Partial<StoredEntry> = {}): StoredEntry {
  const message = (role: string, text: string, id: string) => ({
    ...{ id, type: 'message', role, status: 'completed', content: [{ type: 'input_text', text }] },
  })
  return {
    ...{ key, previous: null, conversation: null, program: 'p', thread: 't', call: 'c', created_at_ms: 1 },
    input: JSON.stringify([message('user', `in ${key}`, `msg_${key}8000`)]),
    response: JSON.stringify({
      ...{ id: `resp_${key}`, object: 'response', status: 'completed' },
      output: [message('assistant', `out ${key}`, `msg_${key}0000`)],
    }),
    ...change,
  }
}

/** Of a tenant that has an API key. */
const actorOf = (shard: number) => responsesActor(env, 'tenant-r', shard)
/** Of a tenant whose objects only the test knows. */
const ownActor = (shard: number) => responsesActor(env, 'tenant-own', shard)
const ownStub = (shard: number) => env.RESPONSES.getByName(responsesActorName('tenant-own', shard))

async function flushed(shard: number, entries: number): Promise<void> {
  const stored = (_: unknown, state: DurableObjectState) =>
    storedTables(state).includes('entries') ? state.storage.sql.exec('SELECT key FROM entries').toArray().length : 0
  await expect.poll(() => runInDurableObject(ownStub(shard), stored)).toBe(entries)
}

describe('/v1/responses/{id}', () => {
  it('gives a response, its input with the turns before it, and deletes it', async () => {
    await actorOf(0).put(entry('00a1'))
    await actorOf(0).put(entry('00a2', { previous: '00a1' }))
    expect(await ask('GET', '/v1/responses/resp_00a2')).toMatchObject({ status: 200, body: { id: 'resp_00a2' } })
    const items = await ask('GET', '/v1/responses/resp_00a2/input_items?order=asc')
    expect((items.body.data as Json[]).map(({ id }) => id)).toEqual(['msg_00a18000', 'msg_00a10000', 'msg_00a28000'])
    const page = await ask('GET', '/v1/responses/resp_00a2/input_items?limit=1&after=msg_00a28000')
    expect(page.body).toMatchObject({ data: [{ id: 'msg_00a10000' }], has_more: true, last_id: 'msg_00a10000' })
    expect(await ask('DELETE', '/v1/responses/resp_00a2')).toEqual({
      ...{ status: 200, body: { id: 'resp_00a2', object: 'response', deleted: true } },
    })
    for (const method of ['GET', 'DELETE']) expect((await ask(method, '/v1/responses/resp_00a2')).status).toBe(404)
    expect((await ask('GET', '/v1/responses/resp_00a1')).status).toBe(200)
  })

  it('refuses to cancel, since nothing runs in the background', async () => {
    await actorOf(1).put(entry('01a1'))
    expect(await ask('POST', '/v1/responses/resp_01a1/cancel')).toMatchObject({
      ...{ status: 400, body: { error: { code: 'response_not_cancellable' } } },
    })
    expect((await ask('POST', '/v1/responses/resp_01ff/cancel')).status).toBe(404)
  })

  it('knows nothing of another tenant’s, and needs a key', async () => {
    await actorOf(2).put(entry('02a1'))
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/input_items'],
      ['DELETE', ''],
      ['POST', '/cancel'],
    ] as const) {
      const { status } = await ask(method, `/v1/responses/resp_02a1${path}`, undefined, 'tenant-s')
      expect(status, `${method} ${path}`).toBe(404)
    }
    const without = await exports.default.fetch(new Request('http://switchyard.test/v1/responses/resp_02a1'))
    expect(without.status).toBe(401)
    expect((await ask('GET', '/v1/responses/resp_02a1')).status).toBe(200)
  })

  it.each(['resp_', 'resp_zz11', 'resp_ff11', 'other', `resp_00${'a'.repeat(200)}`])('%s is not found', async (id) => {
    expect([400, 404]).toContain((await ask('GET', `/v1/responses/${id}`)).status)
  })
})

describe('/v1/responses/input_tokens', () => {
  const count = async (body: Json, tenant: keyof typeof KEYS = 'tenant-r') =>
    ask('POST', '/v1/responses/input_tokens', { model: MODEL, ...body }, tenant)
  const tokens = async (body: Json) => {
    const { status, body: counted } = await count(body)
    expect(status, JSON.stringify(counted)).toBe(200)
    expect(counted).toEqual({ object: 'response.input_tokens', input_tokens: expect.any(Number) })
    return Number(counted.input_tokens)
  }

  it('estimates by bytes what the model would read: input, instructions, tools', async () => {
    const plain = await tokens({ input: 'x'.repeat(400) })
    expect(plain).toBe(100)
    expect(await tokens({ input: 'x'.repeat(400), instructions: 'y'.repeat(400) })).toBe(200)
    const tools = [{ type: 'function', name: 'f', description: 'x'.repeat(400), parameters: { type: 'object' } }]
    expect(await tokens({ input: 'x'.repeat(400), tools })).toBeGreaterThan(plain + 100)
  })

  it('counts the stored turns that a response would continue, of its own tenant only', async () => {
    await actorOf(3).put(entry('03a1'))
    const plain = await tokens({ input: 'x'.repeat(400) })
    expect(await tokens({ input: 'x'.repeat(400), previous_response_id: 'resp_03a1' })).toBeGreaterThan(plain)
    const stolen = await count({ input: 'x', previous_response_id: 'resp_03a1' }, 'tenant-s')
    expect(stolen).toMatchObject({ status: 404, body: { error: { code: 'previous_response_not_found' } } })
  })

  it.each<[string, Json, number, string]>([
    ['an unknown model', { input: 'x', model: 'none' }, 404, 'model_not_found'],
    ['no model', { input: 'x', model: null }, 400, 'invalid_value'],
    ['items that are none', { input: [{ type: 'message', role: 'user', content: 5 }] }, 400, 'invalid_value'],
  ])('refuses %s', async (_, body, status, code) => {
    expect(await count(body)).toMatchObject({ status, body: { error: { code } } })
  })

  it('needs a key', async () => {
    const request = new Request('http://switchyard.test/v1/responses/input_tokens', { method: 'POST', body: '{}' })
    expect((await exports.default.fetch(request)).status).toBe(401)
  })
})

describe('/v1/responses/compact', () => {
  it('is refused by name', async () => {
    const refused = await ask('POST', '/v1/responses/compact', { model: MODEL, input: 'x' })
    expect(refused).toMatchObject({ status: 400, body: { error: { code: 'compaction_unsupported' } } })
  })
})

describe('/v1/conversations', () => {
  it('are made, read, changed and deleted', async () => {
    const made = await ask('POST', '/v1/conversations', { metadata: { a: 'b' } })
    expect(made).toMatchObject({ status: 200, body: { object: 'conversation', metadata: { a: 'b' } } })
    const path = `/v1/conversations/${made.body.id}`
    expect((await ask('GET', path)).body).toEqual(made.body)
    expect((await ask('POST', path, { metadata: { c: 'd' } })).body).toMatchObject({ metadata: { c: 'd' } })
    expect((await ask('GET', path, undefined, 'tenant-s')).status).toBe(404)
    expect((await ask('DELETE', path, undefined, 'tenant-s')).status).toBe(404)
    expect((await ask('DELETE', path)).body).toMatchObject({ object: 'conversation.deleted', deleted: true })
    expect((await ask('GET', path)).status).toBe(404)
  })

  it('hold items that can be added, listed, read and deleted one by one', async () => {
    const message = (content: string) => ({ type: 'message', role: 'user', content })
    const made = await ask('POST', '/v1/conversations', { items: [message('one')] })
    const path = `/v1/conversations/${made.body.id}/items`
    const added = await ask('POST', path, { items: [message('two'), message('three')] })
    const [two] = added.body.data as Json[]
    expect(two).toMatchObject({ role: 'user', content: [{ type: 'input_text', text: 'two' }], status: 'completed' })
    const texts = async () =>
      ((await ask('GET', `${path}?order=asc`)).body.data as { content: Json[] }[]).map(
        ({ content }) => content[0]?.text,
      )
    expect(await texts()).toEqual(['one', 'two', 'three'])
    expect((await ask('GET', `${path}/${two?.id}`)).body).toEqual(two)
    expect((await ask('DELETE', `${path}/${two?.id}`)).status).toBe(200)
    expect(await texts()).toEqual(['one', 'three'])
    expect((await ask('GET', `${path}/${two?.id}`)).status).toBe(404)
    expect((await ask('POST', '/v1/conversations/conv_00ff/items', { items: [message('x')] })).status).toBe(404)
  })

  it('bound what one request adds', async () => {
    const items = Array.from({ length: 21 }, () => ({ role: 'user', content: 'x' }))
    expect((await ask('POST', '/v1/conversations', { items })).status).toBe(400)
    expect((await ask('POST', '/v1/conversations', { metadata: { a: 1 } })).status).toBe(400)
  })
})

describe('a ResponsesActor', () => {
  it('reads what it has not written yet, and over an eviction what it has', async () => {
    const text = 'é'.repeat(1_500_000)
    const long = entry('03a1', { input: JSON.stringify([{ role: 'user', content: text }]) })
    await ownActor(3).put(long)
    expect(await ownActor(3).entry('03a1')).toEqual(long)
    await flushed(3, 1)
    await evictDurableObject(ownStub(3))
    expect(await ownActor(3).entry('03a1')).toEqual(long)
    expect(await ownActor(3).history({ previous: '03a1', conversation: null, entries: [] })).toMatchObject({
      ...{ status: 'found', last: { program: 'p', thread: 't', call: 'c', root: '03a1' } },
    })
  })

  it('says which response of a chain is missing', async () => {
    await ownActor(4).put(entry('04a1'))
    await ownActor(4).put(entry('04a2', { previous: '04a1' }))
    await ownActor(4).remove('04a1')
    expect(await ownActor(4).history({ previous: '04a2', conversation: null, entries: [] })).toEqual({
      ...{ status: 'missing', what: 'response', key: '04a1' },
    })
  })

  it('gives no more turns than its bound', async () => {
    const keyOf = (turn: number) => `05b${turn}`
    for (let turn = 1; turn <= HISTORY_TURNS_MAX + 1; turn += 1) {
      await ownActor(5).put(entry(keyOf(turn), { previous: turn === 1 ? null : keyOf(turn - 1) }))
    }
    const history = (turn: number) => ownActor(5).history({ previous: keyOf(turn), conversation: null, entries: [] })
    const found = await history(HISTORY_TURNS_MAX)
    expect(found.status === 'found' ? found.turns.length : found.status).toBe(HISTORY_TURNS_MAX)
    expect(await history(HISTORY_TURNS_MAX + 1)).toEqual({ status: 'too_long' })
  })

  it('deletes the least recently used chains when it holds too much, each as a whole', async () => {
    for (const key of ['02a1', '02b1', '02c1']) await ownActor(2).put(entry(key))
    await ownActor(2).put(entry('02a2', { previous: '02a1' }))
    await flushed(2, 4)
    const left = async (entries_max: number, chars_max: number) =>
      runInDurableObject(ownStub(2), (_, state) => {
        const storage = new ResponsesStorage(drizzle(state.storage))
        for (const [at_ms, root] of ['02b1', '02a1', '02c1'].entries()) storage.touch([root], at_ms)
        storage.evict(0, entries_max, chars_max)
        return ['02a1', '02a2', '02b1', '02c1'].filter((key) => storage.entry(key) !== null)
      })
    expect(await left(4, 1e6)).toHaveLength(4)
    expect(await left(3, 1e6)).toEqual(['02a1', '02a2', '02c1'])
    expect(await left(3, sizeOf(entry('02c1')))).toEqual(['02c1'])
  })

  it('drops what a deleted conversation would get', async () => {
    expect(await ownActor(6).put(entry('06a1', { conversation: '06ff' }))).toBe('dropped')
    expect(await ownActor(6).entry('06a1')).toBeNull()
  })

  it('forgets chains that were not used for a month, and leaves nothing behind', async () => {
    await ownActor(7).put(entry('07a1'))
    await flushed(7, 1)
    await new Promise((resolve) => setTimeout(resolve, FLUSH_DELAY_MS * 2))
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + KEPT_MS + 1000)
    try {
      expect(await runDurableObjectAlarm(ownStub(7))).toBe(true)
    } finally {
      clock.mockRestore()
    }
    expect(await runInDurableObject(ownStub(7), (_, state) => storedTables(state))).toEqual([])
    expect(await runInDurableObject(ownStub(7), (_, state) => state.storage.getAlarm())).toBeNull()
  })
})
