/**
 * The commands themselves: up, a second up, a taken port, status, what survives a restart, down, reset, demo, dry-run.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCommand, runCommandOrThrow } from '../../lab/testbed/run-command.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { processRecord } from '../../ops/system/processes.ts'
import { System } from './support/system.ts'

let system: System

beforeAll(async () => {
  system = await System.start({
    engine: 'emulated',
    flags: ['--regions', 'us-east,eu-west', '--engines-per-region', '2'],
  })
})
afterAll(async () => {
  if (existsSync(path.join(system.dataDir, 'dev.json'))) await system.down()
  rmSync(system.dataDir, { recursive: true, force: true })
})

describe('npm run up', () => {
  it('describes the running system in a file that only its owner reads', async () => {
    const file = path.join(system.dataDir, 'dev.json')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const dev = system.dev
    expect(dev.agents.map((agent) => agent.region).sort()).toEqual(['eu-west', 'us-east'])
    expect(dev).toMatchObject({ policy: 'plas', engine: 'emulated', url: `http://127.0.0.1:${system.port}` })
    for (const pid of [dev.pid, dev.controlPlanePid, ...dev.agents.map((agent) => agent.pid)])
      expect(await processRecord(pid)).not.toBeNull()
  })

  it('keeps all that it writes from other users', async () => {
    const entries = readdirSync(system.dataDir, { recursive: true, withFileTypes: true })
    expect(entries.some(({ name }) => name === 'outbox.sqlite')).toBe(true)
    const open = entries
      .filter((entry) => entry.isFile() || entry.isDirectory())
      .map((entry) => path.join(entry.parentPath, entry.name))
      .filter((file) => ((statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0)
    expect(open).toEqual([])
  })

  it('a second one beside it says so and exits 1', async () => {
    const { code, stderr, stdout } = await runCommand('ops/up.ts', [
      '--data-dir',
      system.dataDir,
      '--port',
      String(await freePort()),
      '--engine',
      'emulated',
      '--detach',
    ])
    expect(code).toBe(1)
    expect(stdout + stderr).toMatch(/running already/i)
    expect(await processRecord(system.dev.pid)).not.toBeNull()
  })

  it('names the port that is taken and the flag that changes it', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const dataDir = mkdtempSync(path.join(tmpdir(), 'switchyard-port-'))
    const { code, stderr, stdout } = await runCommand('ops/up.ts', [
      '--data-dir',
      dataDir,
      '--port',
      String(port),
      '--engine',
      'emulated',
      '--detach',
    ])
    server.close()
    rmSync(dataDir, { recursive: true, force: true })
    expect(code).toBe(1)
    expect(stdout + stderr).toContain(String(port))
    expect(stdout + stderr).toContain('--port')
  })

  it('refuses an unknown flag and an impossible value with a sentence', async () => {
    for (const bad of [['--frobnicate'], ['--port', 'abc'], ['--policy', 'lifo'], ['--engines-per-region', '0']]) {
      const { code, stderr } = await runCommand('ops/up.ts', bad)
      expect(code, bad.join(' ')).not.toBe(0)
      expect(stderr, bad.join(' ')).toContain(bad[0])
      expect(stderr, bad.join(' ')).not.toMatch(/\n\s+at .*\(/)
    }
  })
})

describe('npm run status', () => {
  it('says what runs, also as JSON, and never shows a key', async () => {
    const { stdout } = await runCommandOrThrow('ops/status.ts', ['--data-dir', system.dataDir])
    expect(stdout).toContain('us-east')
    expect(stdout).toContain('eu-west')
    expect(stdout).not.toContain(system.dev.apiKey)
    const { stdout: asJson } = await runCommandOrThrow('ops/status.ts', ['--data-dir', system.dataDir, '--json'])
    expect(() => JSON.parse(asJson)).not.toThrow()
  })
})

describe('npm run demo', () => {
  it('runs three real programs at once and says what each got', async () => {
    const { stdout } = await runCommandOrThrow('ops/demo/main.ts', ['--data-dir', system.dataDir])
    for (const program of ['chat', 'react', 'tree']) expect(stdout.toLowerCase()).toContain(program)
    expect(stdout).toMatch(/service/i)
  })
})

describe('npm run down and up again', () => {
  it('stops all that it started, and the state survives; reset wipes it', async () => {
    const response = await system.fetch('/v1/programs', { method: 'POST', body: JSON.stringify({ id: 'survivor' }) })
    expect(response.status).toBe(201)
    const { apiKey } = system.dev
    const dev = system.dev
    await system.down()
    for (const pid of [dev.pid, dev.controlPlanePid, ...dev.agents.map((agent) => agent.pid)]) {
      expect(await processRecord(pid), `pid ${pid}`).toBeNull()
    }
    expect(existsSync(path.join(system.dataDir, 'dev.json'))).toBe(false)

    await system.up()
    expect(system.dev.apiKey).toBe(apiKey)
    expect((await system.fetch('/v1/programs/survivor')).status).toBe(200)

    const refused = await runCommand('ops/reset.ts', ['--data-dir', system.dataDir, '--yes'])
    expect(refused.code).toBe(1)
    await system.down()
    await runCommandOrThrow('ops/reset.ts', ['--data-dir', system.dataDir, '--yes'])
    await system.up()
    expect((await system.fetch('/v1/programs/survivor')).status).toBe(404)
  })
})

describe('npm run deploy -- --dry-run', () => {
  it('bundles the Worker with its bindings', async () => {
    const { stdout, stderr } = await runCommandOrThrow('ops/deploy.ts', ['--dry-run'])
    for (const binding of ['PROGRAM', 'POOL', 'TENANT', 'DB']) expect(stdout + stderr).toContain(binding)
  })
})
