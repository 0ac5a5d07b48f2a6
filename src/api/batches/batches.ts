/** /v1/batches: OpenAI's Batch API. A batch's actor runs it; D1 has the batches that are over, and the list of all. */
import { createRoute, z } from '@hono/zod-openapi'
import { batchActor } from '../../actors/stubs.ts'
import type { BatchState, NewBatch } from '../../core/batch/batch-state.ts'
import { completionSeconds } from '../../core/batch/completion-window.ts'
import type { Env } from '../../env.ts'
import { apiError } from '../../platform/api-error.ts'
import { BATCHES_OPEN_MAX, batchById, batchesPage, openBatches } from '../../store/batches.ts'
import { fromStore } from '../../store/database.ts'
import { fileById } from '../../store/files.ts'
import { limitBody, refusal, requireTenant, router, type TenantScope } from '../boundary.ts'
import { FileId, newFileId } from '../files/file-schemas.ts'
import { unknownAfter } from '../files/files.ts'
import { failure, json, jsonBody, tooMany } from '../route-parts.ts'
import { BATCHES_PAGE_MAX, BatchList, BatchObject, BatchStart, batchJson } from './batch-json.ts'

const BATCH_BODY_BYTES_MAX = 64 * 1024
const RETRY_OPEN_S = 60
const PAGE_DEFAULT = 20

const security = [{ apiKey: [] }]
const tags = ['Batches']
const BatchParams = z.object({ id: FileId })
const NOT_FOUND = failure('No such batch among the tenant’s own')

export const batchRoutes = router<TenantScope>()
batchRoutes.use('/v1/batches/*', requireTenant, limitBody(BATCH_BODY_BYTES_MAX))

batchRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/batches',
    tags,
    security,
    summary: 'Run the lines of a file below all online calls',
    request: jsonBody(BatchStart),
    responses: {
      200: json(BatchObject, 'Its lines are being checked'),
      400: failure('The body is not valid, or the file is not for batches'),
      404: failure('No such file among the tenant’s own'),
      429: tooMany('The tenant has as many open batches as it may'),
    },
  }),
  async (c) => {
    const { tenant, key } = c.var.identity
    const { input_file_id, endpoint, completion_window, metadata, output_expires_after } = c.req.valid('json')
    const now_ms = Date.now()
    const file = await fromStore(() => fileById(c.env.DB, tenant, input_file_id, now_ms))
    if (file === null) {
      const message = `There is no file "${input_file_id}".`
      return refusal(apiError(404, { message, param: 'input_file_id', code: 'file_not_found' }))
    }
    if (file.purpose !== 'batch') {
      const message = `The file "${file.id}" has the purpose ${file.purpose}. Store it again with the purpose batch.`
      return refusal(apiError(400, { message, param: 'input_file_id', code: 'invalid_purpose' }))
    }
    if ((await fromStore(() => openBatches(c.env.DB, tenant))) >= BATCHES_OPEN_MAX) {
      const message = `This tenant has ${BATCHES_OPEN_MAX} open batches. Create the batch again when one has ended.`
      const retry = { 'retry-after': String(RETRY_OPEN_S) }
      return refusal(apiError(429, { message, code: 'too_many_batches' }, retry))
    }
    const batch: NewBatch = {
      ...{ id: newFileId('batch_'), tenant, key, endpoint, completion_window },
      input: { file: file.id, parts: file.parts },
      metadata: metadata ?? null,
      output_expires_after_s: output_expires_after?.seconds ?? null,
      created_at_ms: now_ms,
      expires_at_ms: now_ms + (completionSeconds(completion_window) ?? 0) * 1000,
    }
    const files = { output: newFileId('file-'), errors: newFileId('file-') }
    const started = await fromStore(() => batchActor(c.env, tenant, batch.id).start(batch, files))
    return c.json(batchJson(started), 200)
  },
)

batchRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/batches',
    tags,
    security,
    summary: 'The tenant’s batches',
    request: {
      query: z.object({
        after: FileId.optional(),
        limit: z.coerce.number().int().min(1).max(BATCHES_PAGE_MAX).default(PAGE_DEFAULT),
      }),
    },
    responses: { 200: json(BatchList, 'The newest first; counts of running ones may be some seconds old') },
  }),
  async (c) => {
    const { after, limit } = c.req.valid('query')
    const rows = await fromStore(() => batchesPage(c.env.DB, c.var.identity.tenant, after ?? null, limit))
    if (rows === null) return refusal(apiError(400, unknownAfter(after ?? '')))
    const data = rows.slice(0, limit).map(batchJson)
    const ids = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null }
    return c.json({ object: 'list' as const, data, ...ids, has_more: rows.length > limit }, 200)
  },
)

batchRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/batches/{id}',
    tags,
    security,
    summary: 'A batch and its progress',
    request: { params: BatchParams },
    responses: { 200: json(BatchObject, 'The batch'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const state = await currentState(c.env, c.var.identity.tenant, id, 'describe')
    return state === null ? refusal(notFound(id)) : c.json(batchJson(state), 200)
  },
)

batchRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/batches/{id}/cancel',
    tags,
    security,
    summary: 'Cancel a batch; what has finished is delivered',
    request: { params: BatchParams },
    responses: {
      200: json(BatchObject, 'It is cancelling'),
      404: NOT_FOUND,
      409: failure('The batch has ended'),
    },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const state = await currentState(c.env, c.var.identity.tenant, id, 'cancel')
    if (state === null) return refusal(notFound(id))
    if (state.ended_at_ms !== null && state.status !== 'cancelled') {
      const message = `The batch has ended: it is ${state.status}.`
      return refusal(apiError(409, { message, param: 'id', code: 'batch_ended' }))
    }
    return c.json(batchJson(state), 200)
  },
)

/** The actor has a batch that runs. D1 is asked first, since ids that do not exist must not make actors. */
async function currentState(
  env: Env,
  tenant: string,
  id: string,
  ask: 'describe' | 'cancel',
): Promise<BatchState | null> {
  const stored = await fromStore(() => batchById(env.DB, tenant, id))
  if (stored === null || stored.ended_at_ms !== null) return stored
  const state = await batchActor(env, tenant, id)[ask]()
  return state ?? fromStore(() => batchById(env.DB, tenant, id))
}

function notFound(id: string): Response {
  return apiError(404, { message: `There is no batch "${id}".`, param: 'id', code: 'batch_not_found' })
}
