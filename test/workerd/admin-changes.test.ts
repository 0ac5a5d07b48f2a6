/** What operators change, that it takes effect, and that each change leaves one row in the audit table and no secret there. */
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { KEY_GRANTS_MAX, LIVE_PROGRAMS_DEFAULT } from '../../src/api/admin/schemas.ts'
import { PAGE_LIMIT_MAX } from '../../src/api/program-schemas.ts'
import { DIALECTS, type DialectName } from '../../src/relay/dialects/index.ts'
import { CACHE_TTL_MS } from '../../src/store/isolate-cache.ts'
import { authenticate } from '../../src/store/keys.ts'
import { json, KEY_A, MODEL, ORIGIN, openCall, provision, request } from './fixtures.ts'

beforeAll(provision)

const admin = (method: string, path: string, body?: unknown) => request(method, `/admin/v1${path}`, env.ADMIN_KEY, body)
const code = async (response: Promise<Response>) => (await json<{ error: { code: string } }>(response)).error.code

interface Audit {
  data: { action: string; actor: string; object: string; before: unknown; after: Record<string, unknown> }[]
  next_cursor: string | null
}
const auditOf = (object: string) => json<Audit>(admin('GET', `/audit?object=${encodeURIComponent(object)}`))

describe('tenants', () => {
  it('are made, listed, read, changed and disabled, each with its row', async () => {
    await admin('POST', '/tenants', { id: 'acme', name: 'Acme', calls_per_minute_max: 60 })
    const changed = await admin('PATCH', '/tenants/acme', { weight: 4, calls_per_minute_max: null, disabled: true })
    expect(await changed.json()).toMatchObject({ id: 'acme', weight: 4, calls_per_minute_max: null })
    expect(await json(admin('GET', '/tenants/acme'))).toMatchObject({ weight: 4, disabled_at: expect.any(String) })
    const { data } = await json<{ data: { id: string }[] }>(admin('GET', '/tenants'))
    expect(data.map(({ id }) => id)).toEqual(['acme', 'tenant-a', 'tenant-b'])
    const audit = await auditOf('tenant:acme')
    expect(audit.data.map(({ action }) => action)).toEqual(['tenant.update', 'tenant.create'])
    expect(audit.data[0]).toMatchObject({
      actor: expect.stringMatching(/^admin-[0-9a-f]{12}$/),
      before: { weight: 1, calls_per_minute_max: 60, disabled_at_ms: null },
      after: { weight: 4, calls_per_minute_max: null, disabled_at_ms: expect.any(Number) },
    })
    expect(audit.data[1]?.before).toBeNull()
  })

  it('have an objective of their own or the model’s', async () => {
    const objectiveOf = async (answer: Promise<Response>) =>
      (await json<{ objective: string | null }>(answer)).objective
    expect(await objectiveOf(admin('POST', '/tenants', { id: 'aims', name: 'A' }))).toBeNull()
    expect(await objectiveOf(admin('PATCH', '/tenants/aims', { objective: 'response' }))).toBe('response')
    const { key } = await json<{ key: string }>(admin('POST', '/tenants/aims/keys', {}))
    const asked = new Request(ORIGIN, { headers: { authorization: `Bearer ${key}` } })
    expect(await authenticate(asked, env)).toMatchObject({ identity: { tenant: 'aims', objective: 'response' } })
    expect(await objectiveOf(admin('PATCH', '/tenants/aims', { objective: null }))).toBeNull()
    expect((await admin('PATCH', '/tenants/aims', { objective: 'fairness' })).status).toBe(400)
    for (const table of ['api_keys', 'tenants'])
      await env.DB.prepare(`delete from ${table} where ${table === 'tenants' ? 'id' : 'tenant'} = 'aims'`).run()
  })

  it('have a limit of programs unless the operator says otherwise', async () => {
    const made = async (id: string, fields: object) => {
      await admin('POST', '/tenants', { id, name: id, ...fields })
      return (await json<{ live_programs_max: number | null }>(admin('GET', `/tenants/${id}`))).live_programs_max
    }
    expect(await made('plain', {})).toBe(LIVE_PROGRAMS_DEFAULT)
    expect(await made('bounded', { live_programs_max: 7 })).toBe(7)
    expect(await made('unbounded', { live_programs_max: null })).toBeNull()
    for (const id of ['plain', 'bounded', 'unbounded'])
      await env.DB.prepare('delete from tenants where id = ?').bind(id).run()
  })

  it('say what is wrong, and what is refused leaves no row', async () => {
    expect(await code(admin('PATCH', '/tenants/nobody', { weight: 2 }))).toBe('tenant_not_found')
    expect(await code(admin('POST', '/tenants', { id: 'tenant-a', name: 'A' }))).toBe('tenant_exists')
    expect(await json(admin('POST', '/tenants', { id: 'nameless' }))).toMatchObject({
      error: { message: '`name` is missing. It is of the type string.', param: 'name', code: 'invalid_value' },
    })
    expect((await admin('PATCH', '/tenants/tenant-a', {})).status).toBe(400)
    expect((await admin('PATCH', '/tenants/tenant-a', { wieght: 2 })).status).toBe(400)
    expect((await auditOf('tenant:nobody')).data).toEqual([])
    expect((await auditOf('tenant:tenant-a')).data).toEqual([])
  })

  it('answer 403 to the key of a disabled one, once the cache has forgotten', async () => {
    await admin('POST', '/tenants', { id: 'off', name: 'Off' })
    const { key } = await json<{ key: string }>(admin('POST', '/tenants/off/keys', {}))
    await admin('PATCH', '/tenants/off', { disabled: true })
    const refused = await request('GET', '/v1/models', key)
    expect(refused.status).toBe(403)
    expect(await refused.json()).toMatchObject({ error: { type: 'permission_error', code: 'tenant_disabled' } })
  })
})

