/** Bounds of what one isolate holds of D1, of cursors, and of what requests to the API's own routes may hold. */
import { env, exports } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { CURSOR_CHARS_MAX, decodeCursor, encodeCursor } from '../../src/actors/cursor.ts'
import { ADMIN_BODY_BYTES_MAX } from '../../src/api/admin/routes.ts'
import { WEIGHT_MAX } from '../../src/api/admin/schemas.ts'
import { PAGE_LIMIT_MAX } from '../../src/api/program-schemas.ts'
import { PROGRAM_BODY_BYTES_MAX } from '../../src/api/programs.ts'
import { catalogue, MODELS_MAX, REGIONS_MAX } from '../../src/store/catalogue.ts'
import { CACHE_TTL_MS } from '../../src/store/isolate-cache.ts'
import { KEY_A, ORIGIN, provision, request } from './fixtures.ts'

it('the catalogue holds as many regions and models as its bounds, the first by position and id', async () => {
  const id = (n: number) => String(n).padStart(5, '0')
  const region = env.DB.prepare('insert into regions (id, position) values (?1, ?2)')
  const model = env.DB.prepare(
    "insert into models (id, ordering_service, context_tokens_max, bytes_per_token, created_at_ms) values (?1, 'modelled', 1, 4, 0)",
  )
  const insert = (n: number) => [region.bind(`r${id(n)}`, n), model.bind(`m${id(n)}`)]
  await env.DB.batch(Array.from({ length: Math.max(REGIONS_MAX, MODELS_MAX) }, (_, n) => insert(n)).flat())
  const full = await catalogue(env, 0)
  expect([full.regions.length, full.models.size]).toEqual([REGIONS_MAX, MODELS_MAX])
  expect(full.regions.at(-1)?.position).toBe(REGIONS_MAX - 1)
  await env.DB.batch(insert(MODELS_MAX))
  const past = await catalogue(env, CACHE_TTL_MS)
  expect([past.regions.length, past.models.size]).toEqual([REGIONS_MAX, MODELS_MAX])
  expect(past.models.has(`m${id(MODELS_MAX)}`)).toBe(false)
})

it('a cursor of the bound is read, a longer one is not ours', () => {
  const of = (chars: number) => {
    const cursor = encodeCursor(['x'.repeat(Math.floor((chars * 3) / 4) - 4)])
    expect(cursor.length).toBe(chars)
    return decodeCursor(cursor, z.tuple([z.string()]))
  }
  expect(of(CURSOR_CHARS_MAX)).not.toBeNull()
  expect(of(CURSOR_CHARS_MAX + 2)).toBeNull()
})

describe('requests at the bound and one past it', () => {
  beforeAll(provision)

  /** A JSON body of so many bytes: white space is free. */
  const padded = (body: object, bytes: number) => JSON.stringify(body).padEnd(bytes)

  const send = (path: string, key: string, body: string): Promise<Response> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    return exports.default.fetch(new Request(`${ORIGIN}${path}`, { method: 'POST', headers, body }))
  }

  it('a body that starts a program', async () => {
    expect((await send('/v1/programs', KEY_A, padded({}, PROGRAM_BODY_BYTES_MAX))).status).toBe(201)
    expect((await send('/v1/programs', KEY_A, padded({}, PROGRAM_BODY_BYTES_MAX + 1))).status).toBe(413)
  })

  it('a body and a weight of the operator', async () => {
    const create = (body: string) => send('/admin/v1/tenants', env.ADMIN_KEY, body)
    expect((await create(padded({ name: 'x' }, ADMIN_BODY_BYTES_MAX))).status).toBe(201)
    expect((await create(padded({ name: 'x' }, ADMIN_BODY_BYTES_MAX + 1))).status).toBe(413)
    expect((await create(JSON.stringify({ name: 'x', weight: WEIGHT_MAX }))).status).toBe(201)
    expect((await create(JSON.stringify({ name: 'x', weight: WEIGHT_MAX + 1 }))).status).toBe(400)
  })

  it('a page', async () => {
    const list = (limit: number) => request('GET', `/v1/programs?limit=${limit}`, KEY_A)
    expect((await list(PAGE_LIMIT_MAX)).status).toBe(200)
    expect((await list(PAGE_LIMIT_MAX + 1)).status).toBe(400)
  })
})
