/**
 * The first command on a checkout, with a stand-in for npm. What any user has installed is not installed again. Several
 * commands at once install once. An installation can be stopped or refused.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

const LOCKFILE = {
  packages: {
    '': { name: 'switchyard' },
    'node_modules/node': { version: '24.0.0', integrity: 'sha512-1' },
    'node_modules/other-platform': { version: '1.0.0', optional: true, os: ['none'] },
  },
}
/** Notes that it ran and under which Node, takes its time, and leaves what npm leaves. */
const NPM = `
const { appendFileSync, cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } = require('node:fs')
const verb = process.argv[2]
appendFileSync('npm.log', verb + ' ' + process.execPath + '\\n')
if (verb === 'ci') {
  rmSync('node_modules', { recursive: true, force: true })
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400)
  mkdirSync('node_modules/node/bin', { recursive: true })
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'))
  delete packages['']
  delete packages['node_modules/other-platform']
  writeFileSync('node_modules/.package-lock.json', JSON.stringify({ packages }))
} else symlinkSync(process.env.TEST_NODE, 'node_modules/node/bin/node')
`
/** One that hangs and will not end when it is asked to. */
const STUBBORN_NPM = `
require('node:fs').appendFileSync('npm.log', process.argv[2] + ' ' + process.pid + '\\n')
process.on('SIGTERM', () => undefined).on('SIGINT', () => undefined)
setInterval(() => undefined, 1000)
`
const UNPRIVILEGED_ID = 65_534

let root = ''
let lock = ''
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'bootstrap-'))
  lock = path.join(root, '.switchyard', 'install.lock')
  mkdirSync(path.join(root, 'ops'))
  for (const name of ['bootstrap.mjs', 'bootstrap'])
    cpSync(path.join(import.meta.dirname, name), path.join(root, 'ops', name), { recursive: true })
  writeLockfile(LOCKFILE)
  writeFileSync(path.join(root, 'npm.js'), NPM)
  writeFileSync(path.join(root, 'work.mjs'), "console.log('worked')")
})
afterEach(() => {
  setMode(root, 0o755)
  rmSync(root, { recursive: true, force: true })
})

interface Settings {
  node?: string
  env?: NodeJS.ProcessEnv
  /** Without the rights of the user who owns the tree. */
  unprivileged?: boolean
}

function start({ node = process.execPath, env = {}, unprivileged = false }: Settings = {}): ChildProcess {
  const npm = { npm_execpath: path.join(root, 'npm.js'), TEST_NODE: process.execPath }
  const id = unprivileged && process.getuid?.() === 0 ? { uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID } : {}
  return spawn(node, ['ops/bootstrap.mjs', 'work.mjs'], { cwd: root, env: { ...process.env, ...npm, ...env }, ...id })
}

function ended(child: ChildProcess): Promise<{ code: number | null; out: string; err: string }> {
  let [out, err] = ['', '']
  child.stdout?.on('data', (chunk: Buffer) => (out += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (err += chunk.toString()))
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })))
}

const command = (settings?: Settings) => ended(start(settings))
const WORKED = { code: 0, out: 'worked\n' }

function npmRuns(): string[][] {
  const log = path.join(root, 'npm.log')
  if (!existsSync(log)) return []
  const lines = readFileSync(log, 'utf8').trim().split('\n')
  return lines.map((line) => line.split(' '))
}
const npmVerbs = () => npmRuns().map(([verb]) => verb)

function writeLockfile(content: object): void {
  writeFileSync(path.join(root, 'package-lock.json'), JSON.stringify(content))
}

/** What a plain `npm ci` leaves. */
function npmCi(): void {
  for (const verb of ['ci', 'rebuild'])
    spawnSync(process.execPath, ['npm.js', verb], { cwd: root, env: { ...process.env, TEST_NODE: process.execPath } })
  rmSync(path.join(root, 'npm.log'))
}

/** Files keep the execute bit out: only folders need it here. */
function setMode(folder: string, mode: number): void {
  if (mode & 0o200) chmodSync(folder, mode)
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name)
    if (entry.isDirectory()) setMode(file, mode)
    else if (entry.isFile()) chmodSync(file, mode)
  }
  chmodSync(folder, mode)
}

