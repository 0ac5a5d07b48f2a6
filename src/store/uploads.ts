/**
 * Uploads: files that arrive in pieces, in any order and side by side. A piece's contents become part of the file when its
 * client names the pieces in their order. Contents that no file took are removed when the upload is over.
 */
import { and, asc, eq, inArray, lt, ne, sql } from 'drizzle-orm'
import type { FilePart } from '../core/batch/file-part.ts'
import { database } from './database.ts'
import { deleteObject } from './file-contents.ts'
import { partsOf } from './files.ts'
import { uploadParts, uploads } from './schema.ts'

export const UPLOADS_PENDING_MAX = 100
export const UPLOAD_PIECES_MAX = 1_000
/** From its creation; OpenAI's. */
export const UPLOAD_LIFE_MS = 60 * 60_000
/** An upload that is over can still be seen for this long. */
const UPLOAD_KEPT_MS = 24 * 60 * 60_000
const SWEPT_MAX = 5
/** A statement of D1 takes at most 100 parameters. */
const IDS_PER_STATEMENT = 90

export type StoredUpload = Omit<typeof uploads.$inferSelect, 'tenant'>

export interface UploadPiece {
  id: string
  bytes: number
  parts: FilePart[]
}

export async function insertUpload(d1: D1Database, tenant: string, upload: StoredUpload): Promise<void> {
  await database(d1)
    .insert(uploads)
    .values({ ...upload, tenant })
}

export async function pendingUploads(d1: D1Database, tenant: string, now_ms: number): Promise<number> {
  const pending = and(
    eq(uploads.tenant, tenant),
    eq(uploads.status, 'pending'),
    sql`${uploads.expires_at_ms} > ${now_ms}`,
  )
  const counted = await database(d1).select({ number: sql<number>`count(*)` }).from(uploads).where(pending).get()
  return counted?.number ?? 0
}

export async function uploadById(d1: D1Database, tenant: string, id: string): Promise<StoredUpload | null> {
  const row = await database(d1)
    .select()
    .from(uploads)
    .where(and(eq(uploads.id, id), eq(uploads.tenant, tenant)))
    .get()
  if (row === undefined) return null
  const { tenant: _, ...upload } = row
  return upload
}

/** How many pieces the upload has, and their bytes. */
export async function piecesSum(d1: D1Database, upload: string): Promise<{ pieces: number; bytes: number }> {
  const sums = await database(d1)
    .select({ pieces: sql<number>`count(*)`, bytes: sql<number>`coalesce(sum(${uploadParts.bytes}), 0)` })
    .from(uploadParts)
    .where(eq(uploadParts.upload, upload))
    .get()
  return sums ?? { pieces: 0, bytes: 0 }
}

/** Before its contents are written, so that they are found again if the request breaks off. */
export async function reservePiece(d1: D1Database, upload: string, id: string, now_ms: number): Promise<void> {
  await database(d1).insert(uploadParts).values({ id, upload, bytes: 0, created_at_ms: now_ms, parts: '[]' })
}

/** False: the upload was ended meanwhile. */
export async function publishPiece(d1: D1Database, { id, bytes, parts }: UploadPiece): Promise<boolean> {
  const changed = await database(d1)
    .update(uploadParts)
    .set({ bytes, parts: JSON.stringify(parts) })
    .where(eq(uploadParts.id, id))
    .returning({ id: uploadParts.id })
  return changed.length > 0
}

/** Those of the pieces that the upload has. */
export async function piecesOf(d1: D1Database, upload: string, ids: readonly string[]): Promise<UploadPiece[]> {
  const found: UploadPiece[] = []
  for (let from = 0; from < ids.length; from += IDS_PER_STATEMENT) {
    const rows = await database(d1)
      .select()
      .from(uploadParts)
      .where(and(eq(uploadParts.upload, upload), inArray(uploadParts.id, ids.slice(from, from + IDS_PER_STATEMENT))))
    found.push(...rows.map(({ id, bytes, parts }) => ({ id, bytes, parts: partsOf(parts) })))
  }
  return found
}

/** Only a pending upload is ended, and by one request alone. False: it is not pending. */
export async function endUpload(
  d1: D1Database,
  upload: string,
  end: { status: 'completed'; file: string } | { status: 'cancelled' },
): Promise<boolean> {
  const changed = await database(d1)
    .update(uploads)
    .set(end)
    .where(and(eq(uploads.id, upload), eq(uploads.status, 'pending')))
    .returning({ id: uploads.id })
  return changed.length > 0
}

/** Removes the upload's pieces, with their contents unless a file has taken them. */
export async function dropPieces(
  d1: D1Database,
  bucket: R2Bucket,
  tenant: string,
  upload: string,
  taken: readonly string[],
): Promise<void> {
  const rows = await database(d1)
    .select({ id: uploadParts.id })
    .from(uploadParts)
    .where(eq(uploadParts.upload, upload))
    .orderBy(asc(uploadParts.created_at_ms))
  for (const { id } of rows) if (!taken.includes(id)) await deleteObject(bucket, tenant, id)
  await database(d1).delete(uploadParts).where(eq(uploadParts.upload, upload))
}

/** Removes some of the tenant's uploads that are long over. */
export async function sweepUploads(d1: D1Database, bucket: R2Bucket, tenant: string, now_ms: number): Promise<void> {
  const over = and(eq(uploads.tenant, tenant), lt(uploads.expires_at_ms, now_ms - UPLOAD_KEPT_MS))
  const rows = await database(d1)
    .select({ id: uploads.id })
    .from(uploads)
    .where(and(over, ne(uploads.status, 'completed')))
    .limit(SWEPT_MAX)
  for (const { id } of rows) {
    await dropPieces(d1, bucket, tenant, id, [])
    await database(d1).delete(uploads).where(eq(uploads.id, id))
  }
  await database(d1)
    .delete(uploads)
    .where(and(over, eq(uploads.status, 'completed')))
}
