/** /v1/uploads: OpenAI's Uploads API, for files that are too large for one request. */
import { createRoute, z } from '@hono/zod-openapi'
import { apiError } from '../../platform/api-error.ts'
import { logFailure } from '../../platform/log.ts'
import { fromStore } from '../../store/database.ts'
import { deleteObject, deleteParts, md5Of } from '../../store/file-contents.ts'
import { fileById, hasRoomFor, publishFile } from '../../store/files.ts'
import {
  dropPieces,
  endUpload,
  insertUpload,
  pendingUploads,
  piecesOf,
  piecesSum,
  publishPiece,
  reservePiece,
  type StoredUpload,
  UPLOAD_LIFE_MS,
  UPLOAD_PIECES_MAX,
  UPLOADS_PENDING_MAX,
  type UploadPiece,
  uploadById,
} from '../../store/uploads.ts'
import { limitBody, refusal, requireTenant, router, type TenantScope } from '../boundary.ts'
import { failure, json, jsonBody, tooMany } from '../route-parts.ts'
import {
  FileId,
  newFileId,
  PIECE_BYTES_MAX,
  PieceForm,
  seconds,
  UploadComplete,
  UploadObject,
  UploadPart,
  UploadStart,
  uploadJson,
} from './file-schemas.ts'
import { noRoom, sweep } from './files.ts'
import { formFault, receiveForm } from './receive-form.ts'

/** Bodies here are a thousand ids at most. */
const UPLOAD_BODY_BYTES_MAX = 128 * 1024
const RETRY_PENDING_S = 60

const security = [{ apiKey: [] }]
const tags = ['Files']
const UploadParams = z.object({ id: FileId })
const NOT_FOUND = failure('No such upload among the tenant’s own')
const FORM_FILE = {
  field: 'data',
  bytes_max: PIECE_BYTES_MAX,
  too_large_hint: 'Send it as several parts.',
}

export const uploadRoutes = router<TenantScope>()
uploadRoutes.use('/v1/uploads/*', requireTenant)
uploadRoutes.use('/v1/uploads', limitBody(UPLOAD_BODY_BYTES_MAX))
uploadRoutes.use('/v1/uploads/:id/complete', limitBody(UPLOAD_BODY_BYTES_MAX))
uploadRoutes.use('/v1/uploads/:id/cancel', limitBody(UPLOAD_BODY_BYTES_MAX))

uploadRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/uploads',
    tags,
    security,
    summary: 'Begin an upload in parts, of up to 1 GiB',
    request: jsonBody(UploadStart),
    responses: {
      200: json(UploadObject, 'Begun; it takes parts for an hour'),
      403: failure('The tenant stores as much as it may'),
      429: tooMany('The tenant has too many pending uploads'),
    },
  }),
  async (c) => {
    const { tenant } = c.var.identity
    const { bytes, filename, purpose, expires_after } = c.req.valid('json')
    const now_ms = Date.now()
    c.executionCtx.waitUntil(sweep(c.env.DB, c.env.BUCKET, tenant, now_ms))
    if (!(await fromStore(() => hasRoomFor(c.env.DB, tenant, bytes)))) return refusal(noRoom())
    if ((await fromStore(() => pendingUploads(c.env.DB, tenant, now_ms))) >= UPLOADS_PENDING_MAX) {
      const message = `This tenant has ${UPLOADS_PENDING_MAX} pending uploads. Complete or cancel some.`
      const retry = { 'retry-after': String(RETRY_PENDING_S) }
      return refusal(apiError(429, { message, code: 'too_many_uploads' }, retry))
    }
    const upload: StoredUpload = {
      ...{ id: newFileId('upload_'), filename, purpose, bytes, created_at_ms: now_ms },
      ...{ expires_at_ms: now_ms + UPLOAD_LIFE_MS, status: 'pending', file: null },
      file_expires_after_s: expires_after?.seconds ?? null,
    }
    await fromStore(() => insertUpload(c.env.DB, tenant, upload))
    return c.json(uploadJson(upload, null, now_ms), 200)
  },
)

