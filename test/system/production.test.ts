/**
 * A production system as an operator runs it: the control plane alone, secrets from the environment, an agent over the
 * network with its token. It is restarted under load, and what it was told before is there afterwards.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ManagedChild } from '../../lab/testbed/managed-child.ts'
import { runCommand } from '../../lab/testbed/run-command.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { applyMigrations, readMigrations } from '../../ops/workerd/d1-migrations.ts'
import { withLocalD1 } from '../../ops/workerd/local-d1.ts'
import { readWorkerConfig } from '../../ops/workerd/worker-config.ts'
import { provisionStatements } from '../../src/store/provision.ts'
import { eventually } from './support/system.ts'

const random = (): string => randomBytes(32).toString('base64url')
const SECRETS = { KEY_PEPPER: random(), TICKET_SECRET: random(), ADMIN_KEY: random() }
const API_KEY = `sk-sy-${randomBytes(20).toString('hex')}`
const AGENT_TOKEN = `sya-${randomBytes(20).toString('hex')}`
const MODEL = 'emulated-8b'
/** Longer than a supervisor gives its children. */
const END_GRACE_MS = 60_000
const PROGRAMS = ['alpha', 'beta', 'gamma', 'delta']

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-production-'))
const dataDir = path.join(folder, 'control')
const children: ManagedChild[] = []
let port: number
let url: string

async function start(name: string, args: string[], env: Record<string, string>): Promise<ManagedChild> {
  const child = new ManagedChild({ name, args, env })
  children.push(child)
  await child.start()
  return child
}

const startControlPlane = (): Promise<ManagedChild> =>
  start('up', ['ops/up.ts', '--production', '--bind', '127.0.0.1', '--port', `${port}`, '--data-dir', dataDir], SECRETS)

function call(program: string, max_tokens: number): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', 'x-program-id': program },
    body: JSON.stringify({
      ...{ model: MODEL, max_tokens, stream: true, stream_options: { include_usage: true } },
      messages: [{ role: 'user', content: 'Hello' }],
    }),
  })
}

/** A call to its end: its id and the service that its last chunk states; null if its stream broke. */
async function served(program: string, max_tokens: number): Promise<{ id: string; service_wall_s: number } | null> {
  try {
    const response = await call(program, max_tokens)
    const text = await response.text()
    const usage = /"service_wall_s":([\d.e-]+)/.exec(text)
    if (!response.ok || !text.includes('[DONE]') || usage === null) return null
    return { id: response.headers.get('x-call-id') ?? '', service_wall_s: Number(usage[1]) }
  } catch {
    return null
  }
}

interface Call {
  id: string
  outcome: string | null
  service_wall_s: number
  leases: { state: string }[]
}

/** A call's outcome is known from its answer, its service only from the records of its leases. */
const isRecorded = ({ outcome, leases }: Call): boolean =>
  outcome !== null && leases.length > 0 && leases.every(({ state }) => state === 'settled')

async function callsOf(program: string): Promise<Call[]> {
  const headers = { authorization: `Bearer ${API_KEY}` }
  const answer = await fetch(`${url}/v1/programs/${program}/calls?limit=100`, { headers })
  return ((await answer.json()) as { data: Call[] }).data
}

/** Rows that an operator makes over the admin API, written before the first start. */
async function provision(): Promise<void> {
  const config = await readWorkerConfig('wrangler.toml')
  const statements = await provisionStatements(SECRETS.KEY_PEPPER, {
    created_at_ms: Date.now(),
    tenants: [{ id: 'acme', name: 'Acme', weight: 1 }],
    keys: [{ key: API_KEY, tenant: 'acme', name: 'test' }],
    regions: [{ id: 'home', location_hint: null, latitude: null, longitude: null }],
    models: [{ id: MODEL, ordering_service: 'modelled', context_tokens_max: 8192, bytes_per_token: 4 }],
    agents: [{ id: 'gpu-1', region: 'home', token: AGENT_TOKEN }],
  })
  await withLocalD1(config, path.join(dataDir, 'state'), async (database) => {
    await applyMigrations(database, await readMigrations('migrations'))
    await database.batch(statements.map(({ sql, params }) => database.prepare(sql).bind(...params)))
  })
}

