/** The page's sign-in, its policy, and what a viewer sees: through the Worker, as a browser asks. */
import { env, exports } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { openSession, SESSION_COOKIE, SESSION_MAX_AGE_S, sealSession } from '../../src/api/page/session-cookie.ts'
import { VIEWERS_PER_TENANT_MAX } from '../../src/api/page/viewers.ts'
import { LiveEvent } from '../../src/protocol/live.ts'
import { KEY_A, KEY_B, ORIGIN, openCall, provision, request } from './fixtures.ts'
import { soon } from './soon.ts'

const PAGE = { 'x-switchyard-page': '1' }
const ask = (path: string, init: RequestInit = {}) => exports.default.fetch(new Request(ORIGIN + path, init))

async function signIn(key: string, headers: Record<string, string> = PAGE): Promise<Response> {
  const body = JSON.stringify({ key })
  return ask('/page/session', { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } })
}

async function cookieOf(key: string): Promise<string> {
  const response = await signIn(key)
  expect(response.status).toBe(200)
  return response.headers.get('set-cookie')?.split(';')[0] ?? ''
}

const as = (cookie: string, headers: Record<string, string> = PAGE): RequestInit => ({
  headers: { cookie, ...headers },
})

const XSS = '<img src=x onerror=alert(1)>'

beforeAll(async () => {
  await provision()
  await openCall('program-of-a', 'call-of-a', 'tenant-a')
  await openCall('program-of-b', 'call-of-b', 'tenant-b')
  await request('POST', '/v1/programs', KEY_A, { id: XSS, app: XSS })
})

