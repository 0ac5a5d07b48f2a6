/**
 * What programs of two labelled classes tell when they end: operators see it, agents order by it and keep it, and no other
 * tenant has any of it. Agents and control plane are killed in between.
 */
import Database from 'better-sqlite3'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { clientCall } from '../../lab/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../lab/chaos/fleet.ts'
import { runCommand } from '../../lab/testbed/run-command.ts'
import { callOf, MODEL } from './support/fleet-calls.ts'
import { eventually } from './support/system.ts'

const SHORT_TOKENS = 4
const LONG_TOKENS = 60
/** D1's row of a class is written at most once a minute, and here once a second. */
const ROWS_SOON = { class_row_interval_ms: 1000 }

let fleet: Fleet
beforeAll(async () => {
  fleet = await Fleet.start({
    ...{ regions: ['us-east'], agents_per_region: 1, engines_per_agent: 2, model: MODEL },
    agent_flags: { policy: 'learned' },
  })
  await fleet.setFaults(ROWS_SOON)
})
afterAll(() => fleet.remove())

interface ClassAnswer {
  class: string
  ends: number
  output_tokens: { p10: number; p50: number; p99: number }
  calls: { p50: number }
  index: { output_tokens: number; index: number; expected_remaining_tokens: number }[]
}

async function ask<T>(method: string, path: string, key: string, body?: object): Promise<{ status: number; body: T }> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
  const response = await fetch(`${fleet.url}${path}`, init)
  return { status: response.status, body: (await response.json()) as T }
}

const admin = <T>(method: string, path: string, body?: object) => ask<T>(method, path, fleet.secrets.adminKey, body)

async function classesOf(tenant: string): Promise<ClassAnswer[]> {
  return (await admin<{ data: ClassAnswer[] }>('GET', `/admin/v1/classes?tenant=${tenant}`)).body.data
}

async function call(program: string, app: string, output_tokens: number, api_key?: string): Promise<void> {
  const asked = callOf(fleet, program, { output_tokens, headers: { 'X-App': app } })
  expect(await clientCall(api_key === undefined ? asked : { ...asked, api_key })).toMatchObject({ end: 'completed' })
}

/** A program of two calls, which its client ends at once: its last record may still be on its way. */
async function program(name: string, app: string, output_tokens: number): Promise<void> {
  await call(name, app, output_tokens)
  await call(name, app, output_tokens)
  expect((await ask('DELETE', `/v1/programs/${name}`, fleet.secrets.apiKey)).status).toBe(200)
}

async function programs(round: string): Promise<void> {
  const names = [0, 1, 2].map((at) => `${round}-${at}`)
  await Promise.all([
    ...names.map((name) => program(`short-${name}`, 'short', SHORT_TOKENS)),
    ...names.map((name) => program(`long-${name}`, 'long', LONG_TOKENS)),
  ])
}

async function known(): Promise<{ classes: number; ends: number }> {
  const [agent] = fleet.agents as [FleetAgent]
  const text = await (await fetch(`${agent.url}/metrics`)).text()
  const figure = (name: string) => Number(new RegExp(`^switchyard_agent_${name} (\\d+)$`, 'm').exec(text)?.[1])
  return { classes: figure('known_classes'), ends: figure('known_class_ends') }
}

function endsOnDisk({ outbox }: FleetAgent): number {
  const database = new Database(outbox, { readonly: true })
  const rows = database.prepare("select json_extract(sketch, '$.ends') as ends from classes").all() as {
    ends: number
  }[]
  database.close()
  return rows.reduce((sum, { ends }) => sum + ends, 0)
}

