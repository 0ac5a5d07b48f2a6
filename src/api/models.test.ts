/** Models in Anthropic's form, through the whole Worker. OpenAI's form is in openai.test.ts. */
import { env, exports } from 'cloudflare:workers'
import type Anthropic from '@anthropic-ai/sdk'
import { beforeAll, describe, expect, it } from 'vitest'
import { provisionStatements } from '../store/provision.ts'
import { MODEL_PAGE_MAX } from './anthropic-models.ts'

const KEY = `sk-sy-${'n'.repeat(40)}`
const VERSION = { 'anthropic-version': '2023-06-01' }
const OLD = ['org/model-1', 'model-2', 'model-3']

beforeAll(async () => {
  const statements = await provisionStatements(env.KEY_PEPPER, {
    created_at_ms: 1_700_000_000_500,
    tenants: [{ id: 'a', name: 'A', weight: 1 }],
    keys: [{ key: KEY, tenant: 'a', name: 'k' }],
    regions: [{ id: 'us-east', location_hint: null, latitude: null, longitude: null }],
    models: OLD.map((id) => ({
      ...{ id, ordering_service: 'modelled' as const, context_tokens_max: 2048, bytes_per_token: 4 },
    })),
    agents: [],
  })
  await env.DB.batch(statements.map(({ sql, params }) => env.DB.prepare(sql).bind(...params)))
  await env.DB.prepare("UPDATE models SET created_at_ms = 1800000000000 WHERE id = 'model-3'").run()
})

async function ask(path: string, headers: Record<string, string> = {}, method = 'GET') {
  const init = { method, headers: { 'x-api-key': KEY, ...VERSION, ...headers } }
  const response = await exports.default.fetch(new Request(`http://switchyard.test${path}`, init))
  return { response, body: (await response.json()) as unknown }
}

/** Every field of the SDK's type, no more and no fewer. */
const info = (id: string, created_at: string): Anthropic.ModelInfo => ({
  ...{ type: 'model', id, display_name: id, created_at, lifecycle: 'active', line: null },
  ...{ deprecated_at: null, retires_at: null, max_input_tokens: 2048, max_tokens: 2048, capabilities: null },
})
const FIRST = '2023-11-14T22:13:20.500Z'
const NEWEST = info('model-3', '2027-01-15T08:00:00.000Z')

describe('models for a client of Anthropic’s API', () => {
  it('are listed with the newest first', async () => {
    const { response, body } = await ask('/v1/models')
    expect(response.status).toBe(200)
    expect(response.headers.get('request-id')).toMatch(/^req_/)
    const data = [NEWEST, info('model-2', FIRST), info('org/model-1', FIRST)]
    expect(body).toStrictEqual({ data, has_more: false, first_id: 'model-3', last_id: 'org/model-1' })
  })

  it.each([
    ['limit=2', ['model-3', 'model-2'], true],
    ['limit=2&after_id=model-3', ['model-2', 'org/model-1'], false],
    ['limit=1&after_id=model-3', ['model-2'], true],
    ['after_id=org%2Fmodel-1', [], false],
    ['limit=1&before_id=org%2Fmodel-1', ['model-2'], true],
    ['limit=5&before_id=org%2Fmodel-1', ['model-3', 'model-2'], false],
    [`limit=${MODEL_PAGE_MAX}`, ['model-3', 'model-2', 'org/model-1'], false],
  ])('come in pages: %s', async (query, ids, has_more) => {
    const { body } = await ask(`/v1/models?${query}`)
    const page = body as Anthropic.Models.ModelInfosPage
    expect(page.data.map(({ id }) => id)).toEqual(ids)
    const ends = { first_id: ids[0] ?? null, last_id: ids.at(-1) ?? null }
    expect(page).toMatchObject({ has_more, ...ends })
  })

  it.each([
    ['limit', 'limit=0'],
    ['limit', `limit=${MODEL_PAGE_MAX + 1}`],
    ['after_id', 'after_id=model-17'],
    ['before_id', 'before_id=model-17'],
    ['before_id', 'before_id=model-2&after_id=model-2'],
  ])('are refused by %s: %s', async (param, query) => {
    const { response, body } = await ask(`/v1/models?${query}`)
    expect(response.status).toBe(400)
    expect(body).toMatchObject({ type: 'error', error: { type: 'invalid_request_error', details: { param } } })
  })

  it('are given one by one', async () => {
    for (const path of ['/v1/models/model-3', '/v1/models/model%2D3']) {
      expect((await ask(path)).body).toStrictEqual(NEWEST)
    }
    expect((await ask('/v1/models/org/model-1')).body).toStrictEqual(info('org/model-1', FIRST))
  })

  it.each<[string, Parameters<typeof ask>, number, string]>([
    ['a model that does not exist', ['/v1/models/claude-17'], 404, 'not_found_error'],
    ['a wrong key', ['/v1/models', { 'x-api-key': 'sk-sy-x' }], 401, 'authentication_error'],
    ['an unknown version', ['/v1/models', { 'anthropic-version': '1999-01-01' }], 400, 'invalid_request_error'],
    ['an unknown version of one', ['/v1/models/model-3', { 'anthropic-version': 'x' }], 400, 'invalid_request_error'],
    ['another method', ['/v1/models', {}, 'PUT'], 405, 'invalid_request_error'],
  ])('%s is refused in its form', async (_, asked, status, type) => {
    const { response, body } = await ask(...asked)
    expect(response.status).toBe(status)
    expect(body).toMatchObject({ type: 'error', error: { type }, request_id: response.headers.get('request-id') })
  })

  it('are in OpenAI’s form without the header', async () => {
    const request = new Request('http://switchyard.test/v1/models/model-2', { headers: { 'x-api-key': KEY } })
    expect(await (await exports.default.fetch(request)).json()).toMatchObject({ object: 'model', id: 'model-2' })
  })
})
