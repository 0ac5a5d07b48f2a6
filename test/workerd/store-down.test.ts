/** D1 does not answer. Requests that need it get a Retry-After. None is told that a key is wrong or a program absent. */
import { createExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { app } from '../../src/api/app.ts'
import { KEY_A, ORIGIN, provision, TOKEN_EAST } from './fixtures.ts'

beforeAll(provision)

beforeEach(() => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => undefined)
  return () => log.mockRestore()
})

const down = () => {
  throw new Error('D1 is down')
}

function ask(method: string, path: string, key: string, DB: unknown, body?: unknown): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
  const bindings = { ...env, DB } as typeof env
  return Promise.resolve(app.fetch(new Request(`${ORIGIN}${path}`, init), bindings, createExecutionContext()))
}

async function expectUnavailable(response: Response): Promise<void> {
  expect(response.status).toBe(503)
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(await response.json()).toMatchObject({ error: { type: 'server_error', code: 'store_unavailable' } })
}

const CHAT = { model: 'm', messages: [{ role: 'user', content: 'x' }] }
const broken = { prepare: down, batch: down }

it.each([
  ['a call', 'POST', '/v1/chat/completions', `sk-sy-${'n'.repeat(40)}`, CHAT],
  ['the models', 'GET', '/v1/models', `sk-sy-${'n'.repeat(40)}`, undefined],
  ['a program', 'GET', '/v1/programs/p', `sk-sy-${'n'.repeat(40)}`, undefined],
  ['an agent’s records', 'POST', '/agents/v1/records', TOKEN_EAST, { agent: 'agent-east', records: [] }],
])('with a key that is not in the cache: %s', async (_, method, path, key, body) => {
  await expectUnavailable(await ask(method, path, key, broken, body))
})

it('with a known key: a call finds the catalogue that came with it, an ended program needs the archive', async () => {
  expect((await ask('GET', '/v1/programs/none', KEY_A, env.DB)).status).toBe(404)
  expect((await ask('POST', '/v1/chat/completions', KEY_A, broken, CHAT)).status).toBe(404)
  await expectUnavailable(await ask('GET', '/v1/programs/none', KEY_A, broken))
  await expectUnavailable(await ask('GET', '/v1/programs/none/calls', KEY_A, broken))
  await expectUnavailable(await ask('GET', '/v1/programs?state=ended', KEY_A, broken))
  await expectUnavailable(await ask('DELETE', '/v1/programs/none', KEY_A, broken))
})

it('for the operator', async () => {
  await expectUnavailable(await ask('POST', '/admin/v1/tenants', env.ADMIN_KEY, broken, { name: 'x' }))
})
