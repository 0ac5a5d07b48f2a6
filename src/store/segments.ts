/**
 * Calls and leases of ended programs in R2. A segment is one object that holds parts of several runs of one tenant. The row
 * of a run says where its part lies.
 *
 * A part is a chain of chunks of `calls_per_chunk` calls with their leases, each gzipped JSON. Its first call is at position
 * 0 and positions have no gaps, so a page of calls costs one ranged read of one or two chunks. A segment is never changed.
 */
import { z } from 'zod'
import type { CallRow, LeaseRow, ProgramRows } from '../core/program/program-state.ts'
import { Count } from '../protocol/index.ts'
import type { EncodedRun } from './ended-run.ts'
import { CallRowJson, LeaseRowJson } from './program-row-schemas.ts'

/** Calls of one chunk: about 60 kB. */
export const CALLS_PER_CHUNK = 500
const PREFIX = 'calls/'
const DAY_MS = 24 * 60 * 60_000

/** Where the part of one run lies. */
export const RunPart = z.object({
  segment: z.string(),
  offset: Count,
  calls_per_chunk: z.number().int().positive(),
  chunk_bytes: z.array(z.number().int().positive()),
})
export type RunPart = z.infer<typeof RunPart>

const ChunkJson = z.object({ calls: z.array(CallRowJson), leases: z.array(LeaseRowJson) })
export interface Chunk {
  calls: CallRow[]
  leases: LeaseRow[]
}

export async function encodeRun({ calls, leases }: ProgramRows): Promise<EncodedRun> {
  const leasesOf = Map.groupBy(leases, (lease) => lease.call)
  const ordered = calls.toSorted((a, b) => a.position - b.position)
  const chunks: Uint8Array[] = []
  for (let from = 0; from < ordered.length; from += CALLS_PER_CHUNK) {
    const taken = ordered.slice(from, from + CALLS_PER_CHUNK)
    const chunk: Chunk = { calls: taken, leases: taken.flatMap(({ call }) => leasesOf.get(call) ?? []) }
    chunks.push(await gzip(JSON.stringify(chunk)))
  }
  return { body: joined(chunks), calls_per_chunk: CALLS_PER_CHUNK, chunk_bytes: chunks.map(({ length }) => length) }
}

/** Chunks `from` to before `to` of a part. Null: R2 has the segment no longer. Throws if R2 does not answer. */
export async function readChunks(bucket: R2Bucket, part: RunPart, from: number, to: number): Promise<Chunk[] | null> {
  const lengths = part.chunk_bytes.slice(from, to)
  if (lengths.length === 0) return []
  const offset = part.offset + sum(part.chunk_bytes.slice(0, from))
  const object = await bucket.get(part.segment, { range: { offset, length: sum(lengths) } })
  if (object === null) return null
  const bytes = new Uint8Array(await object.arrayBuffer())
  const chunks: Chunk[] = []
  let start = 0
  for (const length of lengths) {
    chunks.push(ChunkJson.parse(JSON.parse(await gunzip(bytes.subarray(start, start + length)))))
    start += length
  }
  return chunks
}

/** Sorts by tenant, then by day, so that what is past its retention lies together. */
export function segmentKey(tenant: string, now_ms: number, id: string): string {
  return `${tenantPrefix(tenant)}${dayOf(now_ms)}/${id}`
}

/** Deletes at most one listing of the tenant's segments that were written on a day before `before_ms`. Returns how many. */
export async function dropSegments(bucket: R2Bucket, tenant: string, before_ms: number): Promise<number> {
  const prefix = tenantPrefix(tenant)
  const { objects } = await bucket.list({ prefix })
  const last = prefix + dayOf(before_ms - DAY_MS)
  const keys = objects.map(({ key }) => key).filter((key) => key < last)
  if (keys.length > 0) await bucket.delete(keys)
  return keys.length
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(sum(parts.map(({ length }) => length)))
  let offset = 0
  for (const part of parts) {
    bytes.set(part, offset)
    offset += part.length
  }
  return bytes
}

/** A tenant's id may hold any character. */
function tenantPrefix(tenant: string): string {
  return `${PREFIX}${encodeURIComponent(tenant)}/`
}

function dayOf(now_ms: number): string {
  return new Date(now_ms).toISOString().slice(0, 10)
}

function sum(lengths: readonly number[]): number {
  return lengths.reduce((total, length) => total + length, 0)
}

async function gzip(text: string): Promise<Uint8Array> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

function gunzip(bytes: Uint8Array): Promise<string> {
  const stream = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream('gzip'))
  return new Response(stream).text()
}
