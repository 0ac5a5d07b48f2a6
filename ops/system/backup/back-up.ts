/**
 * A backup of a self-hosted system, running or not: its state as of one instant, and the records that its agents had not
 * been told to forget.
 *
 * Keeps true: what was acknowledged before the start is in the backup. Agents' outboxes are copied first, then the control
 * plane is held while its stores are copied. A record that was acknowledged before the hold is in the state. One that was
 * not, and was there when the outbox was copied, is sent again after a restore, and counts once (design.md, invariant 1).
 */
import { existsSync } from 'node:fs'
import { copyFile, mkdir, readdir, rename, statfs } from 'node:fs/promises'
import path from 'node:path'
import { backup as copyDatabase, DatabaseSync } from 'node:sqlite'
import { WORKERD_NAME } from '../../workerd/workerd-launcher.ts'
import { readFileIfAny } from '../atomic-file.ts'
import type { DataDir } from '../data-dir.ts'
import { UpRefused } from '../explain-error.ts'
import { folderBytes } from '../folder-size.ts'
import { pidFile } from '../guard.ts'
import { acquireLock, lockHolder } from '../lock.ts'
import { withPartialFolder } from '../partial-folder.ts'
import { type ProcessRecord, parseProcessRecord } from '../processes.ts'
import { CONTROL_PLANE } from '../take.ts'
import { FolderCopy } from './copy-changed.ts'
import { HOLD_MS_MAX, whileHeld } from './hold.ts'
import { type Manifest, writeManifest } from './manifest.ts'

const OUTBOX = 'outbox.sqlite'
/** Rounds of copying while the system runs: each is shorter than the one before. */
const ROUNDS = 2
const HOLDS_MAX = 3
/** Left free beside the copy. */
const FREE_BYTES_MIN = 64 * 1024 * 1024

export interface BackedUp extends Manifest {
  folder: string
  bytes: number
}

/** Throws UpRefused for what the user can fix. `target` is there as a whole, or not at all. */
export async function backUp(place: DataDir, target: string): Promise<BackedUp> {
  const folder = path.resolve(target)
  if (existsSync(folder) && (await readdir(folder)).length > 0) {
    throw new UpRefused(`${folder} is not empty. A backup has a folder of its own: name one that is not there yet`)
  }
  if (!existsSync(path.join(place.state, 'd1'))) {
    throw new UpRefused(`There is no state in ${place.root} to back up. --data-dir names the folder of another system`)
  }
  const bytes = await folderBytes(place.state)
  await mkdir(path.dirname(folder), { recursive: true })
  const { bavail, bsize } = await statfs(path.dirname(folder))
  if (bavail * bsize < bytes + FREE_BYTES_MIN) {
    throw new UpRefused(
      `${path.dirname(folder)} has too little room: the state takes ${Math.ceil(bytes / 1e6)} MB. Choose another disk`,
    )
  }
  // Two at once would hold the control plane twice as long.
  const only = await acquireLock(`${place.lock}.backup`)
  if (!only.ok) throw new UpRefused(`Another backup of ${place.root} is being made (pid ${only.holder.pid})`)
  try {
    return await withPartialFolder(path.dirname(folder), async (partial) => {
      const copy = path.join(partial, 'copy')
      await mkdir(copy, { mode: 0o700 })
      const held_ms = await copyAll(place, copy)
      const manifest = await writeManifest(copy, held_ms)
      await rename(copy, folder)
      return { ...manifest, folder, bytes: await folderBytes(folder) }
    })
  } finally {
    await only.release()
  }
}

/** Returns for how long the control plane was held. */
async function copyAll(place: DataDir, copy: string): Promise<number> {
  const state = new FolderCopy(place.state, path.join(copy, 'state'))
  if (existsSync(place.secrets)) await copyFile(place.secrets, path.join(copy, 'secrets.json'))
  const idle = (await lockHolder(place.lock)) === null ? await acquireLock(place.lock) : null
  if (idle?.ok) {
    try {
      await copyOutboxes(place, copy)
      await state.copy()
      return 0
    } finally {
      await idle.release()
    }
  }
  for (let round = 0; round < ROUNDS; round += 1) await state.copy()
  for (let attempt = 0; attempt < HOLDS_MAX; attempt += 1) {
    const workerd = await workerdOf(place)
    await copyOutboxes(place, copy)
    // Whatever is left of the last attempt is copied before the next one, while the system runs.
    await state.copy()
    const held = await whileHeld(workerd, () => state.copy())
    if (held.status === 'held') return held.held_ms
  }
  throw new UpRefused(
    `The stores could not be copied within ${HOLD_MS_MAX / 1000} s, in ${HOLDS_MAX} attempts: the disk is slow, or the ` +
      'control plane was starting. Nothing was written. Repeat it when less is served, or stop the system first: `switchyard down`',
  )
}

async function workerdOf(place: DataDir): Promise<ProcessRecord> {
  const record = parseProcessRecord(await readFileIfAny(pidFile(path.join(place.run, CONTROL_PLANE), WORKERD_NAME)))
  if (record !== null) return record
  throw new UpRefused(`The control plane on ${place.root} is starting or stopping. Repeat the command when it runs`)
}

/** By SQLite itself, since agents go on writing. */
async function copyOutboxes(place: DataDir, copy: string): Promise<void> {
  const agents = path.dirname(place.agent('any'))
  for (const id of await readdir(agents).catch(() => [])) {
    const from = path.join(place.agent(id), OUTBOX)
    if (!existsSync(from)) continue
    const to = path.join(copy, 'agents', id, OUTBOX)
    await mkdir(path.dirname(to), { recursive: true, mode: 0o700 })
    const outbox = new DatabaseSync(from, { readOnly: true, timeout: HOLD_MS_MAX })
    try {
      await copyDatabase(outbox, to)
    } finally {
      outbox.close()
    }
  }
}