uploadRoutes.openAPIRegistry.registerPath(
  createRoute({
    method: 'post',
    path: '/v1/uploads/{id}/parts',
    tags,
    security,
    summary: `Add a part of up to ${PIECE_BYTES_MAX} bytes`,
    request: {
      params: UploadParams,
      body: { required: true, content: { 'multipart/form-data': { schema: PieceForm } } },
    },
    responses: {
      200: json(UploadPart, 'Stored. Parts may be sent side by side, in any order'),
      400: failure('The form is not valid, or the upload takes no more parts'),
      404: NOT_FOUND,
      413: failure('The part is too large'),
      415: failure('The body is no form'),
    },
  }),
)
uploadRoutes.post('/v1/uploads/:id/parts', async (c) => {
  const { tenant } = c.var.identity
  const { DB, BUCKET } = c.env
  const now_ms = Date.now()
  const fault = formFault(c.req.raw)
  if (fault !== null) return apiError(fault.http_status, fault.error)
  const found = await pending(DB, tenant, c.req.param('id'), now_ms)
  if (found.status === 'refused') return found.response
  const { upload } = found
  const sum = await fromStore(() => piecesSum(DB, upload.id))
  if (sum.pieces >= UPLOAD_PIECES_MAX) {
    return invalid(`The upload has ${UPLOAD_PIECES_MAX} parts, which is the most. Send larger parts.`, 'id')
  }
  const id = newFileId('part_')
  await fromStore(() => reservePiece(DB, upload.id, id, now_ms))
  const left = { ...FORM_FILE, bytes_max: Math.min(PIECE_BYTES_MAX, Math.max(0, upload.bytes - sum.bytes)) }
  if (left.bytes_max < PIECE_BYTES_MAX) left.too_large_hint = `The upload was announced with ${upload.bytes} bytes.`
  const read = await receiveForm(c.req.raw, left, { bucket: BUCKET, tenant, object: id })
  if (read.status === 'refused') {
    await deleteObject(BUCKET, tenant, id)
    return apiError(read.http_status, read.error)
  }
  if (!(await fromStore(() => publishPiece(DB, { id, bytes: read.bytes, parts: read.parts })))) {
    await deleteParts(BUCKET, tenant, read.parts)
    return over(upload.id)
  }
  return c.json({ id, object: 'upload.part' as const, created_at: seconds(now_ms), upload_id: upload.id })
})

uploadRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/uploads/{id}/complete',
    tags,
    security,
    summary: 'Make a file of the parts, in the order in which they are named',
    request: { params: UploadParams, ...jsonBody(UploadComplete) },
    responses: {
      200: json(UploadObject, 'Completed; `file` is the file'),
      400: failure('A part is not there, or bytes or MD5 are not as announced'),
      404: NOT_FOUND,
    },
  }),
  async (c) => {
    const { tenant } = c.var.identity
    const { DB, BUCKET } = c.env
    const { part_ids, md5 } = c.req.valid('json')
    const now_ms = Date.now()
    const found = await pending(DB, tenant, c.req.valid('param').id, now_ms)
    if (found.status === 'refused') return refusal(found.response)
    const { upload } = found
    const ordered = inOrder(part_ids, await fromStore(() => piecesOf(DB, upload.id, part_ids)))
    if (ordered.status === 'refused') return refusal(invalid(ordered.message, 'part_ids'))
    const { pieces } = ordered
    const bytes = pieces.reduce((sum, piece) => sum + piece.bytes, 0)
    if (bytes !== upload.bytes) {
      return refusal(invalid(`The parts have ${bytes} bytes, but ${upload.bytes} were announced.`, 'part_ids'))
    }
    const parts = pieces.flatMap((piece) => piece.parts)
    if (md5 != null && (await md5Of(BUCKET, tenant, parts)) !== md5.toLowerCase()) {
      return refusal(invalid('The parts have another MD5. Check their order.', 'md5'))
    }
    const { filename, purpose, file_expires_after_s } = upload
    const expires_at_ms = file_expires_after_s === null ? null : now_ms + file_expires_after_s * 1000
    const file = { id: newFileId('file-'), filename, purpose, created_at_ms: now_ms, expires_at_ms, parts }
    const isEnded = await fromStore(() => endUpload(DB, upload.id, { status: 'completed', file: file.id }))
    if (!isEnded) return refusal(over(upload.id))
    await fromStore(() => publishFile(DB, tenant, file))
    c.executionCtx.waitUntil(dropInBackground(c.env, tenant, upload.id, part_ids))
    return c.json(uploadJson({ ...upload, status: 'completed' }, { ...file, bytes }, now_ms), 200)
  },
)