describe('keys', () => {
  it('are shown once, listed without it, revoked, and refused within the life of a cache entry', async () => {
    const created = await json<{ key: string; id: string }>(admin('POST', '/tenants/tenant-b/keys', { name: 'ci' }))
    const keyed = new Request(ORIGIN, { headers: { authorization: `Bearer ${created.key}` } })
    const now_ms = Date.now()
    expect((await authenticate(keyed, env, now_ms)).status).toBe('tenant')
    const listed = await (await admin('GET', '/tenants/tenant-b/keys')).text()
    expect(listed).toContain(created.id)
    expect(listed).not.toContain(created.key)
    const revoked = await admin('DELETE', `/tenants/tenant-b/keys/${created.id}`)
    expect(await revoked.json()).toMatchObject({ id: created.id, revoked_at: expect.any(String) })
    expect((await authenticate(keyed, env, now_ms + CACHE_TTL_MS - 1)).status).toBe('tenant')
    expect(await authenticate(keyed, env, now_ms + CACHE_TTL_MS)).toEqual({ status: 'refused', reason: 'unknown' })
    expect(CACHE_TTL_MS).toBeLessThanOrEqual(10_000)
    expect((await admin('DELETE', `/tenants/tenant-b/keys/${created.id}`)).status).toBe(200)
    const audit = await auditOf(`key:${created.id}`)
    expect(audit.data.map(({ action }) => action)).toEqual(['key.revoke', 'key.create'])
    const dump = JSON.stringify((await env.DB.prepare('SELECT * FROM audit').all()).results)
    const { hash } =
      (await env.DB.prepare("SELECT hash FROM api_keys WHERE name = 'ci'").first<{ hash: string }>()) ?? {}
    expect(dump).toContain(created.id)
    expect(dump).not.toContain(created.key.slice(6))
    expect(dump).not.toContain(hash)
  })

  it('may be strict, and stop being so', async () => {
    const keys = '/tenants/tenant-b/keys'
    const created = await json<{ id: string; key: string; strict: boolean }>(admin('POST', keys, { strict: true }))
    expect(created.strict).toBe(true)
    const seen = async (at_ms: number) => {
      const found = await authenticate(new Request(ORIGIN, { headers: { 'x-api-key': created.key } }), env, at_ms)
      return found.status === 'tenant' ? found.identity.strict : found.reason
    }
    const now_ms = Date.now()
    expect(await seen(now_ms)).toBe(true)
    const call = { model: MODEL, messages: [{ role: 'user', content: 'Hi' }], store: true }
    const refused = await request('POST', '/v1/chat/completions', created.key, call)
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: { param: 'store' } }])
    const changed = await admin('PATCH', `${keys}/${created.id}`, { strict: false })
    expect(await changed.json()).toMatchObject({ id: created.id, strict: false })
    expect(await seen(now_ms + CACHE_TTL_MS)).toBe(false)
    expect(await code(admin('PATCH', `${keys}/${created.id}`, { strict: 'yes' }))).toBe('invalid_value')
  })

  it('cannot be revoked through another tenant, nor by what is no id of ours', async () => {
    const { id, key } = await json<{ id: string; key: string }>(admin('POST', '/tenants/tenant-b/keys', {}))
    expect(await code(admin('DELETE', `/tenants/tenant-a/keys/${id}`))).toBe('key_not_found')
    for (const wrong of ['key-', 'key-%25', 'x', id.slice(0, -1)]) {
      expect(await code(admin('DELETE', `/tenants/tenant-b/keys/${wrong}`)), wrong).toBe('key_not_found')
    }
    expect((await request('GET', '/v1/models', key)).status).toBe(200)
  })

  it('are held to other models and regions by a change, with its row, until they are revoked', async () => {
    const keys = '/tenants/tenant-b/keys'
    const { id, key } = await json<{ id: string; key: string }>(admin('POST', keys, { regions: ['eu-west'] }))
    const now_ms = Date.now()
    const seen = async (at_ms: number) => {
      const keyed = new Request(ORIGIN, { headers: { authorization: `Bearer ${key}` } })
      const found = await authenticate(keyed, env, at_ms)
      return found.status === 'tenant' ? [found.identity.models, found.identity.regions] : found.reason
    }
    expect(await seen(now_ms)).toEqual([null, ['eu-west']])
    const changed = await admin('PATCH', `${keys}/${id}`, { models: [MODEL], name: 'narrow' })
    const now_held = { id, name: 'narrow', models: [MODEL], regions: ['eu-west'], revoked_at: null }
    expect([changed.status, await changed.json()]).toMatchObject([200, now_held])
    expect(await seen(now_ms + CACHE_TTL_MS)).toEqual([[MODEL], ['eu-west']])
    expect((await admin('PATCH', `${keys}/${id}`, { regions: null })).status).toBe(200)
    expect(await seen(now_ms + 2 * CACHE_TTL_MS)).toEqual([[MODEL], null])
    const audit = await auditOf(`key:${id}`)
    expect(audit.data.map(({ action, before, after }) => [action, before, after])).toMatchObject([
      ['key.update', { models: [MODEL], regions: ['eu-west'] }, { models: [MODEL], regions: null }],
      ['key.update', { models: null, name: 'default' }, { models: [MODEL], name: 'narrow' }],
      ['key.create', null, { id }],
    ])
    for (const [change, wrong] of [
      [{ models: ['nope'] }, 'model_not_found'],
      [{ regions: ['mars'] }, 'region_not_found'],
      [{ regions: [] }, 'invalid_value'],
      [{}, 'invalid_value'],
      [{ hash: 'x' }, 'invalid_value'],
    ] as const) {
      expect(await code(admin('PATCH', `${keys}/${id}`, change))).toBe(wrong)
    }
    expect(await code(admin('PATCH', `/tenants/tenant-a/keys/${id}`, { name: 'x' }))).toBe('key_not_found')
    expect(await code(admin('PATCH', `${keys}/${key}`, { name: 'x' }))).toBe('invalid_id')
    await admin('DELETE', `${keys}/${id}`)
    expect(await code(admin('PATCH', `${keys}/${id}`, { models: null }))).toBe('key_revoked')
    expect((await auditOf(`key:${id}`)).data).toHaveLength(4)
  })

  it('are not echoed where one is sent in place of its id', async () => {
    const { key } = await json<{ key: string }>(admin('POST', '/tenants/tenant-b/keys', {}))
    const answer = await admin('DELETE', `/tenants/tenant-b/keys/${key}`)
    const text = await answer.text()
    expect([answer.status, JSON.parse(text).error.code]).toEqual([400, 'invalid_id'])
    expect(text).not.toContain(key)
  })

  it('are held to models and regions that exist, at most so many', async () => {
    const make = (grants: object) => admin('POST', '/tenants/tenant-a/keys', grants)
    expect(await code(make({ models: ['nope'] }))).toBe('model_not_found')
    expect(await code(make({ regions: ['mars'] }))).toBe('region_not_found')
    const many = (n: number) => ({ models: Array.from({ length: n }, () => MODEL) })
    expect((await make(many(KEY_GRANTS_MAX))).status).toBe(201)
    expect((await make(many(KEY_GRANTS_MAX + 1))).status).toBe(400)
    expect((await make({ models: [] })).status).toBe(400)
  })

  it('see and call only the models that they are held to', async () => {
    await admin('POST', '/models', { id: 'org/other', context_tokens_max: 10, ordering_service: 'wall' })
    const { key } = await json<{ key: string }>(admin('POST', '/tenants/tenant-a/keys', { models: ['org/other'] }))
    const { data } = await json<{ data: { id: string }[] }>(request('GET', '/v1/models', key))
    expect(data.map(({ id }) => id)).toEqual(['org/other'])
    expect((await request('GET', '/v1/models/org/other', key)).status).toBe(200)
    expect((await request('GET', `/v1/models/${MODEL}`, key)).status).toBe(404)
    const messages = [{ role: 'user', content: 'x' }]
    const bodies: Record<DialectName, object> = {
      ...{ chat: { messages }, completions: { prompt: 'x' }, embeddings: { input: 'x' } },
      ...{ messages: { messages, max_tokens: 5 }, responses: { input: 'x' } },
    }
    for (const [name, { path }] of Object.entries(DIALECTS)) {
      const refused = await request('POST', path, key, { model: MODEL, ...bodies[name as DialectName] })
      expect(refused.status).toBe(404)
      expect(await refused.text(), path).toContain(`The model '${MODEL}' does not exist`)
    }
  })
})

