/** `backup.json`: what a backup holds, each file with its size and hash. A folder without it is no backup. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { writeFileAtomic } from '../atomic-file.ts'
import { filesIn } from './copy-changed.ts'

export const MANIFEST_FILE = 'backup.json'
const MANIFEST_VERSION = 1

const Manifest = z.object({
  version: z.literal(MANIFEST_VERSION),
  made_at: z.iso.datetime(),
  /** For how long calls and acknowledgements waited. 0: nothing ran. */
  held_ms: z.number().nonnegative(),
  files: z.record(z.string(), z.object({ bytes: z.number().int().nonnegative(), sha256: z.string() })),
})
export type Manifest = z.infer<typeof Manifest>

export async function writeManifest(folder: string, held_ms: number): Promise<Manifest> {
  const files: Manifest['files'] = {}
  for (const file of await filesIn(folder)) files[file] = await digestOf(path.join(folder, file))
  const manifest: Manifest = { version: MANIFEST_VERSION, made_at: new Date().toISOString(), held_ms, files }
  await writeFileAtomic(path.join(folder, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`)
  return manifest
}

export type Checked = { status: 'whole'; manifest: Manifest } | { status: 'damaged'; reason: string }

/** Every file is there as it was written. */
export async function checkBackup(folder: string): Promise<Checked> {
  const damaged = (reason: string): Checked => ({ status: 'damaged', reason })
  const text = await readFile(path.join(folder, MANIFEST_FILE), 'utf8').catch(() => null)
  if (text === null)
    return damaged(
      `${folder} is not a backup: it has no ${MANIFEST_FILE}. Name a folder that \`switchyard backup\` made`,
    )
  const parsed = Manifest.safeParse(jsonOf(text))
  if (!parsed.success) return damaged(`${path.join(folder, MANIFEST_FILE)} is not as \`switchyard backup\` writes it`)
  for (const [file, known] of Object.entries(parsed.data.files)) {
    const found = await digestOf(path.join(folder, file)).catch(() => null)
    if (found === null) return damaged(`${file} is missing from the backup ${folder}`)
    if (found.bytes !== known.bytes || found.sha256 !== known.sha256) {
      return damaged(`${file} of the backup ${folder} is not as it was written`)
    }
  }
  return { status: 'whole', manifest: parsed.data }
}

async function digestOf(file: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  let bytes = 0
  await pipeline(createReadStream(file), async (chunks) => {
    for await (const chunk of chunks as AsyncIterable<Buffer>) {
      bytes += chunk.length
      hash.update(chunk)
    }
  })
  return { bytes, sha256: hash.digest('hex') }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
