/** Starts that cannot work: each says what is wrong and what to do, and shows no stack trace. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { ROOT } from '../../lab/testbed/repository.ts'
import { dataDir } from '../../ops/system/data-dir.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { testFolder } from '../../ops/system/test-folder.ts'
import { withLocalD1 } from '../../ops/workerd/local-d1.ts'
import { readWorkerConfig } from '../../ops/workerd/worker-config.ts'

const UNPRIVILEGED_ID = 65_534
const STACK = /^\s+at .*:\d+:\d+\)?$/m
const random = (): string => randomBytes(32).toString('base64url')
const SECRETS = { KEY_PEPPER: random(), TICKET_SECRET: random(), ADMIN_KEY: random() }

interface Settings {
  code?: number
  /** Files that the process may open. */
  open_files?: number
  script?: string
  /** Without the rights of the user who runs the tests. */
  unprivileged?: boolean
}

async function refused(args: string[], settings: Settings = {}): Promise<string> {
  const { script = 'ops/up.ts', unprivileged = false, code: expected = 1, open_files } = settings
  const id = unprivileged && process.getuid?.() === 0 ? { uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID } : {}
  const limit = open_files === undefined ? '' : `ulimit -n ${open_files}; `
  const command = [process.execPath, path.join(ROOT, script), ...args]
  const child = spawn('/bin/sh', ['-c', `${limit}exec "$@"`, 'sh', ...command], {
    cwd: ROOT,
    env: { ...process.env, ...SECRETS },
    ...id,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const code = await new Promise((resolve) => child.on('close', resolve))
  expect(code, output).toBe(expected)
  expect(output).not.toMatch(STACK)
  return output
}

const up = async (folder: string, ...more: string[]): Promise<string[]> => [
  ...['--engine', 'emulated', '--port', `${await freePort()}`, '--data-dir', folder],
  ...more,
]

it.each(['ops/up.ts', 'ops/status.ts', 'ops/down.ts', 'ops/reset.ts'])(
  '%s on a data directory that is a file names it',
  async (script) => {
    const file = path.join(testFolder(), 'file')
    writeFileSync(file, '')
    const args = script === 'ops/up.ts' ? await up(file) : ['--data-dir', file]
    const output = await refused(args, { script })
    expect(output).toContain('cannot be a folder, because there is a file of that name')
    expect(output).toContain(file)
  },
)

it.each([[[]], [['--detach']]])('in the checkout of another user it names the folder (%j)', async (more) => {
  const folder = testFolder()
  mkdirSync(path.join(folder, 'data'))
  for (const one of [path.join(folder, 'data'), folder]) chmodSync(one, 0o555)
  const output = await refused(await up(path.join(folder, 'data'), ...more), { unprivileged: true })
  expect(output).toMatch(/^This user may not use .*data.* \(EACCES\): it belongs to another\./m)
  expect(output).toContain('--data-dir')
})

it('with damaged secrets it says how to go on', async () => {
  const place = dataDir(testFolder())
  writeFileSync(place.secrets, '{"keyPepper":')
  const output = await refused(await up(place.root))
  expect(output).toContain(`${place.secrets} is damaged`)
  expect(output).toContain(`npm run reset -- --data-dir ${place.root}`)
})

it.each([[[]], [['--production']]])('with a damaged database it names backup and reset (%j)', async (mode) => {
  const place = dataDir(testFolder())
  const config = await readWorkerConfig(path.join(ROOT, 'wrangler.toml'))
  await withLocalD1(config, place.state, (d1) => d1.prepare('CREATE TABLE t (x)').run())
  const files = readdirSync(place.state, { recursive: true, encoding: 'utf8' }).filter((file) => /sqlite/.test(file))
  expect(files.length).toBeGreaterThan(0)
  for (const file of files) writeFileSync(path.join(place.state, file), 'no database'.repeat(1000))
  const args = mode.length === 0 ? await up(place.root) : [...mode, ...(await up(place.root)).slice(2)]
  const output = await refused(args)
  expect(output).toContain(`The database in ${place.state} is damaged`)
  expect(output).toContain(`npm run reset -- --data-dir ${place.root}`)
  expect(existsSync(place.lock)).toBe(false)
})

it('with too few files that it may open it names the limit, and a service manager does not try again', async () => {
  const output = await refused(await up(testFolder()), { code: 78, open_files: 512 })
  expect(output).toContain('This process may open 512 files')
  expect(output).toContain('LimitNOFILE=65536')
})