it('installs once for three commands that start at once', async () => {
  const all = await Promise.all([command(), command(), command()])
  for (const one of all) expect(one).toMatchObject(WORKED)
  expect(npmVerbs()).toEqual(['ci', 'rebuild'])
  expect(all.map(({ err }) => err).join('')).toContain('Installing about 1 packages with npm ci')
  expect(existsSync(lock)).toBe(false)
})

it('takes over the lock of a command that was killed', async () => {
  const { pid } = spawnSync(process.execPath, ['-e', ''])
  mkdirSync(path.dirname(lock))
  writeFileSync(lock, `${pid}`)
  expect(await command()).toMatchObject(WORKED)
  expect(npmVerbs()).toEqual(['ci', 'rebuild'])
})

it('leaves no lock when npm fails', async () => {
  writeFileSync(path.join(root, 'npm.js'), "console.error('no network'); process.exit(3)")
  const { code, err } = await command()
  expect(code).toBe(1)
  expect(err).toContain('no network\nnpm ci failed (exit 3)')
  expect(existsSync(lock)).toBe(false)
})

it('accepts what a plain npm ci has installed', async () => {
  npmCi()
  expect(await command()).toMatchObject({ ...WORKED, err: '' })
  expect(npmVerbs()).toEqual([])
})

it('fetches only the Node that npm ci --ignore-scripts left out', async () => {
  npmCi()
  rmSync(path.join(root, 'node_modules/node/bin/node'))
  expect(await command()).toMatchObject(WORKED)
  expect(npmVerbs()).toEqual(['rebuild'])
})

it.each([
  ['another version', { 'node_modules/node': { version: '24.0.1', integrity: 'sha512-2' } }],
  ['a further package', { ...LOCKFILE.packages, 'node_modules/further': { version: '1.0.0' } }],
])('installs again once the lock file asks for %s', async (_, packages) => {
  npmCi()
  writeLockfile({ packages })
  expect(await command()).toMatchObject(WORKED)
  expect(await command()).toMatchObject(WORKED)
  expect(npmVerbs()).toEqual(['ci', 'rebuild'])
})

it('starts as another user from a tree that is read-only', async () => {
  npmCi()
  setMode(root, 0o555)
  expect(await command({ unprivileged: true })).toMatchObject({ ...WORKED, err: '' })
})

it('says which command to run when another user must install', async () => {
  npmCi()
  writeLockfile({ packages: { 'node_modules/node': { version: '24.0.1' } } })
  setMode(root, 0o555)
  const { code, err } = await command({ unprivileged: true })
  expect(code).toBe(78)
  expect(err).toContain(`  cd ${root} && npm ci\n`)
  expect(npmVerbs()).toEqual([])
})

it('never runs npm under the Node that npm ci removes', async () => {
  npmCi()
  const own = path.join(root, 'node_modules/node/bin/node')
  rmSync(own)
  copyFileSync(process.execPath, own)
  mkdirSync(path.join(root, 'node_modules/.bin'))
  symlinkSync('../node/bin/node', path.join(root, 'node_modules/.bin/node'))
  writeLockfile({ packages: { 'node_modules/node': { version: '24.0.1' } } })
  // As `npm run` sets it.
  const PATH = [path.join(root, 'node_modules/.bin'), path.dirname(process.execPath), process.env.PATH].join(':')
  expect(await command({ node: own, env: { PATH } })).toMatchObject(WORKED)
  expect(npmRuns()).toEqual([
    ['ci', process.execPath],
    ['rebuild', process.execPath],
  ])
})

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('ends npm and says so on %s', async (signal, code) => {
  writeFileSync(path.join(root, 'npm.js'), STUBBORN_NPM)
  const child = start()
  const end = ended(child)
  const [, pid] = await vi.waitUntil(() => npmRuns()[0], { timeout: 20_000 })
  child.kill(signal)
  const { err, ...outcome } = await end
  expect(outcome).toEqual({ code, out: '' })
  expect(err).toContain('Stopped: the dependencies are not installed yet.')
  expect(err).not.toContain('failed')
  expect(() => process.kill(Number(pid), 0)).toThrow('ESRCH')
  expect(existsSync(lock)).toBe(false)
})