describe('the document', () => {
  it('is what a browser gets at /, and a probe gets JSON', async () => {
    const page = await ask('/', { headers: { accept: 'text/html,*/*' } })
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(page.headers.get('vary')).toBe('Accept')
    expect(await (await ask('/')).json()).toEqual({ status: 'ok' })
  })

  it('allows no inline script or style and nothing from elsewhere, and has none', async () => {
    const page = await ask('/', { headers: { accept: 'text/html' } })
    const policy = page.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("script-src 'self';")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain('unsafe')
    expect(page.headers.get('cache-control')).toBe('no-store')
    const html = await page.text()
    expect(html).not.toMatch(/<script(?![^>]* src="\/page\/assets\/)|<style|style=|\son\w+=|https?:/)
  })

  it('names its script and style, which a browser may keep', async () => {
    const html = await (await ask('/', { headers: { accept: 'text/html' } })).text()
    const names = [...html.matchAll(/"(\/page\/assets\/[^"]+)"/g)].map(([, path]) => path ?? '')
    expect(names.length).toBe(2)
    for (const path of names) {
      const asset = await ask(path)
      expect([asset.status, asset.headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable'])
      expect((await asset.text()).length).toBeGreaterThan(1000)
    }
    expect((await ask('/page/assets/constructor')).status).toBe(404)
  })
})

describe('sign-in', () => {
  it('gives a cookie that scripts cannot read and other sites cannot send, without the key in it', async () => {
    const cookie = (await signIn(KEY_A)).headers.get('set-cookie') ?? ''
    for (const part of ['HttpOnly', 'SameSite=Strict', 'Secure', 'Path=/', `Max-Age=${SESSION_MAX_AGE_S}`])
      expect(cookie).toContain(part)
    expect(cookie).not.toContain(KEY_A)
    expect(decodeURIComponent(cookie)).not.toContain(KEY_A.slice(6, 20))
  })

  it.each(['\u0000', 'sk-\u0000x', 'sk-\n', 'sk-ß', '日本'])('refuses %j, which no key can be', async (key) => {
    expect((await signIn(key)).status).toBe(key.trim() === 'sk-' ? 401 : 400)
  })

  it('knows the operator and a tenant, and nobody else', async () => {
    const session = async (key: string) => (await ask('/page/session', as(await cookieOf(key)))).json()
    expect(await session(env.ADMIN_KEY)).toEqual({ role: 'operator', tenant: null })
    expect(await session(KEY_A)).toEqual({ role: 'tenant', tenant: 'tenant-a' })
    const unknown = await signIn(`sk-sy-${'z'.repeat(40)}`)
    expect([unknown.status, unknown.headers.get('set-cookie')]).toEqual([401, null])
    expect((await ask('/page/session', as('', PAGE))).status).toBe(401)
  })

  it('counts only for requests of the page itself', async () => {
    const cookie = await cookieOf(env.ADMIN_KEY)
    expect((await ask('/admin/v1/tenants', as(cookie))).status).toBe(200)
    for (const headers of [
      {},
      { ...PAGE, 'sec-fetch-site': 'cross-site' },
      { ...PAGE, 'sec-fetch-site': 'same-site' },
    ]) {
      expect((await ask('/admin/v1/tenants', as(cookie, headers))).status).toBe(403)
      expect((await ask('/page/live', as(cookie, headers))).status).toBe(403)
    }
    expect((await signIn(KEY_A, {})).status).toBe(403)
  })

  it('opens no call to a model', async () => {
    const cookie = await cookieOf(KEY_A)
    for (const path of ['/v1/models', '/v1/files', '/v1/usage', '/metrics'])
      expect([path, (await ask(path, as(cookie))).status]).toEqual([path, 401])
  })

  it('ends: by signing out, by time, and by a changed cookie', async () => {
    const out = await ask('/page/session', { method: 'DELETE' })
    expect([out.status, out.headers.get('set-cookie')]).toEqual([204, expect.stringContaining('Max-Age=0')])
    const sealed = await sealSession(env.KEY_PEPPER, { key: KEY_A, expires_at_ms: 1000 })
    expect(await openSession(env.KEY_PEPPER, sealed, 999)).toEqual({ key: KEY_A, expires_at_ms: 1000 })
    expect(await openSession(env.KEY_PEPPER, sealed, 1000)).toBeNull()
    expect(await openSession('another pepper', sealed, 0)).toBeNull()
    const changed = `${sealed.slice(0, -2)}${sealed.endsWith('AA') ? 'BB' : 'AA'}`
    expect(await openSession(env.KEY_PEPPER, changed, 0)).toBeNull()
    for (const value of ['', 'x', '%%%', 'A'.repeat(5000)])
      expect(await openSession(env.KEY_PEPPER, value, 0)).toBeNull()
    expect((await ask('/v1/programs', as(`${SESSION_COOKIE}=${sealed}`))).status).toBe(401)
  })

  it('ends with its key', async () => {
    const made = await request('POST', '/admin/v1/tenants/tenant-a/keys', env.ADMIN_KEY, { name: 'for the page' })
    const { id, key } = (await made.json()) as { id: string; key: string }
    const cookie = await cookieOf(key)
    expect((await ask('/v1/programs', as(cookie))).status).toBe(200)
    await request('DELETE', `/admin/v1/tenants/tenant-a/keys/${id}`, env.ADMIN_KEY)
    await soon(async () => expect((await ask('/v1/programs', as(cookie))).status).toBe(401))
  })
})

describe('a tenant’s page', () => {
  it('shows its own programs, and no other’s, no engine and no operator’s address', async () => {
    const cookie = await cookieOf(KEY_A)
    await soon(async () => {
      const text = await (await ask('/page/live', as(cookie))).text()
      expect(text).toContain('program-of-a')
    })
    const event = LiveEvent.parse(await (await ask('/page/live', as(cookie))).json())
    expect(event.tenants.map(({ id }) => id)).toEqual(['tenant-a'])
    expect(event.pools).toBeNull()
    expect(event.tenants[0]?.service_share).toBeNull()
    expect(JSON.stringify(event)).not.toContain('program-of-b')
    for (const path of ['/admin/v1/tenants', '/admin/v1/audit', '/admin/v1/tenants/tenant-a/programs'])
      expect([path, (await ask(path, as(cookie))).status]).toEqual([path, 401])
    expect((await ask('/v1/programs/program-of-b', as(cookie))).status).toBe(404)
  })

  it('carries a hostile name as it is, in JSON', async () => {
    const cookie = await cookieOf(KEY_A)
    await soon(async () => {
      const live = await ask('/page/live', as(cookie))
      expect(live.headers.get('content-type')).toContain('application/json')
      const [tenant] = LiveEvent.parse(await live.json()).tenants
      expect(tenant?.changed.map(({ id }) => id)).toContain(XSS)
    })
  })
})

describe('the operator’s page', () => {
  it('ends a tenant’s program, and the audit names it', async () => {
    await openCall('program-to-end', 'call-to-end', 'tenant-b')
    const cookie = await cookieOf(env.ADMIN_KEY)
    const end = (program: string) =>
      ask(`/admin/v1/tenants/tenant-b/programs/${program}`, { method: 'DELETE', ...as(cookie) })
    const ended = await end('program-to-end')
    expect([ended.status, await ended.json()]).toEqual([
      200,
      expect.objectContaining({ state: 'ended', open_calls: 0 }),
    ])
    expect((await end('no-such-program')).status).toBe(404)
    const { data } = (await (await ask('/admin/v1/audit', as(cookie))).json()) as {
      data: { action: string; object: string }[]
    }
    expect(data.filter(({ action }) => action === 'program.end')).toEqual([
      expect.objectContaining({ object: 'program:tenant-b/program-to-end', before: null, after: null }),
    ])
  })

  it('shows all tenants and pools, and what only a program knows', async () => {
    const cookie = await cookieOf(env.ADMIN_KEY)
    await soon(async () => {
      const event = LiveEvent.parse(await (await ask('/page/live', as(cookie))).json())
      const programs = event.tenants.flatMap(({ changed }) => changed)
      expect(programs.map(({ id }) => id)).toEqual(expect.arrayContaining(['program-of-a', 'program-of-b']))
      expect(programs.find(({ id }) => id === 'program-of-a')).toMatchObject({
        open_calls: 1,
        detail: { engine: 'agent-east-e0', region: 'us-east' },
      })
      expect(event.pools?.map(({ region }) => region).sort()).toEqual(['eu-west', 'us-east'])
    })
  })

  it('goes on with what changed, and no more', async () => {
    const stop = new AbortController()
    const init = { ...as(await cookieOf(env.ADMIN_KEY), { ...PAGE, accept: 'text/event-stream' }), signal: stop.signal }
    const response = await ask('/page/live', init)
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    const reader = response.body?.getReader()
    const next = async () => {
      const { value } = (await reader?.read()) ?? {}
      return LiveEvent.parse(JSON.parse(new TextDecoder().decode(value).replace('data: ', '')))
    }
    const first = await next()
    expect(first.tenants.every(({ reset }) => reset)).toBe(true)
    await openCall('program-later', 'call-later', 'tenant-b')
    let changed: string[] = []
    while (changed.length === 0) {
      const event = await next()
      expect(event.tenants.some(({ reset }) => reset)).toBe(false)
      changed = event.tenants.flatMap((tenant) => tenant.changed.map(({ id }) => id))
    }
    expect(changed).toEqual(['program-later'])
    await reader?.cancel()
    stop.abort()
  })

  it(`is served ${VIEWERS_PER_TENANT_MAX} times to one tenant, and not once more`, async () => {
    const init = as(await cookieOf(KEY_B), { ...PAGE, accept: 'text/event-stream' })
    const open: Response[] = []
    for (let at = 0; at < VIEWERS_PER_TENANT_MAX; at++) open.push(await ask('/page/live', init))
    expect(open.map(({ status }) => status)).toEqual(open.map(() => 200))
    const refused = await ask('/page/live', init)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '30'])
    await refused.body?.cancel()
    for (const response of open) await response.body?.cancel()
    const again = await ask('/page/live', init)
    expect(again.status).toBe(200)
    await again.body?.cancel()
  })
})
