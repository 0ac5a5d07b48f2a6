import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { pythonEnvironment } from './environment.ts'
import { findPython } from './find-python.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function testFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-python-'))
  folders.push(folder)
  return folder
}

function script(folder: string, name: string, body: string): string {
  const file = path.join(folder, name)
  writeFileSync(file, `#!/bin/sh\n${body}\n`, { mode: 0o755 })
  return file
}

test('without a Python the one sentence says what is needed', () => {
  const found = findPython({ PATH: testFolder() })
  expect(found).toEqual({
    ok: false,
    reason: expect.stringMatching(/^Python 3\.11 or later with its venv module is needed/),
  })
})

test('a Python that is too old, or has no venv, is passed over for one that will do', () => {
  const folder = testFolder()
  script(folder, 'python3.11', 'echo "No module named ensurepip" >&2; exit 1')
  script(folder, 'python3', 'echo 3 10')
  expect(findPython({ PATH: folder })).toMatchObject({
    ok: false,
    reason: expect.stringContaining('python3: it is 3.10'),
  })
  script(folder, 'python', 'echo 3 11')
  expect(findPython({ PATH: folder })).toEqual({ ok: true, python: 'python' })
})

test('one that is named is the only one looked at', () => {
  const folder = testFolder()
  script(folder, 'python3', 'echo 3 12')
  expect(findPython({ PATH: folder, SWITCHYARD_PYTHON: 'python9' })).toMatchObject({ ok: false })
})

test('an environment is made once for a lock file, and again when it changes', () => {
  const folder = testFolder()
  const log = path.join(folder, 'log')
  // A Python whose environments hold a copy of itself.
  const python = script(
    folder,
    'python3',
    `case "$2" in
venv) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo venv >> ${log};;
pip) echo pip >> ${log};;
*) echo 3 11;;
esac`,
  )
  const lock_file = path.join(folder, 'lock.txt')
  writeFileSync(lock_file, 'a==1')
  const spec = { name: 'test-env', lock_file, download: '1 MB' }
  const cache = path.join(folder, 'cache')
  const env = { PATH: process.env.PATH, SWITCHYARD_PYTHON: python }
  const made = pythonEnvironment(spec, cache, env)
  expect(made).toEqual({ ok: true, python: path.join(cache, 'test-env', 'bin', 'python') })
  rmSync(log)
  expect(pythonEnvironment(spec, cache, env)).toEqual(made)
  expect(existsSync(log)).toBe(false)
  writeFileSync(lock_file, 'a==2')
  expect(pythonEnvironment(spec, cache, env)).toEqual(made)
  expect(existsSync(log)).toBe(true)
})

test('an environment that cannot be filled leaves nothing behind and says what it needs', () => {
  const folder = testFolder()
  const python = script(
    folder,
    'python3',
    `case "$2" in
venv) mkdir -p "$3/bin" && cp "$0" "$3/bin/python";;
pip) echo "ERROR: No matching distribution found for a" >&2; exit 1;;
*) echo 3 11;;
esac`,
  )
  const lock_file = path.join(folder, 'lock.txt')
  writeFileSync(lock_file, 'a==1')
  const cache = path.join(folder, 'cache')
  const env = { PATH: process.env.PATH, SWITCHYARD_PYTHON: python }
  const result = pythonEnvironment({ name: 'test-env', lock_file, download: '1 MB' }, cache, env)
  expect(result).toMatchObject({ ok: false, reason: expect.stringContaining('No matching distribution found for a') })
  expect(readdirSync(cache)).toEqual([])
})
