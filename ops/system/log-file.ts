/**
 * A child's output on disk, bounded: beyond LOG_BYTES_MAX the file becomes FILE.1 (one generation) and starts anew. A log
 * never ends its writer: what a full disk does not take is dropped, and counted in the log once it takes bytes again.
 */
import { closeSync, fstatSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'

const LOG_BYTES_MAX = 16 * 1024 * 1024
const TAIL_BYTES_MAX = 8 * 1024

type Disk = (fd: number, bytes: Buffer, from: number) => number

export class LogFile {
  readonly path: string
  readonly #size_bytes_max: number
  readonly #disk: Disk
  #fd: number
  #size_bytes: number
  #lost_bytes = 0
  #lost_because = ''

  /** `disk` writes bytes from an offset on and says how many it took. */
  constructor(file: string, size_bytes_max: number = LOG_BYTES_MAX, disk: Disk = writeSync) {
    mkdirSync(path.dirname(file), { recursive: true })
    this.path = file
    this.#disk = disk
    this.#size_bytes_max = size_bytes_max
    this.#fd = openSync(file, 'a', 0o600)
    this.#size_bytes = fstatSync(this.#fd).size
  }

  write(chunk: Buffer | string): void {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    try {
      if (this.#size_bytes > 0 && this.#size_bytes + bytes.length > this.#size_bytes_max) this.#rotate()
      if (this.#lost_bytes > 0)
        this.#append(Buffer.from(`\n--- ${this.#lost_bytes} bytes of this log were lost: ${this.#lost_because}\n`))
      this.#lost_bytes = 0
      this.#append(bytes)
    } catch (error) {
      // Of any cause: the child that is logged goes on.
      this.#lost_bytes += bytes.length
      this.#lost_because = (error as Error).message
    }
  }

  /** A disk that is nearly full takes a part. */
  #append(bytes: Buffer): void {
    for (let written = 0; written < bytes.length; ) {
      const taken = this.#disk(this.#fd, bytes, written)
      written += taken
      this.#size_bytes += taken
    }
  }

  close(): void {
    closeSync(this.#fd)
  }

  #rotate(): void {
    renameSync(this.path, `${this.path}.1`)
    const full = this.#fd
    this.#fd = openSync(this.path, 'a', 0o600)
    closeSync(full)
    this.#size_bytes = 0
  }
}

/** The last lines of a file, for a message about what went wrong; empty if there is no file. */
export async function logTail(file: string, lines_max: number): Promise<string> {
  try {
    const handle = await open(file, 'r')
    try {
      const { size } = await handle.stat()
      const length = Math.min(size, TAIL_BYTES_MAX)
      const { buffer } = await handle.read(Buffer.alloc(length), 0, length, size - length)
      return buffer.toString('utf8').trimEnd().split('\n').slice(-lines_max).join('\n')
    } finally {
      await handle.close()
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}
