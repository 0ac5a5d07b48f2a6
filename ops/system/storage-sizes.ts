/** What fills the disk of a system on one machine, by store: docs/deploy.md#what-fills-up. */
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { textTable } from '../../cli/table.ts'
import { objectsFolder, processIndexes } from '../workerd/process-folder.ts'
import type { DataDir } from './data-dir.ts'
import { folderBytes } from './folder-size.ts'

export interface StorageSizes {
  d1_bytes: number
  r2_bytes: number
  durable_objects_bytes: number
  agents_bytes: number
  backups_bytes: number
  logs_bytes: number
}

export async function storageSizes(place: DataDir): Promise<StorageSizes> {
  // Miniflare keeps each kind in a folder of its name.
  const stores = ['d1', 'r2'].map((kind) => path.join(place.state, kind))
  const folders = [...stores, place.agent(''), place.backups, place.logs]
  const [d1_bytes = 0, r2_bytes = 0, agents_bytes = 0, backups_bytes = 0, logs_bytes = 0] = await Promise.all(
    folders.map(folderBytes),
  )
  const processes = [0, ...processIndexes(await readdir(place.state).catch(() => []))]
  const objects = await Promise.all(processes.map((index) => folderBytes(objectsFolder(place.state, index))))
  const durable_objects_bytes = objects.reduce((sum, bytes) => sum + bytes, 0)
  return { d1_bytes, r2_bytes, durable_objects_bytes, agents_bytes, backups_bytes, logs_bytes }
}

/** `disk_free_bytes` null: not known. */
export function storageTable(sizes: StorageSizes, disk_free_bytes: number | null): string {
  const rows = [
    { name: 'D1', bytes: sizes.d1_bytes, what: 'tenants, keys, models, regions, agents, files' },
    { name: 'R2', bytes: sizes.r2_bytes, what: 'calls of ended programs' },
    {
      name: 'Durable Objects',
      bytes: sizes.durable_objects_bytes,
      what: 'running and ended programs, pools, stored responses, classes',
    },
    { name: 'agents', bytes: sizes.agents_bytes, what: 'ledgers, records not yet delivered' },
    { name: 'backups', bytes: sizes.backups_bytes, what: 'copies made before upgrades' },
    { name: 'logs', bytes: sizes.logs_bytes, what: '' },
    { name: 'free on disk', bytes: disk_free_bytes, what: '' },
  ]
  return textTable(
    [
      { title: 'storage', cell: ({ name }) => name },
      { title: 'size', cell: ({ bytes }) => megabytes(bytes), align: 'right' },
      { title: 'holds', cell: ({ what }) => what },
    ],
    rows,
  )
}

function megabytes(bytes: number | null): string {
  return bytes === null ? '?' : `${(bytes / 1e6).toFixed(1)} MB`
}
