/**
 * KV of single sequences outside of the context. node-llama-cpp saves a sequence to a file only (measured: 23,057 bytes a
 * token of SmolLM2-135M; 999 tokens take 16 ms to save and 5 to load on a memory file system), so an image is a file: on
 * /dev/shm where there is one with enough room, else in the folder for temporary files.
 *
 * An image is one tenant's text in another form. Its file is readable by this user alone, and on Linux it has no name:
 * it is reached through its open descriptor, so a process that is killed leaves nothing behind. Elsewhere it has a name in
 * a private folder until it is dropped.
 *
 * A damaged file makes llama.cpp reject at best (measured: one stalled a context for ten seconds), so each image's
 * CRC-32 is checked before it is loaded.
 */
import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdtemp, open, rm, statfs, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { LlamaContextSequence } from 'node-llama-cpp'
import { keepSoleStream } from './sole-stream.ts'

const MEMORY_FILE_SYSTEM = '/dev/shm'
const READ_BYTES = 1 << 20

interface Image {
  readonly file: FileHandle
  readonly path: string
  readonly tokens: number
  readonly bytes: number
  readonly crc: number
}

export class KvImages {
  readonly #place: string
  /** Where files have names. Null: they have none. */
  readonly #folder: string | null
  readonly #images = new Map<number, Image>()
  readonly #buffer = Buffer.allocUnsafe(READ_BYTES)

  /** Null when no file system has `room_bytes` free. */
  static async open(room_bytes: number, places = [MEMORY_FILE_SYSTEM, tmpdir()]): Promise<KvImages | null> {
    for (const place of places) {
      if ((await freeBytes(place)) < room_bytes) continue
      const named = process.platform !== 'linux'
      return new KvImages(place, named ? await mkdtemp(join(place, 'switchyard-kv-')) : null)
    }
    return null
  }

  private constructor(place: string, folder: string | null) {
    this.#place = place
    this.#folder = folder
  }

  get count(): number {
    return this.#images.size
  }

  get bytes(): number {
    let bytes = 0
    for (const image of this.#images.values()) bytes += image.bytes
    return bytes
  }

  /** Saves all that `sequence` holds. */
  async save(sequence: LlamaContextSequence, id: number): Promise<void> {
    if (this.#images.has(id)) throw new Error(`image ${id} exists`)
    const named = this.#folder !== null
    const name = named ? join(this.#folder, `${id}`) : join(this.#place, `switchyard-kv-${randomUUID()}`)
    const file = await open(name, 'wx+', 0o600)
    try {
      if (!named) await unlink(name)
      const path = named ? name : `/proc/self/fd/${file.fd}`
      const tokens = sequence.nextTokenIndex
      await sequence.saveStateToFile(path)
      this.#images.set(id, { file, path, tokens, ...(await this.#checksum(file)) })
    } catch (error) {
      await file.close()
      throw error
    }
  }

  /** As `save`, in the form that a context with one sequence loads. */
  async saveSole(sequence: LlamaContextSequence, id: number): Promise<void> {
    await this.save(sequence, id)
    const image = this.#image(id)
    await keepSoleStream(image.file, image.tokens)
    this.#images.set(id, { ...image, ...(await this.#checksum(image.file)) })
  }

  /** Loads an image of `tokens` tokens into `sequence`, in place of what it holds. */
  async restore(sequence: LlamaContextSequence, id: number, tokens: number): Promise<void> {
    const image = this.#image(id)
    if (image.tokens !== tokens) throw new Error(`image ${id} has ${image.tokens} tokens, not ${tokens}`)
    const { crc, bytes } = await this.#checksum(image.file)
    if (crc !== image.crc || bytes !== image.bytes) throw new Error(`image ${id} is damaged`)
    await sequence.loadStateFromFile(image.path, { acceptRisk: true })
    const loaded = sequence.nextTokenIndex
    if (loaded !== tokens) throw new Error(`image ${id} gave ${loaded} tokens, not ${tokens}`)
  }

  /** As `restore`, of an image of any length. */
  restoreAll(sequence: LlamaContextSequence, id: number): Promise<void> {
    return this.restore(sequence, id, this.#image(id).tokens)
  }

  async drop(id: number): Promise<void> {
    const { file, path } = this.#image(id)
    this.#images.delete(id)
    await file.close()
    if (this.#folder !== null) await unlink(path)
  }

  /** Path of an image's file, for tests. */
  path(id: number): string {
    return this.#image(id).path
  }

  async dispose(): Promise<void> {
    for (const { file } of this.#images.values()) await file.close()
    this.#images.clear()
    if (this.#folder !== null) await rm(this.#folder, { recursive: true })
  }

  #image(id: number): Image {
    const image = this.#images.get(id)
    if (image === undefined) throw new Error(`there is no image ${id}`)
    return image
  }

  async #checksum(file: FileHandle): Promise<{ crc: number; bytes: number }> {
    let crc = 0
    let bytes = 0
    for (;;) {
      const { bytesRead } = await file.read(this.#buffer, 0, READ_BYTES, bytes)
      if (bytesRead === 0) return { crc, bytes }
      crc = crc32(this.#buffer.subarray(0, bytesRead), crc)
      bytes += bytesRead
    }
  }
}

/** 0 for a place that does not exist. */
async function freeBytes(place: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(place)
    return bavail * bsize
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}
