/** The operator's routes, keys from their making to their end, and the edges that every route shares. */
import { env, exports } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { HEADERS_BYTES_MAX } from '../../src/api/boundary.ts'
import { CACHE_TTL_MS } from '../../src/store/isolate-cache.ts'
import { authenticate } from '../../src/store/keys.ts'
import { hashSecret } from '../../src/store/secrets.ts'
import { json, KEY_A, MODEL, ORIGIN, provision, request } from './fixtures.ts'

beforeAll(provision)

const admin = (method: string, path: string, body?: unknown) => request(method, path, env.ADMIN_KEY, body)

describe('tenants and keys', () => {
  it('makes a tenant and a key that works, and keeps only the key’s hash', async () => {
    const created = await admin('POST', '/admin/v1/tenants', { id: 'made', name: 'Made', weight: 3 })
    expect(created.status).toBe(201)
    const { key } = await json<{ key: string }>(admin('POST', '/admin/v1/tenants/made/keys', { name: 'laptop' }))
    expect(key).toMatch(/^sk-sy-[0-9A-Za-z]{48}$/)
    expect((await request('POST', '/v1/programs', key, { id: 'of-made' })).status).toBe(201)
    const dump = await env.DB.prepare('SELECT * FROM api_keys').all()
    expect(JSON.stringify(dump.results)).not.toContain(key.slice(6))
    const keyed = new Request(ORIGIN, { headers: { authorization: `Bearer ${key}` } })
    expect(await authenticate(keyed, env)).toMatchObject({ status: 'tenant', identity: { tenant: 'made', weight: 3 } })
  })

  it.each([
    ['a tenant that exists', '/admin/v1/tenants', { id: 'tenant-a', name: 'A' }, 409],
    ['a tenant without a name', '/admin/v1/tenants', { id: 'x' }, 400],
    ['a weight of 0', '/admin/v1/tenants', { name: 'x', weight: 0 }, 400],
    ['a weight of 1,001', '/admin/v1/tenants', { name: 'x', weight: 1_001 }, 400],
    ['a weight of 1,000', '/admin/v1/tenants', { name: 'x', weight: 1_000 }, 201],
    ['a key of no tenant', '/admin/v1/tenants/nobody/keys', { name: 'x' }, 404],
    ['a body over 16 KiB', '/admin/v1/tenants', { name: 'x'.repeat(17_000) }, 413],
  ])('judges %s', async (_, path, body, status) => {
    expect((await admin('POST', path, body)).status).toBe(status)
  })

  it.each([null, KEY_A, 'sy-admin-wrong', ''])('is closed to the key %s', async (key) => {
    expect((await request('GET', '/admin/v1/pools', key)).status).toBe(401)
    expect((await request('POST', '/admin/v1/tenants', key, { name: 'x' })).status).toBe(401)
  })

  it('forgets a revoked key within the life of a cache entry', async () => {
    const { key } = await json<{ key: string }>(admin('POST', '/admin/v1/tenants/tenant-b/keys', { name: 'short' }))
    const keyed = new Request(ORIGIN, { headers: { authorization: `Bearer ${key}` } })
    const now_ms = Date.now()
    expect((await authenticate(keyed, env, now_ms)).status).toBe('tenant')
    const hash = await hashSecret(env.KEY_PEPPER, key)
    await env.DB.prepare('UPDATE api_keys SET revoked_at_ms = ? WHERE hash = ?').bind(now_ms, hash).run()
    expect((await authenticate(keyed, env, now_ms + CACHE_TTL_MS - 1)).status).toBe('tenant')
    expect(await authenticate(keyed, env, now_ms + CACHE_TTL_MS)).toEqual({ status: 'refused', reason: 'unknown' })
  })
})

describe('pools', () => {
  it('shows every region and model', async () => {
    const { pools } = await json<{ pools: { region: string; model: string }[] }>(admin('GET', '/admin/v1/pools'))
    expect(pools).toMatchObject([
      { region: 'us-east', model: MODEL, engines: [], reachable: true },
      { region: 'eu-west', model: MODEL, engines: [], reachable: true },
    ])
  })
})

describe('every route', () => {
  it.each([
    ['PUT', '/v1/programs', KEY_A, 'GET, POST, HEAD'],
    ['GET', '/v1/chat/completions', null, 'POST'],
    ['DELETE', '/v1/models/org/model', null, 'GET, HEAD'],
    ['POST', '/healthz', null, 'GET, HEAD'],
    ['PUT', '/admin/v1/tenants/x', 'admin', 'GET, PATCH, HEAD'],
    ['PATCH', '/admin/v1/audit', 'admin', 'GET, HEAD'],
    ['DELETE', '/openapi.json', null, 'GET, HEAD'],
  ])('answers %s %s with 405 and what is allowed', async (method, path, key, allow) => {
    const response = await request(method, path, key === 'admin' ? env.ADMIN_KEY : key)
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')).toBe(allow)
    expect(await response.json()).toMatchObject({ error: { code: 'method_not_allowed' } })
  })

  it('answers 404 in OpenAI’s shape where there is nothing', async () => {
    const response = await request('GET', '/v2/nothing', null)
    expect(response.status).toBe(404)
    expect(await response.json()).toEqual({
      error: {
        message: 'There is nothing at GET /v2/nothing.',
        type: 'invalid_request_error',
        param: null,
        code: 'not_found',
      },
    })
  })

  it.each([
    ['at', HEADERS_BYTES_MAX, 200],
    ['past', HEADERS_BYTES_MAX + 1, 431],
  ])('bounds headers: %s the bound', async (_, bytes, status) => {
    const init = { headers: { 'x-padding': 'x'.repeat(bytes - 'x-padding'.length) } }
    const response = await exports.default.fetch(new Request(`${ORIGIN}/healthz`, init))
    expect(response.status).toBe(status)
  })

  it('is listed in /openapi.json, whose references all resolve', async () => {
    const document = await json<{ paths: object }>(request('GET', '/openapi.json', null))
    expect(Object.keys(document.paths)).toEqual(
      expect.arrayContaining([
        ...['/v1/programs', '/v1/programs/{id}', '/v1/programs/{id}/calls', '/agents/v1/link', '/agents/v1/records'],
        ...['/admin/v1/tenants', '/admin/v1/tenants/{id}/keys', '/admin/v1/pools', '/healthz'],
      ]),
    )
    for (const [, path = ''] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
      const found = path.split('/').reduce<unknown>((at, step) => (at as Record<string, unknown>)?.[step], document)
      expect(found, path).toBeDefined()
    }
  })

  it('says it is healthy without a key', async () => {
    expect(await json(request('GET', '/healthz', null))).toEqual({ status: 'ok' })
  })
})
