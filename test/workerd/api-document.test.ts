/** What the edge answers on every route is in /openapi.json. */
import { env, exports } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { type Operation, operations } from './api-document.ts'
import { KEY_A, ORIGIN, provision, request, TOKEN_EAST } from './fixtures.ts'

const KEYS = { apiKey: KEY_A, agentToken: TOKEN_EAST, adminKey: env.ADMIN_KEY, none: null }

let all: Operation[] = []
beforeAll(async () => {
  await provision()
  all = await operations()
  expect(all.length).toBeGreaterThan(50)
})

const filled = (path: string): string => path.replaceAll(/\{\w+\}/g, 'nothing')

it('says 401 of every route that asks for a key, and none of these answers without one', async () => {
  const closed = all.filter(({ scheme }) => scheme !== 'none')
  for (const { method, path, name, statuses, has_body } of closed) {
    const response = await request(method, filled(path), null, has_body ? {} : undefined)
    expect([name, response.status]).toEqual([name, 401])
    expect(statuses, name).toContain(401)
  }
})

it('says 400 of every route that takes a body, and answers it', async () => {
  const taking = all.filter(({ has_body }) => has_body)
  for (const { method, path, name, statuses, scheme } of taking) {
    const headers = { authorization: `Bearer ${KEYS[scheme]}`, 'content-type': 'application/json' }
    const response = await exports.default.fetch(new Request(ORIGIN + filled(path), { method, headers, body: '{"' }))
    expect([name, response.status]).toEqual([name, 400])
    expect(statuses, name).toEqual(expect.arrayContaining([400, 413, 415]))
  }
})

it('documents what an empty body and unknown ids are answered with', async () => {
  for (const { method, path, name, statuses, scheme, has_body } of all) {
    const response = await request(method, filled(path), KEYS[scheme], has_body ? {} : undefined)
    await response.body?.cancel()
    expect(statuses, `${name} answered ${response.status}`).toContain(response.status)
  }
})

it('says of every 429 that it names a time to come back', async () => {
  const document = (await (await request('GET', '/openapi.json', null)).json()) as {
    paths: Record<string, Record<string, { responses?: Record<string, { headers?: Record<string, unknown> }> }>>
  }
  const limited = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, { responses = {} }]) =>
      responses[429] === undefined
        ? []
        : [{ route: `${method} ${path}`, headers: Object.keys(responses[429].headers ?? {}) }],
    ),
  )
  expect(limited.length).toBeGreaterThan(5)
  for (const { route, headers } of limited) expect(headers, route).toContain('Retry-After')
})
