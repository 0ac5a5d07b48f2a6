/**
 * Faults of hosts and networks, on wires that are really cut: hosts that lose their power, links that flap, reports that
 * come late, a region that is cut off and returns. All of it with agents whose clocks are five minutes off.
 */
import Database from 'better-sqlite3'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { type ClientCall, clientCall } from '../../lab/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../lab/chaos/fleet.ts'
import type { TicketClaims } from '../../src/protocol/index.ts'
import { checkProof } from '../../src/relay/lease-proof.ts'
import { callOf, localTenant, MODEL, reconciled } from './support/fleet-calls.ts'
import { eventually } from './support/system.ts'

const CLOCK_OFF_MS = 300_000
const REPORTS_LATE_MS = 10_000

let fleet: Fleet
/** Of a key whose calls stay in us-east. */
let eastKey: string
beforeAll(async () => {
  fleet = await Fleet.start({
    ...{ regions: ['us-east', 'eu-west'], agents_per_region: 2, engines_per_agent: 2, model: MODEL },
    agent_flags: { profile: 'emulated-8b', seats: 16, slots: 32 },
    clocks_off_ms: { 'us-east-1': CLOCK_OFF_MS, 'us-east-2': -CLOCK_OFF_MS },
  })
  eastKey = await fleet.createKey('local', { name: 'east', regions: ['us-east'] })
})
afterEach(async () => {
  await fleet.setFaults({})
  for (const region of fleet.options.regions) await eventually(`${region} is whole`, () => are(region, 'ready'))
})
afterAll(() => fleet.remove())

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

function eastCall(program: string, options: Parameters<typeof callOf>[2]): ClientCall {
  return { ...callOf(fleet, program, options), api_key: eastKey }
}

function agentsIn(region: string): FleetAgent[] {
  return fleet.agents.filter((agent) => agent.region === region)
}

function enginesIn(region: string): string[] {
  return agentsIn(region)
    .flatMap(({ engines }) => engines)
    .sort()
}

/** Whether the pool of a region says this of each of its engines. */
async function are(region: string, state: string): Promise<true | undefined> {
  const answer = await fleet.fetch('/admin/v1/pools', { apiKey: fleet.secrets.adminKey })
  const { pools } = (await answer.json()) as { pools: { region: string; engines: { state: string }[] }[] }
  const engines = pools.find((pool) => pool.region === region)?.engines ?? []
  return (engines.length === enginesIn(region).length && engines.every((one) => one.state === state)) || undefined
}

function losesPower({ child, dataWire, linkWire }: FleetAgent): Promise<void> {
  // Frozen first: not one packet tells that the process has gone.
  dataWire.set('frozen')
  linkWire.set('frozen')
  return child.end('SIGKILL')
}

it('a host that loses its power in mid-stream: the stream goes on elsewhere, and nothing stays open', async () => {
  let started = false
  const streaming = clientCall({
    ...callOf(fleet, 'power', { stream: true, output_tokens: 1000 }),
    onBytes: () => {
      started = true
    },
  })
  await eventually('tokens flow', () => started || undefined)
  const [{ engine }] = (await readCalls('power')) as [{ engine: string }]
  const host = fleet.agents.find(({ engines }) => engines.includes(engine)) as FleetAgent
  await losesPower(host)
  const ended = await streaming
  expect(ended).toMatchObject({ end: 'completed' })
  // Others are served meanwhile.
  expect(await clientCall(eastCall('others', {}))).toMatchObject({ end: 'completed' })
  host.dataWire.set('open')
  host.linkWire.set('open')
  await host.child.start()
  await reconciled(fleet, [localTenant(fleet)], ['power', 'others'])
})

async function readCalls(program: string): Promise<{ engine: string }[]> {
  return eventually('the lease is in the table', async () => {
    const page = await fleet.fetch(`/v1/programs/${program}/calls`)
    const { data } = (await page.json()) as { data?: { leases: { engine: string }[] }[] }
    return data?.[0]?.leases[0] === undefined ? undefined : data[0].leases
  })
}

it('a link that flaps every second: calls go on, and every record arrives', async () => {
  const flapping = fleet.agents[0] as FleetAgent
  let is_flapping = true
  const flaps = (async () => {
    while (is_flapping) {
      flapping.linkWire.set('cut')
      await sleep(500)
      flapping.linkWire.set('open')
      await sleep(500)
    }
  })()
  const programs = Array.from({ length: 60 }, (_, index) => `flap-${index}`)
  const ends = []
  for (const program of programs) {
    ends.push(clientCall(eastCall(program, { output_tokens: 20, stream: ends.length % 2 === 0 })))
    await sleep(100)
  }
  const ended = await Promise.all(ends)
  is_flapping = false
  await flaps
  expect(ended.map(({ end }) => end)).toEqual(programs.map(() => 'completed'))
  await reconciled(fleet, [localTenant(fleet)], programs)
})

