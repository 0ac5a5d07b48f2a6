import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import {
  DISK_FREE_BYTES_MIN,
  diskFullText,
  freeBytes,
  judgeOpenFiles,
  OPEN_FILES_MIN,
  OPEN_FILES_WANTED,
  openFilesLimit,
} from './host-limits.ts'
import { testFolder } from './test-folder.ts'

test('a disk is full below its bound, and one that is not known is not', async () => {
  expect(diskFullText('/data', DISK_FREE_BYTES_MIN)).toBeNull()
  expect(diskFullText('/data', DISK_FREE_BYTES_MIN - 1)).toContain('The disk that holds /data is full (31 MB are free)')
  expect(diskFullText('/data', null)).toBeNull()
  expect(await freeBytes(testFolder())).toBeGreaterThan(0)
  expect(await freeBytes('/no/such/folder')).toBeNull()
})

test('the limit of open files is judged at its bounds', () => {
  expect(judgeOpenFiles(null).status).toBe('enough')
  expect(judgeOpenFiles(OPEN_FILES_WANTED).status).toBe('enough')
  expect(judgeOpenFiles(OPEN_FILES_WANTED - 1)).toMatchObject({
    status: 'few',
    message: expect.stringContaining('about 2047 open streams'),
  })
  expect(judgeOpenFiles(OPEN_FILES_MIN).status).toBe('few')
  expect(judgeOpenFiles(OPEN_FILES_MIN - 1)).toMatchObject({
    status: 'too_few',
    message: expect.stringContaining('LimitNOFILE=65536'),
  })
})

test('it is read as the system tells it', async () => {
  const file = path.join(testFolder(), 'limits')
  writeFileSync(file, execFileSync('sh', ['-c', 'ulimit -n 512; cat /proc/self/limits']))
  expect(await openFilesLimit(file)).toBe(512)
  expect(await openFilesLimit('/no/such/file')).toBeNull()
})