beforeAll(async () => {
  port = await freePort()
  url = `http://127.0.0.1:${port}`
  await provision()
  await start(
    'agent',
    [
      ...['gpu-agent/src/main.ts', '--id', 'gpu-1', '--region', 'home', '--control-url', url, '--engine', 'emulated'],
      ...['--data-dir', path.join(folder, 'agent')],
    ],
    { SWITCHYARD_AGENT_TOKEN: AGENT_TOKEN },
  )
})

afterAll(async () => {
  await Promise.all(children.map((child) => child.end('SIGTERM', END_GRACE_MS)))
  rmSync(folder, { recursive: true, force: true })
})

describe('up --production', () => {
  const args = ['--production', '--port', '1', '--data-dir', path.join(folder, 'refused')]

  it('refuses to start without its secrets and names each', async () => {
    const { code, stderr } = await runCommand('ops/up.ts', args)
    // systemd does not restart after it (docs/self-host.md).
    expect(code).toBe(78)
    for (const name of Object.keys(SECRETS)) expect(stderr).toContain(`${name} is not set`)
  })

  it('refuses a directory whose secrets lie on disk', async () => {
    const development = mkdtempSync(path.join(folder, 'development-'))
    writeFileSync(path.join(development, 'secrets.json'), '{}')
    const { code } = await runCommand('ops/up.ts', ['--production', '--data-dir', development], { env: SECRETS })
    expect(code).toBe(1)
    expect(readdirSync(development)).not.toContain('production.json')
  })

  it('is restarted under load: streams break off, and keys, programs and every record are there afterwards', async () => {
    const first = await startControlPlane()
    await eventually('a first call is served', async () => (await served('warm', 2)) ?? undefined)
    const before = await Promise.all(PROGRAMS.map((program) => served(program, 3)))
    const long = PROGRAMS.map((program) => call(program, 400))
    const streams = await Promise.all(long)
    const texts = streams.map((stream) =>
      stream.text().then(
        (text) => text.includes('[DONE]'),
        () => false,
      ),
    )
    first.signal('SIGTERM')
    // As from a service manager that signals every process of a service, of which one passes the signal on.
    await eventually('it stops', async () => first.output.includes('Stopping') || undefined)
    first.signal('SIGTERM')
    expect(await first.ended).toBe(0)
    expect(await Promise.all(texts)).toEqual(PROGRAMS.map(() => false))

    await startControlPlane()
    await eventually('calls are served again', async () => (await served('warm', 2)) ?? undefined)
    const after = await Promise.all(PROGRAMS.map((program) => served(program, 3)))
    for (const [index, program] of PROGRAMS.entries()) {
      const finished = [before[index], after[index]]
      const calls = await eventually(`every call of ${program} has its record`, async () => {
        const found = await callsOf(program)
        return found.length === 3 && found.every(isRecorded) ? found : undefined
      })
      for (const one of finished) {
        const recorded = calls.find(({ id }) => id === one?.id)
        expect(recorded?.outcome).toBe('completed')
        expect(recorded?.service_wall_s).toBeCloseTo(one?.service_wall_s ?? Number.NaN, 5)
      }
      const cut = calls.find(({ id }) => finished.every((one) => one?.id !== id))
      expect(cut?.outcome).not.toBe('completed')
      expect(cut?.service_wall_s).toBeGreaterThan(0)
    }
  })

  it('leaves no secret on disk', () => {
    const files = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((file) => file.isFile())
    expect(files.length).toBeGreaterThan(5)
    for (const file of files) {
      const content = readFileSync(path.join(file.parentPath, file.name))
      for (const secret of [...Object.values(SECRETS), API_KEY, AGENT_TOKEN]) {
        expect(content.includes(secret), `${file.name} holds a secret`).toBe(false)
      }
    }
    expect(statSync(path.join(dataDir, 'production.json')).mode & 0o777).toBe(0o600)
  })
})