/** A pool asks about a class at most once a minute. One that has lost its memory asks at once. */
async function toldOf(ends: number, round: string): Promise<void> {
  await eventually(`the agent knows of ${ends} ends`, async () => {
    await fleet.evict('POOL', JSON.stringify(['us-east', MODEL, 0]))
    await Promise.all([call(`asks-${round}`, 'short', 1), call(`asks-too-${round}`, 'long', 1)])
    for (let look = 0; look < 20; look++) {
      if ((await known()).ends === ends) return true
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    return undefined
  })
}

const shown = (tenant: string, ends: number): Promise<ClassAnswer[]> =>
  eventually(`both classes have ${ends} ends`, async () => {
    const classes = await classesOf(tenant)
    return classes.length === 2 && classes.every((one) => one.ends === ends) ? classes : undefined
  })

it('is told to operators and agents, and outlives both', async () => {
  expect(await known()).toEqual({ classes: 0, ends: 0 })
  await programs('first')
  const classes = await shown('local', 3)
  expect(classes.map((one) => one.class)).toEqual(['app:long', 'app:short'])
  const told = await ask<{ data: { class: string; rank: number; expected_remaining_tokens: number }[] }>(
    ...(['GET', '/v1/programs/long-first-0/calls', fleet.secrets.apiKey] as const),
  )
  const anyNumber = expect.any(Number)
  expect(told.body.data).toMatchObject([
    { class: 'app:long', rank: anyNumber, expected_remaining_tokens: anyNumber },
    { class: 'app:long', rank: anyNumber, expected_remaining_tokens: anyNumber },
  ])
  expect(classes[0]).toMatchObject({ calls: { p50: 2 }, output_tokens: { p10: 2 * LONG_TOKENS, p50: 2 * LONG_TOKENS } })
  expect(classes[1]).toMatchObject({
    calls: { p50: 2 },
    output_tokens: { p10: 2 * SHORT_TOKENS, p99: 2 * SHORT_TOKENS },
  })
  const [long, short] = await Promise.all(
    ['app:long', 'app:short'].map(async (name) => {
      return (await admin<ClassAnswer>('GET', `/admin/v1/classes/local/${encodeURIComponent(name)}`)).body
    }),
  )
  expect(long?.index[0]?.index).toBeGreaterThan(short?.index[0]?.index ?? Number.POSITIVE_INFINITY)
  await toldOf(6, 'first')
  expect(await known()).toEqual({ classes: 2, ends: 6 })

  // The pool has forgotten what it told: what the agent knows is its own.
  const [agent] = fleet.agents as [FleetAgent]
  await eventually('the agent has it on disk', () => endsOnDisk(agent) === 6 || undefined)
  await agent.child.end('SIGKILL')
  await fleet.evict('POOL', JSON.stringify(['us-east', MODEL, 0]))
  await agent.child.start()
  expect(await known()).toEqual({ classes: 2, ends: 6 })

  await fleet.endControlPlane('SIGKILL')
  expect(await known()).toEqual({ classes: 2, ends: 6 })
  await fleet.startControlPlane()
  await fleet.setFaults(ROWS_SOON)
  expect(await shown('local', 3)).toHaveLength(2)
  await programs('second')
  await toldOf(12, 'second')
})

it('is shown by the command line', async () => {
  const env = { SWITCHYARD_URL: fleet.url, SWITCHYARD_ADMIN_KEY: fleet.secrets.adminKey }
  const shown = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runCommand('ops/switchyard/main.ts', ['classes', ...args], { env })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    return stdout
  }
  expect(await shown('--tenant', 'local')).toMatch(/^class +ends .*\napp:long .*\napp:short +\d+ .* 8(\.000)? /)
  expect(await shown('get', 'local', 'app:short')).toMatch(/^class +app:short$/m)
  const curve = await shown('index', 'local', 'app:short', '--objective', 'response', '--limit', '2')
  expect(curve).toMatch(/^output tokens +index +expected remaining tokens\n +0 +[\d.]+ +[\d.]+\n +4 +[\d.]+ +[\d.]+\n$/)
})

it('is each tenant’s own, under the same label too', async () => {
  const { body: tenant } = await admin<{ id: string }>('POST', '/admin/v1/tenants', { name: 'other' })
  const { body: key } = await admin<{ key: string }>('POST', `/admin/v1/tenants/${tenant.id}/keys`, { name: 'test' })
  expect(await classesOf(tenant.id)).toEqual([])
  expect((await admin('GET', `/admin/v1/classes/${tenant.id}/app%3Ashort`)).status).toBe(404)
  for (const route of ['classes?tenant=local', 'classes/local/app%3Ashort']) {
    expect((await ask('GET', `/admin/v1/${route}`, key.key)).status).toBe(401)
  }
  const before = await shown('local', 6)
  await call('theirs', 'short', 30, key.key)
  expect((await ask('DELETE', '/v1/programs/theirs', key.key)).status).toBe(200)
  const theirs = await eventually('their class is told', async () => {
    const classes = await classesOf(tenant.id)
    return classes.length > 0 ? classes : undefined
  })
  expect(theirs).toMatchObject([{ class: 'app:short', ends: 1, output_tokens: { p50: 30 } }])
  expect(await classesOf('local')).toEqual(before)
})
