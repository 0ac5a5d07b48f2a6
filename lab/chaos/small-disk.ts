/**
 * A folder with a file system of its own, so that a disk can be full for one process and not for the others. It is a tmpfs:
 * to fill it, its size is set to what it holds, which takes no memory. A file may still be written where it has room within
 * its blocks, as on any full disk.
 *
 * Mounting needs a mount namespace of one's own (private-mounts.ts), so that nothing stays mounted, however a run ends.
 */
import { execFile } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Of memory, and only what is written is taken. An hour of chaos writes a few hundred megabytes. */
const SIZE_BYTES = 8 * 1024 * 1024 * 1024
/** A writer may take more between the look and the change. */
const ATTEMPTS_MAX = 20

export class SmallDisk {
  readonly #folder: string

  private constructor(folder: string) {
    this.#folder = folder
  }

  static async mount(folder: string): Promise<SmallDisk> {
    mkdirSync(folder, { recursive: true })
    await run('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_BYTES},mode=700`, 'switchyard-chaos', folder])
    return new SmallDisk(folder)
  }

  /** No further block can be written. */
  async fill(): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const { blocks, bfree, bsize } = await statfs(this.#folder)
      try {
        return await this.#resize((blocks - bfree) * bsize)
      } catch (error) {
        if (attempt === ATTEMPTS_MAX) throw error
      }
    }
  }

  async free(): Promise<void> {
    await this.#resize(SIZE_BYTES)
  }

  async unmount(): Promise<void> {
    await run('umount', ['--lazy', this.#folder])
  }

  async #resize(bytes: number): Promise<void> {
    await run('mount', ['-o', `remount,size=${bytes}`, this.#folder])
  }
}
