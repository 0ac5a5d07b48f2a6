import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { dataDir } from './data-dir.ts'
import { storageSizes, storageTable } from './storage-sizes.ts'
import { testFolder } from './test-folder.ts'

function write(file: string, bytes: number): void {
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, new Uint8Array(bytes))
}

test('each store has the size of its folder, whole, and one that is not there has none', async () => {
  const place = dataDir(testFolder())
  write(path.join(place.state, 'd1', 'a', 'b.sqlite'), 10)
  write(path.join(place.state, 'd1', 'c.sqlite'), 5)
  write(path.join(place.state, 'r2', 'switchyard', 'blobs', 'x'), 2_000_000)
  write(path.join(place.agent('us-east-1'), 'outbox.sqlite'), 7)
  const sizes = await storageSizes(place)
  expect(sizes).toMatchObject({ d1_bytes: 15, r2_bytes: 2_000_000, agents_bytes: 7, durable_objects_bytes: 0 })
  expect(storageTable(sizes, 3e6)).toMatch(/R2 +2\.0 MB[\s\S]*free on disk +3\.0 MB/)
})
