import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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

test('an environment is made once for a lock file, and again when it changes', async () => {
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
  const spec = { name: 'test-env', lock_file, download: '1 MB', installer: 'pip' } as const
  const cache = path.join(folder, 'cache')
  const env = { PATH: process.env.PATH, SWITCHYARD_PYTHON: python }
  const place = { cache_folder: cache, env }
  const made = await pythonEnvironment(spec, place)
  expect(made).toEqual({ ok: true, python: path.join(cache, 'test-env', 'bin', 'python') })
  rmSync(log)
  expect(await pythonEnvironment(spec, place)).toEqual(made)
  expect(existsSync(log)).toBe(false)
  writeFileSync(lock_file, 'a==2')
  expect(await pythonEnvironment(spec, place)).toEqual(made)
  expect(existsSync(log)).toBe(true)
})

test('of two processes that make an environment side by side the second leaves that of the first, which may be in use', async () => {
  const folder = testFolder()
  const other = path.join(folder, 'other')
  const first = path.join(folder, 'cache', 'test-env')
  // While it installs, another process puts its own in place.
  const python = script(
    folder,
    'python3',
    `case "$2" in
venv) mkdir -p "$3/bin" && cp "$0" "$3/bin/python";;
pip) [ ! -d ${other} ] || mv ${other} ${first};;
*) echo 3 11;;
esac`,
  )
  const lock_file = path.join(folder, 'lock.txt')
  writeFileSync(lock_file, 'a==1')
  const spec = { name: 'test-env', lock_file, download: '1 MB', installer: 'pip' } as const
  const env = { PATH: process.env.PATH, SWITCHYARD_PYTHON: python }
  await pythonEnvironment(spec, { cache_folder: path.join(folder, 'cache'), env })
  cpSync(first, other, { recursive: true })
  writeFileSync(path.join(other, 'in-use'), '')
  rmSync(first, { recursive: true })
  const made = await pythonEnvironment(spec, { cache_folder: path.join(folder, 'cache'), env })
  expect(made).toEqual({ ok: true, python: path.join(first, 'bin', 'python') })
  expect(readdirSync(first)).toContain('in-use')
  expect(readdirSync(path.join(folder, 'cache'))).toEqual(['test-env'])
})

test('an environment that cannot be filled leaves nothing behind and says what it needs', async () => {
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
  const spec = { name: 'test-env', lock_file, download: '1 MB', installer: 'pip' } as const
  const result = await pythonEnvironment(spec, { cache_folder: cache, env })
  expect(result).toMatchObject({ ok: false, reason: expect.stringContaining('No matching distribution found for a') })
  expect(readdirSync(cache)).toEqual([])
})

/** Python and uv that write down what they are told; the environment is a copy of this Python. */
function toolsWith(
  folder: string,
  uv: string,
): { env: Record<string, string | undefined>; log: string; lock_file: string } {
  const log = path.join(folder, 'log')
  const bin = path.join(folder, 'bin')
  mkdirSync(bin)
  script(
    bin,
    'python3',
    `case "$2 $3" in
"venv --without-pip") mkdir -p "$4/bin" && cp "$0" "$4/bin/python";;
"pip config") echo "global.index-url='https://mirror.example/simple'"; echo ":env:.other='x'";;
*) echo 3 11;;
esac`,
  )
  script(bin, 'uv', `echo "$@" index=$UV_DEFAULT_INDEX cache=$UV_CACHE_DIR >> ${log}\n${uv}`)
  const lock_file = path.join(folder, 'lock.txt')
  writeFileSync(lock_file, 'a==1')
  return { env: { PATH: `${bin}:/usr/bin:/bin`, SWITCHYARD_PYTHON: path.join(bin, 'python3') }, log, lock_file }
}

test('uv is told of the index that pip is configured for, and keeps its own cache', async () => {
  const folder = testFolder()
  const { env, log, lock_file } = toolsWith(folder, 'exit 0')
  const spec = { name: 'big-env', lock_file, download: '1 MB', installer: 'uv' } as const
  const cache = path.join(folder, 'cache')
  const made = await pythonEnvironment(spec, { cache_folder: cache, env })
  expect(made).toEqual({ ok: true, python: path.join(cache, 'big-env', 'bin', 'python') })
  const install = readFileSync(log, 'utf8').trim().split('\n').at(-1)
  expect(install).toMatch(
    /^pip install --compile-bytecode .*--no-deps --require-hashes -r .*lock\.txt index=https:\/\/mirror\.example\/simple cache=$/,
  )
  expect(readdirSync(cache)).toEqual(['big-env'])
})

test('what is set for uv itself stays, and what it refuses is the reason', async () => {
  const folder = testFolder()
  const { env, log, lock_file } = toolsWith(
    folder,
    '[ "$1" = pip ] && { echo "error: no such package" >&2; exit 2; }; exit 0',
  )
  const spec = { name: 'big-env', lock_file, download: '1 MB', installer: 'uv' } as const
  const place = { cache_folder: path.join(folder, 'cache'), env: { ...env, UV_DEFAULT_INDEX: 'https://own.example' } }
  const made = await pythonEnvironment(spec, place)
  expect(made).toMatchObject({ ok: false, reason: expect.stringContaining('error: no such package') })
  expect(readFileSync(log, 'utf8')).toContain('index=https://own.example')
  expect(readdirSync(place.cache_folder)).toEqual([])
})

test('an installation that is stopped leaves nothing behind', async () => {
  const folder = testFolder()
  const { env, lock_file } = toolsWith(folder, '[ "$1" = pip ] && exec sleep 60; exit 0')
  const spec = { name: 'big-env', lock_file, download: '1 MB', installer: 'uv' } as const
  const stopped = new AbortController()
  const place = { cache_folder: path.join(folder, 'cache'), env, signal: stopped.signal }
  const making = pythonEnvironment(spec, place)
  setTimeout(() => stopped.abort(), 300)
  expect(await making).toMatchObject({ ok: false, reason: expect.stringContaining('it was stopped') })
  expect(readdirSync(place.cache_folder)).toEqual([])
})
