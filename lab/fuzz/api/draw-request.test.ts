/** Requests that only succeed if two of their ids belong together, or if they name what the fuzzer has. */
import { expect, test } from 'vitest'
import { Random } from '../../chaos/random.ts'
import type { Operation } from './document.ts'
import { drawRequest } from './draw-request.ts'
import { KnownIds } from './known-ids.ts'

const KEYS = { apiKey: 'sk-sy-tenant', adminKey: 'sy-admin-operator', agentToken: 'sya-agent' }
const TARGET = { model: 'model', region: 'region', agent: 'agent', keys: KEYS }
const DRAWN = 200

function drawn(name: string, scheme: Operation['scheme'], ids: KnownIds) {
  const [method = '', path = ''] = name.split(' ')
  const operation = { name, method, path, scheme, parameters: [], body: { type: 'object' } }
  const document = { operations: [operation], schemas: {} }
  return Array.from({ length: DRAWN }, (_, at) => {
    const request = drawRequest(document, [operation], ids, TARGET, new Random(at))
    return { path: request.path, headers: request.headers, body: request.body?.toString('utf8') ?? '' }
  })
}

test('an upload is mostly completed with a part of its own', () => {
  const ids = new KnownIds({ upload: ['u1', 'u2', 'u3'], part: ['u1/p1', 'u2/p2', 'u3/p3'] }, {})
  const requests = drawn('POST /v1/uploads/{id}/complete', 'apiKey', ids)
  const own = requests.filter(({ path, body }) => {
    const upload = /^\/v1\/uploads\/u(\d)\/complete$/.exec(path)?.[1]
    return upload !== undefined && body === JSON.stringify({ part_ids: [`p${upload}`] })
  })
  expect(own.length).toBeGreaterThan(DRAWN / 8)
})

test('the operator changes and ends programs that the fuzzer has, and other things only if it made them', () => {
  const ids = new KnownIds({ tenant: ['local'], program: ['mine'] }, {})
  const ended = drawn('DELETE /admin/v1/tenants/{id}/programs/{program}', 'adminKey', ids)
  expect(ended.filter(({ path }) => path === '/admin/v1/tenants/local/programs/mine').length).toBeGreaterThan(
    DRAWN / 20,
  )
  const changed = drawn('PATCH /admin/v1/tenants/{id}', 'adminKey', ids)
  expect(changed.some(({ path }) => path.includes('local'))).toBe(false)
})

test('a page is signed in to with the tenant’s key, and as the page does it', () => {
  const requests = drawn('POST /page/session', 'none', new KnownIds({}, {}))
  const valid = requests.filter(
    ({ body, headers }) => body === JSON.stringify({ key: KEYS.apiKey }) && headers['x-switchyard-page'] !== undefined,
  )
  expect(valid.length).toBeGreaterThan(DRAWN / 8)
})
