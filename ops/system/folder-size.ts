/** How much a folder holds. Files that vanish meanwhile count nothing, and a folder that is not there is empty. */
import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'

/** Files whose sizes are asked for at a time. */
const AT_ONCE = 256

export async function folderBytes(folder: string): Promise<number> {
  let bytes = 0
  const files = await filesIn(folder)
  for (let from = 0; from < files.length; from += AT_ONCE) {
    const sizes = await Promise.all(files.slice(from, from + AT_ONCE).map(sizeOf))
    for (const size of sizes) bytes += size
  }
  return bytes
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(absentAs([]))
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => path.join(parentPath, name))
}

async function sizeOf(file: string): Promise<number> {
  return stat(file).then(({ size }) => size, absentAs(0))
}

function absentAs<T>(value: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code !== 'ENOENT') throw error
    return value
  }
}
