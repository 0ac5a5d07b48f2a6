/**
 * Faults of hosts and networks, on wires that are really cut: hosts that lose their power, links that flap, reports that
 * come late, a region that is cut off and returns. All of it with agents whose clocks are five minutes off.
 */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { type ClientCall, clientCall } from '../../lab/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../lab/chaos/fleet.ts'
import { callOf, localTenant, MODEL, reconciled } from './support/fleet-calls.ts'
import { eventually } from './support/system.ts'

const CLOCK_OFF_MS = 300_000

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

it('status reports that are 10 s old, or older, while 200 calls arrive at once: they spread within 20 % of even', async () => {
  const east = agentsIn('us-east')
  // A report that tells of the first calls while others still come would have them go to the engine that is faster.
  let delay_ms = 10_000
  for (;;) {
    for (const { linkWire } of east) linkWire.delay_ms = delay_ms
    await eventually('no report comes', () => are('us-east', 'silent'))
    await eventually('old reports come', () => are('us-east', 'ready'), 180_000 + delay_ms)
    const began_ms = performance.now()
    const served = await herd(`herd-${delay_ms}`)
    const took_ms = performance.now() - began_ms
    expect([...served.keys()].sort()).toEqual(enginesIn('us-east'))
    if (took_ms < delay_ms) {
      for (const [engine, count] of served) {
        expect(count, engine).toBeGreaterThanOrEqual(40)
        expect(count, engine).toBeLessThanOrEqual(60)
      }
      break
    }
    delay_ms = 2 * Math.ceil(took_ms)
  }
  for (const { linkWire } of east) linkWire.delay_ms = 0
})

/** How many of 200 calls each engine served. */
async function herd(name: string): Promise<Map<string, number>> {
  const programs = Array.from({ length: 200 }, (_, index) => `${name}-${index}`)
  const calls = programs.map((program) => clientCall(eastCall(program, { output_tokens: 4 })))
  const served = new Map<string, number>()
  for (const ended of await Promise.all(calls)) {
    expect(ended, JSON.stringify(ended)).toMatchObject({ end: 'completed' })
    served.set(ended.engine ?? '', (served.get(ended.engine ?? '') ?? 0) + 1)
  }
  return served
}
