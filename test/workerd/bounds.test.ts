/** Bounds of what one isolate holds of D1, and of cursors. */
import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { CURSOR_CHARS_MAX, decodeCursor, encodeCursor } from '../../src/actors/cursor.ts'
import { catalogue, MODELS_MAX, REGIONS_MAX } from '../../src/store/catalogue.ts'
import { CACHE_TTL_MS } from '../../src/store/isolate-cache.ts'

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