it('a region that is cut off: the other one goes on and serves; when it returns it serves again, and its records reconcile', async () => {
  const east = agentsIn('us-east').flatMap(({ dataWire, linkWire }) => [dataWire, linkWire])
  let started = false
  const caught = clientCall({
    ...callOf(fleet, 'caught', { stream: true, output_tokens: 200 }),
    onBytes: () => {
      started = true
    },
  })
  await eventually('tokens flow', () => started || undefined)
  for (const wire of east) wire.set('cut')
  expect(await caught).toMatchObject({ end: 'completed', region: 'us-east' })
  for (const program of ['away-1', 'away-2']) {
    expect(await clientCall(callOf(fleet, program, {}))).toMatchObject({ end: 'completed', region: 'eu-west' })
  }
  for (const wire of east) wire.set('open')
  await eventually('the region serves again', async () => {
    const ended = await clientCall(callOf(fleet, 'back', {}))
    return (ended.end === 'completed' && ended.region === 'us-east') || undefined
  })
  await reconciled(fleet, [localTenant(fleet)], ['caught', 'away-1', 'away-2', 'back'])
})

it('an agent whose clock is 5 minutes off: its tickets hold and its durations are true', async () => {
  const programs = Array.from({ length: 12 }, (_, index) => `clock-${index}`)
  const ends = await Promise.all(programs.map((program) => clientCall(eastCall(program, { output_tokens: 20 }))))
  const engines = new Set<string | null>()
  for (const ended of ends) {
    expect(ended).toMatchObject({ end: 'completed' })
    engines.add(ended.engine)
    if (ended.end !== 'completed') continue
    expect(ended.usage.switchyard.service_s).toBeLessThan(60)
    expect(ended.usage.switchyard.wait_s).toBeLessThan(60)
  }
  expect([...engines].sort()).toEqual(enginesIn('us-east'))
  await reconciled(fleet, [localTenant(fleet)], programs)
})

it('a status report that is 10 s old while 200 calls arrive at once: they spread within 20 % of even', async () => {
  const east = agentsIn('us-east')
  for (const { linkWire } of east) linkWire.delay_ms = REPORTS_LATE_MS
  await eventually('no report comes', () => are('us-east', 'silent'))
  await eventually('reports come again, each 10 s old', () => are('us-east', 'ready'))
  const programs = Array.from({ length: 200 }, (_, index) => `herd-${index}`)
  const began_ms = Date.now()
  const calls = programs.map((program) => clientCall(eastCall(program, { output_tokens: 4 })))
  for (const ended of await Promise.all(calls)) {
    expect(ended, JSON.stringify(ended)).toMatchObject({ end: 'completed' })
  }
  for (const { linkWire } of east) linkWire.delay_ms = 0
  const granted = await grantsOf(east, programs)
  expect(new Set(granted.map(({ engine }) => engine))).toEqual(new Set(enginesIn('us-east')))
  // On a slow machine reports tell of the first calls while others still arrive. Those go to the engine that is faster.
  const early = granted.filter(({ granted_at_ms }) => granted_at_ms < began_ms + REPORTS_LATE_MS)
  expect(early.length).toBeGreaterThan(0)
  const even = early.length / enginesIn('us-east').length
  for (const engine of enginesIn('us-east')) {
    const count = early.filter((grant) => grant.engine === engine).length
    expect(Math.abs(count - even), `${engine}: ${count} of ${early.length}`).toBeLessThanOrEqual(
      Math.max(0.2 * even, 2),
    )
  }
})

/** When the control plane granted the leases of these programs, and on which engines. */
async function grantsOf(agents: readonly FleetAgent[], programs: readonly string[]) {
  const claims = agents.flatMap(({ outbox }) => {
    const database = new Database(outbox, { readonly: true })
    const rows = database.prepare('select claims from leases').all() as { claims: string }[]
    database.close()
    return rows.map((row) => JSON.parse(row.claims) as TicketClaims)
  })
  const own = claims.filter(({ program }) => programs.includes(program))
  return Promise.all(
    own.map(async (claim) => {
      const proof = await checkProof(claim, fleet.secrets.ticketSecret)
      const terms = proof.status === 'proven' ? proof.terms : null
      return { engine: claim.engine, granted_at_ms: terms?.granted_at_ms ?? expect.unreachable('no proof') }
    }),
  )
}
