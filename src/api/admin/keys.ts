/**
 * /admin/v1/tenants/{id}/keys. A key is shown once, when it is made; only its hash is kept. A revoked key stops working
 * within CACHE_TTL_MS on every isolate.
 */
import { createRoute, z } from '@hono/zod-openapi'
import type { Env } from '../../env.ts'
import { type ApiErrorFields, apiError } from '../../platform/api-error.ts'
import { Id } from '../../protocol/index.ts'
import { freshCatalogue } from '../../store/catalogue.ts'
import { fromStore } from '../../store/database.ts'
import {
  insertKey,
  type KeyChange,
  type KeyListed,
  keyById,
  keysOfTenant,
  revokeKey,
  updateKey,
} from '../../store/keys.ts'
import { newSecret } from '../../store/secret-check.ts'
import { API_KEY_PREFIX, hashSecret, keyIdOf } from '../../store/secrets.ts'
import { tenantById } from '../../store/tenants.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, jsonBody, pageOf, pageStart } from '../route-parts.ts'
import { absent, iso, isoOrNull, SECURITY as security } from './answers.ts'
import { IdParams, KeyCreate, KeyCreated, KeyJson, KeyUpdate } from './schemas.ts'

export const keyRoutes = router<AdminScope>()
const KeyParams = IdParams.extend({ key: Id.openapi({ param: { name: 'key', in: 'path' } }) })

/** Never echoed: the answer may end up in a log. */
const KEY_IN_PATH: ApiErrorFields = {
  message:
    'A key is revoked by its id, key-…, which the list of the tenant’s keys shows; paths are logged, so keep keys out of them.',
  param: 'key',
  code: 'invalid_id',
}

keyRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/admin/v1/tenants/{id}/keys',
    security,
    request: { params: IdParams, ...jsonBody(KeyCreate) },
    responses: {
      201: json(KeyCreated, 'Created'),
      404: failure('No such tenant, or a model or region that the key is to be held to does not exist'),
    },
  }),
  async (c) => {
    const { id: tenant } = c.req.valid('param')
    const { name, models, regions, strict, budget } = c.req.valid('json')
    const { auditor } = c.var
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null) return refusal(absent('tenant', tenant))
    const unknown = await unknownGrant(c.env, { models, regions })
    if (unknown !== null) return refusal(unknown)
    const key = await newSecret(c.env.KEY_PEPPER, API_KEY_PREFIX)
    const hash = await hashSecret(c.env.KEY_PEPPER, key)
    const grant = { tenant, name, models, regions, strict, budget }
    await fromStore(() => insertKey(c.env.DB, auditor, { hash, checked: true, ...grant }))
    const created_at_ms = auditor.at_ms
    return c.json({ ...keyJson({ id: keyIdOf(hash), ...grant, created_at_ms, revoked_at_ms: null }), key }, 201)
  },
)

keyRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/tenants/{id}/keys',
    security,
    request: { params: IdParams, query: PageQuery },
    responses: { 200: json(listOf(KeyJson), 'By id, the revoked ones too'), 404: failure('No such tenant') },
  }),
  async (c) => {
    const { id: tenant } = c.req.valid('param')
    const { limit, cursor } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    if ((await fromStore(() => tenantById(c.env.DB, tenant))) === null) return refusal(absent('tenant', tenant))
    const rows = await fromStore(() => keysOfTenant(c.env.DB, tenant, start.position?.[0] ?? null, limit + 1))
    return c.json(
      pageOf(rows, limit, keyJson, ({ id }) => [id]),
      200,
    )
  },
)

keyRoutes.openapi(
  createRoute({
    method: 'patch',
    path: '/admin/v1/tenants/{id}/keys/{key}',
    security,
    request: { params: KeyParams, ...jsonBody(KeyUpdate) },
    responses: {
      200: json(KeyJson, 'As changed; calls see it within 10 s'),
      400: failure('Invalid, or the key itself in place of its id'),
      404: failure('No such tenant or key, or a model or region that the key is to be held to does not exist'),
      409: failure('The key was revoked'),
    },
  }),
  async (c) => {
    const { id: tenant, key: id } = c.req.valid('param')
    if (id.startsWith(API_KEY_PREFIX)) return refusal(apiError(400, KEY_IN_PATH))
    const change = c.req.valid('json')
    const unknown = await unknownGrant(c.env, change)
    if (unknown !== null) return refusal(unknown)
    const { status } = await fromStore(() => updateKey(c.env.DB, c.var.auditor, { tenant, id }, change))
    const key = await fromStore(() => keyById(c.env.DB, tenant, id))
    if (key === null) return refusal(absent('key', id, 'key'))
    if (status === 'done') return c.json(keyJson(key), 200)
    const message = `The key "${id}" was revoked. Make another.`
    return refusal(apiError(409, { message, param: 'key', code: 'key_revoked' }))
  },
)

keyRoutes.openapi(
  createRoute({
    method: 'delete',
    path: '/admin/v1/tenants/{id}/keys/{key}',
    security,
    request: { params: KeyParams },
    responses: {
      200: json(KeyJson, 'Revoked; it opens nothing after 10 s at most'),
      400: failure('The key itself in place of its id'),
      404: failure('No such tenant or key'),
    },
  }),
  async (c) => {
    const { id: tenant, key: id } = c.req.valid('param')
    if (id.startsWith(API_KEY_PREFIX)) return refusal(apiError(400, KEY_IN_PATH))
    await fromStore(() => revokeKey(c.env.DB, c.var.auditor, tenant, id))
    const key = await fromStore(() => keyById(c.env.DB, tenant, id))
    return key === null ? refusal(absent('key', id, 'key')) : c.json(keyJson(key), 200)
  },
)

/** A grant of an unknown model or region is refused here. Later it would look like a fault of the key. */
async function unknownGrant(env: Env, { models, regions }: KeyChange): Promise<Response | null> {
  const known = await freshCatalogue(env)
  const noModel = models?.find((id) => !known.models.has(id))
  if (noModel !== undefined) return absent('model', noModel, 'models')
  const noRegion = regions?.find((id) => !known.regions.some((region) => region.id === id))
  return noRegion === undefined ? null : absent('region', noRegion, 'regions')
}

function keyJson({ created_at_ms, revoked_at_ms, ...key }: KeyListed): z.infer<typeof KeyJson> {
  return { ...key, created_at: iso(created_at_ms), revoked_at: isoOrNull(revoked_at_ms) }
}
