/**
 * /v1/files: OpenAI's Files API. A file belongs to its tenant; another tenant's is absent. Its contents pass through the
 * Worker in parts (store/file-contents.ts).
 */
import { createRoute, z } from '@hono/zod-openapi'
import { apiError } from '../../platform/api-error.ts'
import { logFailure } from '../../platform/log.ts'
import { fromStore } from '../../store/database.ts'
import { deleteParts, fileStream } from '../../store/file-contents.ts'
import { deleteFile, fileById, filesPage, hasRoomFor, publishFile, reserveFile, sweepFiles } from '../../store/files.ts'
import { sweepUploads } from '../../store/uploads.ts'
import { refusal, requireTenant, router, type TenantScope } from '../boundary.ts'
import { failure, json } from '../route-parts.ts'
import {
  FILE_BYTES_MAX,
  FILES_PAGE_MAX,
  FileDeleted,
  FileFields,
  FileForm,
  FileId,
  FileList,
  FileObject,
  FileQuery,
  fileJson,
  newFileId,
} from './file-schemas.ts'
import { type ReceivedForm, receiveForm } from './receive-form.ts'

const security = [{ apiKey: [] }]
const tags = ['Files']
const FileParams = z.object({ id: FileId })
const FILE_NOT_FOUND = failure('No such file among the tenant’s own, or it has expired')
const FORM_FILE = {
  field: 'file',
  bytes_max: FILE_BYTES_MAX,
  too_large_hint: 'Send it in parts: POST /v1/uploads takes up to 1 GiB.',
}

export const fileRoutes = router<TenantScope>()
fileRoutes.use('/v1/files/*', requireTenant)

fileRoutes.openAPIRegistry.registerPath(
  createRoute({
    method: 'post',
    path: '/v1/files',
    tags,
    security,
    summary: `Store a file of up to ${FILE_BYTES_MAX} bytes`,
    request: { body: { required: true, content: { 'multipart/form-data': { schema: FileForm } } } },
    responses: {
      200: json(FileObject, 'Stored'),
      400: failure('The form is not valid; `param` names the field'),
      403: failure('The tenant stores as much as it may'),
      413: failure('The file is too large'),
      415: failure('The body is no form'),
    },
  }),
)
fileRoutes.post('/v1/files', async (c) => {
  const { tenant } = c.var.identity
  const { DB, BUCKET } = c.env
  const now_ms = Date.now()
  c.executionCtx.waitUntil(sweep(DB, BUCKET, tenant, now_ms))
  const stated_bytes = Number(c.req.header('content-length') ?? 0)
  if (!(await fromStore(() => hasRoomFor(DB, tenant, stated_bytes)))) return noRoom()
  const id = newFileId('file-')
  const reserved = { id, filename: '', purpose: '', created_at_ms: now_ms, expires_at_ms: null }
  await fromStore(() => reserveFile(DB, tenant, reserved))
  const read = await receiveForm(c.req.raw, FORM_FILE, { bucket: BUCKET, tenant, object: id })
  if (read.status === 'refused') {
    await deleteFile(DB, BUCKET, tenant, id)
    return apiError(read.http_status, read.error)
  }
  const made = fileOf(id, read, now_ms)
  if (made.status === 'refused') {
    await deleteParts(BUCKET, tenant, read.parts)
    await deleteFile(DB, BUCKET, tenant, id)
    return apiError(400, { message: made.message, param: made.param, code: 'invalid_value' })
  }
  await fromStore(() => publishFile(DB, tenant, made.file))
  return c.json(fileJson({ ...made.file, bytes: read.bytes }))
})

fileRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/files',
    tags,
    security,
    summary: 'The tenant’s files',
    request: { query: FileQuery },
    responses: { 200: json(FileList, `The newest first, unless \`order\` is asc; at most ${FILES_PAGE_MAX} a page`) },
  }),
  async (c) => {
    const { purpose, after, limit, order } = c.req.valid('query')
    const { tenant } = c.var.identity
    const page_max = Math.min(limit, FILES_PAGE_MAX)
    const page = { purpose: purpose ?? null, after: after ?? null, limit: page_max, order }
    const rows = await fromStore(() => filesPage(c.env.DB, tenant, page, Date.now()))
    if (rows === null) return refusal(apiError(400, unknownAfter(after ?? '')))
    const data = rows.slice(0, page_max).map(fileJson)
    const ids = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null }
    return c.json({ object: 'list' as const, data, ...ids, has_more: rows.length > page_max }, 200)
  },
)

fileRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/files/{id}',
    tags,
    security,
    summary: 'A file, without its contents',
    request: { params: FileParams },
    responses: { 200: json(FileObject, 'The file'), 404: FILE_NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const file = await fromStore(() => fileById(c.env.DB, c.var.identity.tenant, id, Date.now()))
    return file === null ? refusal(fileNotFound(id)) : c.json(fileJson(file), 200)
  },
)

fileRoutes.openapi(
  createRoute({
    method: 'get',
    path: '/v1/files/{id}/content',
    tags,
    security,
    summary: 'The contents of a file',
    request: { params: FileParams },
    responses: {
      200: {
        description: 'The bytes as they were stored',
        content: { 'application/octet-stream': { schema: z.string().openapi({ format: 'binary' }) } },
      },
      404: FILE_NOT_FOUND,
    },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const { tenant } = c.var.identity
    const file = await fromStore(() => fileById(c.env.DB, tenant, id, Date.now()))
    if (file === null) return refusal(fileNotFound(id))
    const body = await fileStream(c.env.BUCKET, tenant, file.parts, (work) => c.executionCtx.waitUntil(work))
    if (body === null) return refusal(fileNotFound(id))
    return refusal(contentResponse(body))
  },
)

fileRoutes.openapi(
  createRoute({
    method: 'delete',
    path: '/v1/files/{id}',
    tags,
    security,
    summary: 'Delete a file',
    request: { params: FileParams },
    responses: { 200: json(FileDeleted, 'Deleted, with its contents'), 404: FILE_NOT_FOUND },
  }),
  async (c) => {
    const { id } = c.req.valid('param')
    const isDeleted = await fromStore(() => deleteFile(c.env.DB, c.env.BUCKET, c.var.identity.tenant, id))
    if (!isDeleted) return refusal(fileNotFound(id))
    return c.json({ id, object: 'file' as const, deleted: true as const }, 200)
  },
)

function fileOf(id: string, { fields, filename, parts }: ReceivedForm, now_ms: number) {
  const read = FileFields.safeParse(Object.fromEntries(fields))
  if (!read.success) {
    const [issue] = read.error.issues
    const param = issue?.path.map(String).join('.') ?? null
    const isMissing = param !== null && !fields.has(param)
    const reason = isMissing ? 'is missing' : `is not valid: ${issue?.message ?? ''}`
    return { status: 'refused' as const, param, message: `The form's field \`${param}\` ${reason}.` }
  }
  const life_s = read.data['expires_after[seconds]']
  const expires_at_ms = life_s === undefined ? null : now_ms + life_s * 1000
  const { purpose } = read.data
  return { status: 'made' as const, file: { id, filename, purpose, created_at_ms: now_ms, expires_at_ms, parts } }
}

/** What is over goes when something new comes: nothing else makes a tenant's store grow. */
export async function sweep(d1: D1Database, bucket: R2Bucket, tenant: string, now_ms: number): Promise<void> {
  try {
    await sweepFiles(d1, bucket, tenant, now_ms)
    await sweepUploads(d1, bucket, tenant, now_ms)
  } catch (error) {
    logFailure('files_not_swept', error, { tenant })
  }
}

/** Never shown by a browser as what its client says it is. */
export function contentResponse(body: ReadableStream<Uint8Array>): Response {
  const headers = {
    'content-type': 'application/octet-stream',
    'content-disposition': 'attachment',
    'cache-control': 'no-store',
  }
  return new Response(body, { headers })
}

export function noRoom(): Response {
  const message =
    'This tenant stores as many files, or as many bytes, as it may. Delete some files, then send it again.'
  return apiError(403, { message, code: 'storage_full' })
}

function fileNotFound(id: string): Response {
  return apiError(404, { message: `There is no file "${id}".`, param: 'id', code: 'file_not_found' })
}

export function unknownAfter(after: string) {
  const message = `There is nothing with the id "${after}" to go on from. Use the last id of a page of this list.`
  return { message, param: 'after', code: 'invalid_value' }
}