describe('models and regions', () => {
  it('are made, read, changed and listed, an id with a slash too', async () => {
    await admin('POST', '/models', { id: 'a/b', context_tokens_max: 100 })
    expect(await json(admin('GET', '/models/a%2Fb'))).toMatchObject({ objective: 'token_latency' })
    const changed = await admin('PATCH', '/models/a%2Fb', { ordering_service: 'wall', objective: 'response' })
    expect(await changed.json()).toMatchObject({
      ...{ id: 'a/b', ordering_service: 'wall', objective: 'response', context_tokens_max: 100 },
    })
    expect((await admin('GET', '/models/a%2Fb')).status).toBe(200)
    expect(await code(admin('POST', '/models', { id: 'a/b', context_tokens_max: 1 }))).toBe('model_exists')
    expect(await code(admin('PATCH', '/models/none', { context_tokens_max: 1 }))).toBe('model_not_found')
    expect((await auditOf('model:a/b')).data.map(({ action }) => action)).toEqual(['model.update', 'model.create'])
  })

  it('keep regions in order of their position over pages', async () => {
    for (const [id, position] of [
      ['r-last', 9],
      ['r-b', 5],
      ['r-a', 5],
    ] as const) {
      expect(
        (await admin('POST', '/regions', { id, position, location_hint: 'weur', latitude: 1, longitude: 2 })).status,
      ).toBe(201)
    }
    await admin('PATCH', '/regions/r-last', { position: 6 })
    const ids: string[] = []
    let cursor: string | null = null
    do {
      const query: string = cursor === null ? '' : `&cursor=${cursor}`
      const page: { data: { id: string }[]; next_cursor: string | null } = await json(
        admin('GET', `/regions?limit=2${query}`),
      )
      ids.push(...page.data.map(({ id }) => id))
      cursor = page.next_cursor
    } while (cursor !== null)
    expect(ids).toEqual(['us-east', 'eu-west', 'r-a', 'r-b', 'r-last'])
    expect((await admin('POST', '/regions', { id: 'r-a,r-b' })).status).toBe(400)
    for (const wrong of [{ latitude: 91 }, { longitude: -181 }, { location_hint: 'moon' }, { position: -1 }]) {
      expect((await admin('PATCH', '/regions/r-a', wrong)).status).toBe(400)
    }
  })
})

