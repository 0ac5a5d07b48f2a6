/** /admin/v1/models: what is served, and by which reading of service it is ordered. */
import { createRoute, z } from '@hono/zod-openapi'
import { Id } from '../../protocol/index.ts'
import type { Model } from '../../store/catalogue.ts'
import { insertModel, modelById, modelsPage, updateModel } from '../../store/catalogue-changes.ts'
import { fromStore } from '../../store/database.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, jsonBody, pageOf, pageStart } from '../route-parts.ts'
import { absent, catalogueFull, exists, iso, SECURITY as security } from './answers.ts'
import { definedOf } from './defined.ts'
import { IdParams, ModelCreate, ModelJson, ModelUpdate } from './schemas.ts'

export const modelRoutes = router<AdminScope>()
const NOT_FOUND = failure('No such model')

modelRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/admin/v1/models',
    security,
    request: jsonBody(ModelCreate),
    responses: { 201: json(ModelJson, 'Created'), 409: failure('It exists, or the catalogue is full') },
  }),
  async (c) => {
    const { auditor } = c.var
    const model: Model = { ...c.req.valid('json'), price_changes: '[]', created_at_ms: auditor.at_ms }
    const inserted = await fromStore(() => insertModel(c.env.DB, auditor, model))
    if (inserted.status === 'full') return refusal(catalogueFull('model', inserted.max))
    return inserted.status === 'refused' ? refusal(exists('model', model.id)) : c.json(modelJson(model), 201)
  },
)

modelRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/models',
    security,
    request: { query: PageQuery },
    responses: { 200: json(listOf(ModelJson), 'By id'), 400: failure('Invalid') },
  }),
  async (c) => {
    const { limit, cursor } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    const rows = await fromStore(() => modelsPage(c.env.DB, start.position?.[0] ?? null, limit + 1))
    return c.json(
      pageOf(rows, limit, modelJson, ({ id }) => [id]),
      200,
    )
  },
)

modelRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/models/{id}',
    security,
    request: { params: IdParams },
    responses: { 200: json(ModelJson, 'The model'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const model = await fromStore(() => modelById(c.env.DB, id))
    return model === null ? refusal(absent('model', id)) : c.json(modelJson(model), 200)
  },
)

modelRoutes.openapi(
  createRoute({
    method: 'patch',
    path: '/admin/v1/models/{id}',
    security,
    request: { params: IdParams, ...jsonBody(ModelUpdate) },
    responses: { 200: json(ModelJson, 'As changed; calls see it within 10 s'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const change = definedOf(c.req.valid('json'))
    const { status } = await fromStore(() => updateModel(c.env.DB, c.var.auditor, id, change))
    const model = status === 'refused' ? null : await fromStore(() => modelById(c.env.DB, id))
    return model === null ? refusal(absent('model', id)) : c.json(modelJson(model), 200)
  },
)

function modelJson({ created_at_ms, price_changes: _, ...model }: Model): z.infer<typeof ModelJson> {
  return { ...model, created_at: iso(created_at_ms) }
}
