/**
 * /v1/responses/{id}: responses that are stored. Making one is a call like any other (relay/dialects/responses). Ids are
 * looked up among the tenant's own, so another tenant's response is absent.
 */
import { createRoute, z } from '@hono/zod-openapi'
import type { StoredEntry } from '../actors/responses-rpc.ts'
import { responsesActor } from '../actors/stubs.ts'
import { responseId, STORED_ID_CHARS_MAX, shardOf } from '../core/call/response-ids.ts'
import type { Env } from '../env.ts'
import { apiError } from '../platform/api-error.ts'
import { replay } from '../relay/dialects/responses/response-writer.ts'
import { turnItems } from '../relay/dialects/responses/stored-items.ts'
import { refusal, requireTenant, router, type TenantScope } from './boundary.ts'
import { ItemList, ItemQuery, itemPage } from './item-pages.ts'
import { failure, json } from './route-parts.ts'

const security = [{ apiKey: [] }]
const tags = ['Responses']
const ResponseParams = z.object({ id: z.string().min(1).max(STORED_ID_CHARS_MAX) })
const NOT_FOUND = failure('No such response among the tenant’s own, or it is not kept any more')

export const StoredResponse = z.looseObject({ id: z.string(), object: z.literal('response') }).openapi('Response')
const Deleted = z.object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) })

export const responseRoutes = router<TenantScope>()
// Making a response is a call: the relay authenticates it.
responseRoutes.use('/v1/responses/:id/*', requireTenant)

responseRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/responses/{id}',
    tags,
    security,
    summary: 'A stored response',
    request: {
      params: ResponseParams,
      query: z.object({ stream: z.enum(['true', 'false']).optional(), starting_after: z.coerce.number().optional() }),
    },
    responses: {
      200: json(StoredResponse, 'The response; its events again where `stream` is true'),
      404: NOT_FOUND,
    },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const response = responseOf(await entryOf(c.env, c.var.identity.tenant, id))
    if (response === null) return refusal(notFound(id))
    const { stream, starting_after } = c.req.valid('query')
    if (stream !== 'true') return c.json(response, 200)
    const headers = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' }
    return refusal(new Response(replay(response, starting_after ?? -1), { headers }))
  },
)

responseRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/responses/{id}/input_items',
    tags,
    security,
    summary: 'What a stored response was given: the turns before it, and its own input',
    request: { params: ResponseParams, query: ItemQuery },
    responses: { 200: json(ItemList, 'The newest first, unless `order` is asc'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const key = keyOf(id)
    const turns = key === null ? null : await storeOf(c.env, c.var.identity.tenant, id).turnsUpTo(key)
    const own = turns?.at(-1)
    if (turns == null || own === undefined || own.response === null) return refusal(notFound(id))
    const before = turns.slice(0, -1).flatMap(turnItems)
    return c.json(itemPage([...before, ...turnItems({ ...own, response: null })], c.req.valid('query')), 200)
  },
)

responseRoutes.openapi(
  createRoute({
    method: 'delete',
    path: '/v1/responses/{id}',
    tags,
    security,
    summary: 'Delete a stored response',
    request: { params: ResponseParams },
    responses: { 200: json(Deleted, 'It cannot be read or continued any more'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const key = keyOf(id)
    const isRemoved = key !== null && (await storeOf(c.env, c.var.identity.tenant, id).remove(key))
    if (!isRemoved) return refusal(notFound(id))
    return c.json({ id, object: 'response' as const, deleted: true as const }, 200)
  },
)

responseRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/responses/compact',
    tags,
    security,
    summary: 'Refused: a conversation is not compacted here',
    responses: { 400: failure('A conversation is not compacted here') },
  }),
  () => {
    const message = 'A conversation is not compacted here. Ask the model for a summary, and start from it.'
    return refusal(apiError(400, { message, code: 'compaction_unsupported' }))
  },
)

responseRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    tags,
    security,
    summary: 'Refused: only a response in the background could be cancelled',
    request: { params: ResponseParams },
    responses: { 400: failure('The response was not made in the background'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    if ((await entryOf(c.env, c.var.identity.tenant, id)) === null) return refusal(notFound(id))
    const message = 'Cannot cancel a synchronous response. Close its connection instead.'
    return refusal(apiError(400, { message, code: 'response_not_cancellable' }))
  },
)

function keyOf(id: string): string | null {
  const prefix = responseId('')
  return id.startsWith(prefix) && shardOf(id) !== null ? id.slice(prefix.length) : null
}

function storeOf(env: Env, tenant: string, id: string) {
  return responsesActor(env, tenant, shardOf(id) ?? 0)
}

async function entryOf(env: Env, tenant: string, id: string): Promise<StoredEntry | null> {
  const key = keyOf(id)
  const entry = key === null ? null : await storeOf(env, tenant, id).entry(key)
  return entry?.response == null ? null : entry
}

function responseOf(entry: StoredEntry | null): z.infer<typeof StoredResponse> | null {
  return entry?.response == null ? null : StoredResponse.parse(JSON.parse(entry.response))
}

function notFound(id: string): Response {
  return apiError(404, { message: `Response with id '${id}' not found.`, code: 'response_not_found' })
}
