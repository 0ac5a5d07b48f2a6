/** /admin/v1/regions: where engines may stand, and how near they are. */
import { createRoute, z } from '@hono/zod-openapi'
import { Id } from '../../protocol/index.ts'
import { insertRegion, regionById, regionsPage, updateRegion } from '../../store/catalogue-changes.ts'
import { fromStore } from '../../store/database.ts'
import { type AdminScope, refusal, router } from '../boundary.ts'
import { listOf, PageQuery } from '../program-schemas.ts'
import { failure, invalidCursor, json, jsonBody, pageOf, pageStart } from '../route-parts.ts'
import { absent, catalogueFull, exists, SECURITY as security } from './answers.ts'
import { definedOf } from './defined.ts'
import { IdParams, RegionCreate, RegionJson, RegionUpdate } from './schemas.ts'

export const regionRoutes = router<AdminScope>()
const NOT_FOUND = failure('No such region')

regionRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/admin/v1/regions',
    security,
    request: jsonBody(RegionCreate),
    responses: { 201: json(RegionJson, 'Created'), 409: failure('It exists, or the catalogue is full') },
  }),
  async (c) => {
    const region = c.req.valid('json')
    const inserted = await fromStore(() => insertRegion(c.env.DB, c.var.auditor, region))
    if (inserted.status === 'full') return refusal(catalogueFull('region', inserted.max))
    return inserted.status === 'refused' ? refusal(exists('region', region.id)) : c.json(region, 201)
  },
)

regionRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/regions',
    security,
    request: { query: PageQuery },
    responses: { 200: json(listOf(RegionJson), 'By position, then id'), 400: failure('Invalid') },
  }),
  async (c) => {
    const { limit, cursor } = c.req.valid('query')
    const start = pageStart(cursor, z.tuple([z.number().int(), Id]))
    if (start.status === 'unreadable') return refusal(invalidCursor())
    const after = start.position === null ? null : { position: start.position[0], id: start.position[1] }
    const rows = await fromStore(() => regionsPage(c.env.DB, after, limit + 1))
    return c.json(
      pageOf(
        rows,
        limit,
        (region) => region,
        ({ position, id }) => [position, id],
      ),
      200,
    )
  },
)

regionRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/admin/v1/regions/{id}',
    security,
    request: { params: IdParams },
    responses: { 200: json(RegionJson, 'The region'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const region = await fromStore(() => regionById(c.env.DB, id))
    return region === null ? refusal(absent('region', id)) : c.json(region, 200)
  },
)

regionRoutes.openapi(
  createRoute({
    method: 'patch',
    path: '/admin/v1/regions/{id}',
    security,
    request: { params: IdParams, ...jsonBody(RegionUpdate) },
    responses: { 200: json(RegionJson, 'As changed; calls see it within 10 s'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const change = definedOf(c.req.valid('json'))
    const { status } = await fromStore(() => updateRegion(c.env.DB, c.var.auditor, id, change))
    const region = status === 'refused' ? null : await fromStore(() => regionById(c.env.DB, id))
    return region === null ? refusal(absent('region', id)) : c.json(region, 200)
  },
)