uploadRoutes.openapi(
  createRoute({
    method: 'post',
    path: '/v1/uploads/{id}/cancel',
    tags,
    security,
    summary: 'Give an upload up',
    request: { params: UploadParams },
    responses: {
      200: json(UploadObject, 'Cancelled; its parts are deleted'),
      400: failure('It is over'),
      404: NOT_FOUND,
    },
  }),
  async (c) => {
    const { tenant } = c.var.identity
    const now_ms = Date.now()
    const found = await pending(c.env.DB, tenant, c.req.valid('param').id, now_ms)
    if (found.status === 'refused') return refusal(found.response)
    const { upload } = found
    if (!(await fromStore(() => endUpload(c.env.DB, upload.id, { status: 'cancelled' })))) {
      return refusal(over(upload.id))
    }
    c.executionCtx.waitUntil(dropInBackground(c.env, tenant, upload.id, []))
    return c.json(uploadJson({ ...upload, status: 'cancelled' }, null, now_ms), 200)
  },
)

uploadRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/uploads/{id}',
    tags,
    security,
    summary: 'An upload',
    request: { params: UploadParams },
    responses: { 200: json(UploadObject, 'The upload'), 404: NOT_FOUND },
  }),
  async (c) => {
    const { tenant } = c.var.identity
    const { id } = c.req.valid('param')
    const upload = await fromStore(() => uploadById(c.env.DB, tenant, id))
    if (upload === null) return refusal(uploadNotFound(id))
    const { file: file_id } = upload
    const file = file_id === null ? null : await fromStore(() => fileById(c.env.DB, tenant, file_id, Date.now()))
    return c.json(uploadJson(upload, file, Date.now()), 200)
  },
)

type Pending = { status: 'pending'; upload: StoredUpload } | { status: 'refused'; response: Response }

async function pending(d1: D1Database, tenant: string, id: string, now_ms: number): Promise<Pending> {
  const upload = await fromStore(() => uploadById(d1, tenant, id))
  if (upload === null) return { status: 'refused', response: uploadNotFound(id) }
  const is_open = upload.status === 'pending' && now_ms < upload.expires_at_ms
  return is_open ? { status: 'pending', upload } : { status: 'refused', response: over(id) }
}

function inOrder(ids: readonly string[], found: readonly UploadPiece[]) {
  const by_id = new Map(found.map((piece) => [piece.id, piece]))
  if (new Set(ids).size !== ids.length) return { status: 'refused' as const, message: 'A part is named twice.' }
  const missing = ids.find((id) => !by_id.has(id))
  if (missing !== undefined) return { status: 'refused' as const, message: `The upload has no part "${missing}".` }
  return { status: 'ordered' as const, pieces: ids.map((id) => by_id.get(id) as UploadPiece) }
}

async function dropInBackground(
  env: { DB: D1Database; BUCKET: R2Bucket },
  tenant: string,
  upload: string,
  taken: readonly string[],
): Promise<void> {
  try {
    await dropPieces(env.DB, env.BUCKET, tenant, upload, taken)
  } catch (error) {
    logFailure('upload_not_dropped', error, { tenant, upload })
  }
}

function over(id: string): Response {
  return invalid(`The upload "${id}" is over. Begin another one.`, 'id')
}

function invalid(message: string, param: string): Response {
  return apiError(400, { message, param, code: 'invalid_value' })
}

function uploadNotFound(id: string): Response {
  return apiError(404, { message: `There is no upload "${id}".`, param: 'id', code: 'upload_not_found' })
}
