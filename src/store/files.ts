/** Files of tenants: a row each, found by tenant and id alone, so another tenant's file is absent. */
import { and, asc, desc, eq, getTableColumns, gt, isNull, lt, or, type SQL, sql } from 'drizzle-orm'
import { z } from 'zod'
import { FilePart } from '../core/batch/file-part.ts'
import { database } from './database.ts'
import { bytesOf, deleteObject, deleteParts } from './file-contents.ts'
import { files } from './schema.ts'

/** Of one tenant. */
export const FILES_MAX = 10_000
export const STORED_BYTES_MAX = 100 * 1024 * 1024 * 1024
/** A request that writes a file is over by then. */
const WRITING_MS_MAX = 2 * 60 * 60_000
/** Expired files that one sweep removes. */
const SWEPT_MAX = 20

export interface ListedFile {
  id: string
  filename: string
  purpose: string
  bytes: number
  created_at_ms: number
  expires_at_ms: number | null
}

interface StoredFile extends ListedFile {
  parts: FilePart[]
}

const Parts = z.array(FilePart)

interface FilePage {
  purpose: string | null
  /** Id of the last file of the page before. */
  after: string | null
  limit: number
  order: 'asc' | 'desc'
}

type Row = typeof files.$inferSelect

export function partsOf(stored: string): FilePart[] {
  return Parts.parse(JSON.parse(stored))
}

/** Whether the tenant may store `bytes` more. */
export async function hasRoomFor(d1: D1Database, tenant: string, bytes: number): Promise<boolean> {
  const stored = await database(d1)
    .select({ files: sql<number>`count(*)`, bytes: sql<number>`coalesce(sum(${files.bytes}), 0)` })
    .from(files)
    .where(eq(files.tenant, tenant))
    .get()
  return stored === undefined || (stored.files < FILES_MAX && stored.bytes + bytes <= STORED_BYTES_MAX)
}

/** A file that clients do not see until `publishFile`, so that what a request wrote before it broke off is found again. */
export async function reserveFile(
  d1: D1Database,
  tenant: string,
  file: Omit<StoredFile, 'parts' | 'bytes'>,
): Promise<void> {
  await database(d1)
    .insert(files)
    .values({ ...file, tenant, bytes: 0, status: 'writing', parts: '[]' })
}

/** Adds the file, or shows the one that was reserved. The same one twice is one. */
export async function publishFile(d1: D1Database, tenant: string, file: Omit<StoredFile, 'bytes'>): Promise<void> {
  const { filename, purpose, created_at_ms, expires_at_ms } = file
  const set = {
    ...{ filename, purpose, created_at_ms, expires_at_ms },
    ...{ bytes: bytesOf(file.parts), status: 'processed' as const, parts: JSON.stringify(file.parts) },
  }
  await database(d1)
    .insert(files)
    .values({ id: file.id, tenant, ...set })
    .onConflictDoUpdate({ target: files.id, set })
}

export async function fileById(d1: D1Database, tenant: string, id: string, now_ms: number): Promise<StoredFile | null> {
  const row = await database(d1)
    .select()
    .from(files)
    .where(and(eq(files.id, id), visible(tenant, now_ms)))
    .get()
  return row === undefined ? null : fileOf(row)
}

/** One more than `limit`, where there are so many. Null: the tenant has no file `after`. */
export async function filesPage(
  d1: D1Database,
  tenant: string,
  { purpose, after, limit, order }: FilePage,
  now_ms: number,
): Promise<ListedFile[] | null> {
  const last = after === null ? null : await fileById(d1, tenant, after, now_ms)
  if (after !== null && last === null) return null
  const [sorted, beyond] = order === 'asc' ? [asc, gt] : [desc, lt]
  const { tenant: _, status: __, parts: ___, ...columns } = getTableColumns(files)
  return database(d1)
    .select(columns)
    .from(files)
    .where(
      and(
        visible(tenant, now_ms),
        purpose === null ? undefined : eq(files.purpose, purpose),
        last === null
          ? undefined
          : or(
              beyond(files.created_at_ms, last.created_at_ms),
              and(eq(files.created_at_ms, last.created_at_ms), beyond(files.id, last.id)),
            ),
      ),
    )
    .orderBy(sorted(files.created_at_ms), sorted(files.id))
    .limit(limit + 1)
}

/** False: the tenant has no such file. */
export async function deleteFile(d1: D1Database, bucket: R2Bucket, tenant: string, id: string): Promise<boolean> {
  const owned = and(eq(files.id, id), eq(files.tenant, tenant))
  const row = await database(d1).select().from(files).where(owned).get()
  if (row === undefined) return false
  // The contents first: a row that stays is deleted again, contents without a row would stay for ever.
  await deleteContents(bucket, row)
  await database(d1).delete(files).where(owned)
  return true
}

/** Removes some of the tenant's files that have expired, or whose request broke off. */
export async function sweepFiles(d1: D1Database, bucket: R2Bucket, tenant: string, now_ms: number): Promise<void> {
  const abandoned = and(eq(files.status, 'writing'), lt(files.created_at_ms, now_ms - WRITING_MS_MAX))
  const expired = lt(files.expires_at_ms, now_ms)
  const rows = await database(d1)
    .select()
    .from(files)
    .where(and(eq(files.tenant, tenant), or(abandoned, expired)))
    .limit(SWEPT_MAX)
  for (const row of rows) {
    await deleteContents(bucket, row)
    await database(d1).delete(files).where(eq(files.id, row.id))
  }
}

async function deleteContents(bucket: R2Bucket, { id, tenant, status, parts }: Row): Promise<void> {
  if (status === 'writing') await deleteObject(bucket, tenant, id)
  else await deleteParts(bucket, tenant, partsOf(parts))
}

function visible(tenant: string, now_ms: number): SQL | undefined {
  const kept = or(isNull(files.expires_at_ms), gt(files.expires_at_ms, now_ms))
  return and(eq(files.tenant, tenant), eq(files.status, 'processed'), kept)
}

function fileOf({ tenant: _, status: __, parts, ...row }: Row): StoredFile {
  return { ...row, parts: partsOf(parts) }
}
