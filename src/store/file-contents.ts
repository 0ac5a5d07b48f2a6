/**
 * Contents of files in R2, as parts that a file's row lists in their order. A part is never changed. It is written from
 * memory, since R2 must know its length before it takes it, so FILE_PART_BYTES is what a writer holds.
 *
 * A file that was uploaded in pieces consists of their parts as they are: nothing is copied when it is completed. A batch
 * adds parts to its output as it runs.
 */
import type { FilePart } from '../core/batch/file-part.ts'
import { joined } from './segments.ts'

/** Of a part that a request or a batch writes; the last one of a body is smaller. */
export const FILE_PART_BYTES = 4 * 1024 * 1024
/** Keys that R2 deletes at a time. */
const DELETED_AT_ONCE = 1000
const PREFIX = 'files/'
const NUMBER_DIGITS = 6

/** Null: it was deleted. */
type FileBytes = Uint8Array | null

/** Writes one body part by part. */
export class PartWriter {
  readonly #bucket: R2Bucket
  readonly #tenant: string
  readonly #object: string
  readonly #parts: FilePart[] = []
  #held: Uint8Array[] = []
  #held_bytes = 0

  /** `object`: the id of the file, or of the piece of an upload, whose parts are written. */
  constructor(bucket: R2Bucket, tenant: string, object: string) {
    this.#bucket = bucket
    this.#tenant = tenant
    this.#object = object
  }

  /** Keeps `bytes`, so they must not be changed afterwards. */
  async write(bytes: Uint8Array): Promise<void> {
    let rest = bytes
    while (this.#held_bytes + rest.length >= FILE_PART_BYTES) {
      const room = FILE_PART_BYTES - this.#held_bytes
      this.#held.push(rest.subarray(0, room))
      rest = rest.subarray(room)
      await this.#put(FILE_PART_BYTES)
    }
    if (rest.length > 0) this.#held.push(rest)
    this.#held_bytes += rest.length
  }

  async finish(): Promise<FilePart[]> {
    if (this.#held_bytes > 0) await this.#put(this.#held_bytes)
    return this.#parts
  }

  async #put(bytes: number): Promise<void> {
    const body = joined(this.#held)
    this.#held = []
    this.#held_bytes = 0
    const name = partName(this.#object, this.#parts.length)
    await putPart(this.#bucket, this.#tenant, name, body)
    this.#parts.push({ name, bytes })
  }
}

export function partName(object: string, number: number): string {
  return `${object}/${String(number).padStart(NUMBER_DIGITS, '0')}`
}

export async function putPart(bucket: R2Bucket, tenant: string, name: string, body: Uint8Array): Promise<void> {
  await bucket.put(keyOf(tenant, name), body)
}

/** At least one byte from `offset` on, at most `bytes_max`, and never beyond a part. Empty: the file ends before. */
export async function readBytesAt(
  bucket: R2Bucket,
  tenant: string,
  parts: readonly FilePart[],
  offset: number,
  bytes_max: number,
): Promise<FileBytes> {
  let start = 0
  for (const { name, bytes } of parts) {
    if (offset < start + bytes) {
      const range = { offset: offset - start, length: Math.min(bytes_max, start + bytes - offset) }
      const object = await bucket.get(keyOf(tenant, name), { range })
      return object === null ? null : new Uint8Array(await object.arrayBuffer())
    }
    start += bytes
  }
  return new Uint8Array(0)
}

/** The whole file, and then `tail`. It breaks off if a part is deleted meanwhile. Null: it is deleted. */
export async function fileStream(
  bucket: R2Bucket,
  tenant: string,
  parts: readonly FilePart[],
  waitUntil: (work: Promise<unknown>) => void,
  tail: Uint8Array | null = null,
): Promise<ReadableStream<Uint8Array> | null> {
  const [first, ...others] = parts
  const opened = first === undefined ? undefined : await bucket.get(keyOf(tenant, first.name))
  if (opened === null) return null
  const { readable, writable } = new FixedLengthStream(bytesOf(parts) + (tail?.length ?? 0))
  const copy = async (): Promise<void> => {
    if (opened !== undefined) await opened.body.pipeTo(writable, { preventClose: true })
    for (const { name } of others) {
      const object = await bucket.get(keyOf(tenant, name))
      if (object === null) return writable.abort(new Error('the file was deleted'))
      await object.body.pipeTo(writable, { preventClose: true })
    }
    const writer = writable.getWriter()
    if (tail !== null) await writer.write(tail)
    await writer.close()
  }
  // It fails where its reader has left, or R2 has: either way the response has broken off.
  waitUntil(copy().catch(() => undefined))
  return readable
}

/** Hex. Null: a part is gone. */
export async function md5Of(bucket: R2Bucket, tenant: string, parts: readonly FilePart[]): Promise<string | null> {
  const digest = new crypto.DigestStream('MD5')
  for (const { name } of parts) {
    const object = await bucket.get(keyOf(tenant, name))
    if (object === null) return null
    await object.body.pipeTo(digest, { preventClose: true })
  }
  await digest.getWriter().close()
  return Array.from(new Uint8Array(await digest.digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export async function deleteParts(bucket: R2Bucket, tenant: string, parts: readonly FilePart[]): Promise<void> {
  for (let from = 0; from < parts.length; from += DELETED_AT_ONCE) {
    await bucket.delete(parts.slice(from, from + DELETED_AT_ONCE).map(({ name }) => keyOf(tenant, name)))
  }
}

/** Also the parts that a request wrote before it broke off, which no row names. */
export async function deleteObject(bucket: R2Bucket, tenant: string, object: string): Promise<void> {
  for (;;) {
    const { objects, truncated } = await bucket.list({ prefix: keyOf(tenant, `${object}/`) })
    if (objects.length > 0) await bucket.delete(objects.map(({ key }) => key))
    if (!truncated) return
  }
}

export function bytesOf(parts: readonly FilePart[]): number {
  return parts.reduce((sum, { bytes }) => sum + bytes, 0)
}

function keyOf(tenant: string, name: string): string {
  return `${PREFIX}${encodeURIComponent(tenant)}/${name}`
}