describe('the audit table', () => {
  it('is read in pages, the latest first, and only with a cursor of ours', async () => {
    const all: string[] = []
    let cursor: string | null = null
    do {
      const query: string = cursor === null ? '' : `&cursor=${cursor}`
      const page: Audit = await json(admin('GET', `/audit?limit=3${query}`))
      all.push(...page.data.map(({ action, object }) => `${action} ${object}`))
      cursor = page.next_cursor
    } while (cursor !== null)
    const rows = await env.DB.prepare('SELECT action, object FROM audit ORDER BY id DESC').all<Record<string, string>>()
    expect(all).toEqual(rows.results.map(({ action, object }) => `${action} ${object}`))
    expect(all.length).toBeGreaterThan(10)
    expect(await code(admin('GET', '/audit?cursor=nonsense'))).toBe('invalid_cursor')
    expect((await admin('GET', `/audit?limit=${PAGE_LIMIT_MAX + 1}`)).status).toBe(400)
  })

  it('and its change are one transaction: where the row cannot be written nothing changes', async () => {
    await env.DB.exec("CREATE TRIGGER no_audit BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END")
    const refused = await admin('PATCH', '/tenants/tenant-b', { weight: 9 })
    await env.DB.exec('DROP TRIGGER no_audit')
    expect(refused.status).toBe(503)
    expect(await json(admin('GET', '/tenants/tenant-b'))).toMatchObject({ weight: 2 })
  })
})

describe('a tenant’s programs', () => {
  it('can be read by the operator only, live and ended', async () => {
    await openCall('watched', 'call-1')
    const path = '/tenants/tenant-a/programs'
    expect(await json(admin('GET', `${path}/watched`))).toMatchObject({ id: 'watched', state: 'running', calls: 1 })
    const calls = await json<{ data: { id: string }[] }>(admin('GET', `${path}/watched/calls`))
    expect(calls.data.map(({ id }) => id)).toEqual(['call-1'])
    await expect.poll(async () => JSON.stringify(await json(admin('GET', path)))).toContain('watched')
    await request('DELETE', '/v1/programs/watched', KEY_A)
    const ended = await json<{ data: { id: string }[] }>(admin('GET', `${path}?state=ended`))
    expect(ended.data.map(({ id }) => id)).toContain('watched')
    expect(await code(admin('GET', '/tenants/tenant-b/programs/watched'))).toBe('program_not_found')
    expect(await code(admin('GET', '/tenants/nobody/programs'))).toBe('tenant_not_found')
    expect((await request('GET', `/admin/v1${path}/watched`, KEY_A)).status).toBe(401)
  })
})
