/** Files and uploads as clients see them: OpenAI's objects. */
import { z } from '@hono/zod-openapi'
import type { ListedFile } from '../../store/files.ts'
import type { StoredUpload } from '../../store/uploads.ts'

const PURPOSES = ['batch', 'user_data', 'assistants', 'vision', 'evals', 'fine-tune'] as const
export const FILE_BYTES_MAX = 90 * 1024 * 1024
export const PIECE_BYTES_MAX = 64 * 1024 * 1024
const UPLOAD_BYTES_MAX = 1024 * 1024 * 1024
export const FILES_PAGE_MAX = 1_000
const EXPIRY_S_MIN = 3_600
const EXPIRY_S_MAX = 30 * 86_400
const ID_CHARS_MAX = 64
export const FileId = z.string().min(1).max(ID_CHARS_MAX)

export const ExpiresAfter = z.object({
  anchor: z.literal('created_at'),
  seconds: z.coerce.number().int().min(EXPIRY_S_MIN).max(EXPIRY_S_MAX),
})

/** The fields of `POST /v1/files` beside the file, as SDKs name them in a form. */
export const FileFields = z.object({
  purpose: z.enum(PURPOSES, `it is one of ${PURPOSES.join(', ')}`),
  'expires_after[anchor]': ExpiresAfter.shape.anchor.optional(),
  'expires_after[seconds]': ExpiresAfter.shape.seconds.optional(),
})

export const FileForm = FileFields.extend({ file: z.string().openapi({ format: 'binary' }) })
export const PieceForm = z.object({ data: z.string().openapi({ format: 'binary' }) })

export const FileObject = z
  .object({
    id: z.string(),
    object: z.literal('file'),
    bytes: z.number().int(),
    created_at: z.number().int(),
    expires_at: z.number().int().optional(),
    filename: z.string(),
    purpose: z.string(),
    status: z.literal('processed'),
  })
  .openapi('File')
export type FileObject = z.infer<typeof FileObject>

export const FileList = z
  .object({
    object: z.literal('list'),
    data: z.array(FileObject),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .openapi('FileList')

export const FileQuery = z.object({
  purpose: z.string().max(ID_CHARS_MAX).optional(),
  after: FileId.optional(),
  limit: z.coerce.number().int().min(1).max(10_000).default(FILES_PAGE_MAX),
  order: z.enum(['asc', 'desc']).default('desc'),
})

export const FileDeleted = z.object({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) })

export const UploadStart = z.object({
  bytes: z.number().int().min(1).max(UPLOAD_BYTES_MAX, `an upload has at most ${UPLOAD_BYTES_MAX} bytes`),
  filename: z.string().min(1).max(512),
  mime_type: z.string().max(128).optional(),
  purpose: z.enum(PURPOSES),
  expires_after: ExpiresAfter.nullish(),
})

export const UploadComplete = z.object({
  part_ids: z.array(FileId).min(1).max(1_000),
  md5: z
    .string()
    .regex(/^[0-9a-f]{32}$/i, 'an MD5 has 32 hex digits')
    .nullish(),
})

export const UploadObject = z
  .object({
    id: z.string(),
    object: z.literal('upload'),
    bytes: z.number().int(),
    created_at: z.number().int(),
    expires_at: z.number().int(),
    filename: z.string(),
    purpose: z.string(),
    status: z.enum(['pending', 'completed', 'cancelled', 'expired']),
    file: FileObject.nullable(),
  })
  .openapi('Upload')

export const UploadPart = z
  .object({
    id: z.string(),
    object: z.literal('upload.part'),
    created_at: z.number().int(),
    upload_id: z.string(),
  })
  .openapi('UploadPart')

export function fileJson({ id, bytes, created_at_ms, expires_at_ms, filename, purpose }: ListedFile): FileObject {
  return {
    ...{ id, object: 'file' as const, bytes, created_at: seconds(created_at_ms) },
    ...(expires_at_ms === null ? {} : { expires_at: seconds(expires_at_ms) }),
    ...{ filename, purpose, status: 'processed' as const },
  }
}

export function uploadJson(
  { id, bytes, created_at_ms, expires_at_ms, filename, purpose, status }: StoredUpload,
  file: ListedFile | null,
  now_ms: number,
): z.infer<typeof UploadObject> {
  const expired = status === 'pending' && now_ms >= expires_at_ms
  return {
    ...{ id, object: 'upload', bytes, created_at: seconds(created_at_ms), expires_at: seconds(expires_at_ms) },
    ...{ filename, purpose, status: expired ? 'expired' : status, file: file === null ? null : fileJson(file) },
  }
}

export function seconds(ms: number): number {
  return Math.floor(ms / 1000)
}

/** Unguessable, in the form of OpenAI's ids. */
export function newFileId(prefix: 'file-' | 'upload_' | 'part_' | 'batch_' | 'app_'): string {
  return prefix + crypto.randomUUID().replaceAll('-', '')
}
