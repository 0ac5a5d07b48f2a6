/**
 * Faults of hosts and networks, on wires that are really cut: hosts that lose their power, links that flap, reports that
 * come late, a region that is cut off and returns.
 */
import { afterEach, expect, it } from 'vitest'
import { clientCall } from '../../scripts/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../scripts/chaos/fleet.ts'
import { callOf, localTenant, MODEL, reconciled } from './support/fleet-calls.ts'
import { eventually } from './support/system.ts'

let fleet: Fleet | null = null
afterEach(async () => {
  await fleet?.remove()
  fleet = null
})

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const AGENT_FLAGS = ['--profile', 'emulated-8b', '--seats', '16', '--slots', '32']

async function start(options: Partial<Parameters<typeof Fleet.start>[0]> = {}): Promise<Fleet> {
  fleet = await Fleet.start({
    ...{ regions: ['us-east'], agents_per_region: 1, engines_per_agent: 1, model: MODEL, agent_flags: AGENT_FLAGS },
    ...options,
  })
  return fleet
}

function loosesPower({ child, dataWire, linkWire }: FleetAgent): Promise<void> {
  // Frozen first: not one packet tells that the process has gone.
  dataWire.set('frozen')
  linkWire.set('frozen')
  return child.end('SIGKILL')
}

it('a host that loses its power in mid-stream: the client’s stream ends with an error event, and nothing stays open', async () => {
  const it = await start({ agents_per_region: 2 })
  let started = false
  const streaming = clientCall({
    ...callOf(it, 'power', { stream: true, output_tokens: 1000 }),
    onBytes: () => {
      started = true
    },
  })
  await eventually('tokens flow', () => started || undefined)
  const [{ engine }] = (await readCalls(it, 'power')) as [{ engine: string }]
  const host = it.agents.find(({ engines }) => engines.includes(engine)) as FleetAgent
  await loosesPower(host)
  const ended = await streaming
  expect(ended).toMatchObject({ end: 'error_event', code: 'engine_failed' })
  // Others are served meanwhile.
  expect(await clientCall(callOf(it, 'others', {}))).toMatchObject({ end: 'completed' })
  host.dataWire.set('open')
  host.linkWire.set('open')
  await host.child.start()
  await reconciled(it, [localTenant(it)], ['power', 'others'])
})

async function readCalls(it: Fleet, program: string): Promise<{ engine: string }[]> {
  return eventually('the lease is in the table', async () => {
    const page = await it.fetch(`/v1/programs/${program}/calls`)
    const { data } = (await page.json()) as { data?: { leases: { engine: string }[] }[] }
    return data?.[0]?.leases[0] === undefined ? undefined : data[0].leases
  })
}

it('a status report that is 10 s old while 200 calls arrive at once: they spread within 20 % of even', async () => {
  // Engines whose calls take little time: what is asked is where they go.
  const it = await start({ agents_per_region: 4, agent_flags: ['--profile', 'tiny', '--context-tokens', '8192'] })
  for (const { linkWire } of it.agents) linkWire.delay_ms = 10_000
  await sleep(11_000)
  await eventually('reports come again, each 10 s old', async () => {
    const answer = await it.fetch('/admin/v1/pools', { apiKey: it.secrets.adminKey })
    const { pools } = (await answer.json()) as { pools: { engines: { state: string }[] }[] }
    const states = pools.flatMap(({ engines }) => engines).map(({ state }) => state)
    return (states.length === 4 && states.every((state) => state === 'ready')) || undefined
  })
  const calls = Array.from({ length: 200 }, (_, index) => clientCall(callOf(it, `herd-${index}`, { output_tokens: 4 })))
  const served = new Map<string, number>()
  for (const ended of await Promise.all(calls)) {
    expect(ended, JSON.stringify(ended)).toMatchObject({ end: 'completed' })
    served.set(ended.engine ?? '', (served.get(ended.engine ?? '') ?? 0) + 1)
  }
  expect([...served.keys()].sort()).toEqual(it.agents.flatMap(({ engines }) => engines).sort())
  for (const [engine, count] of served) {
    expect(count, engine).toBeGreaterThanOrEqual(40)
    expect(count, engine).toBeLessThanOrEqual(60)
  }
})

it('a link that flaps every second: calls go on, and every record arrives', async () => {
  const it = await start({ agents_per_region: 2 })
  const flapping = it.agents[0] as FleetAgent
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
    ends.push(clientCall(callOf(it, program, { output_tokens: 20, stream: ends.length % 2 === 0 })))
    await sleep(100)
  }
  const ended = await Promise.all(ends)
  is_flapping = false
  await flaps
  expect(ended.map(({ end }) => end)).toEqual(programs.map(() => 'completed'))
  await reconciled(it, [localTenant(it)], programs)
})

it('a region that is cut off: the other one serves; when it returns it serves again, and its records reconcile', async () => {
  const it = await start({ regions: ['us-east', 'eu-west'] })
  const [east] = it.agents as [FleetAgent, FleetAgent]
  let started = false
  const caught = clientCall({
    ...callOf(it, 'caught', { stream: true, output_tokens: 200 }),
    onBytes: () => {
      started = true
    },
  })
  await eventually('tokens flow', () => started || undefined)
  east.dataWire.set('cut')
  east.linkWire.set('cut')
  expect(await caught).toMatchObject({ end: 'error_event', code: 'engine_failed' })
  for (const program of ['away-1', 'away-2']) {
    expect(await clientCall(callOf(it, program, {}))).toMatchObject({ end: 'completed', region: 'eu-west' })
  }
  east.dataWire.set('open')
  east.linkWire.set('open')
  await eventually('the region serves again', async () => {
    const ended = await clientCall(callOf(it, 'back', {}))
    return (ended.end === 'completed' && ended.region === 'us-east') || undefined
  })
  await reconciled(it, [localTenant(it)], ['caught', 'away-1', 'away-2', 'back'])
})

it('an agent whose clock is 5 minutes off: its tickets hold and its durations are true', async () => {
  const shift = (ms: number): string[] => [
    '--import',
    `data:text/javascript,const n=Date.now;Date.now=()=>n()${ms < 0 ? '-' : '%2B'}${Math.abs(ms)}`,
  ]
  const it = await start({
    agents_per_region: 2,
    node_flags: { 'us-east-1': shift(300_000), 'us-east-2': shift(-300_000) },
  })
  const programs = Array.from({ length: 12 }, (_, index) => `clock-${index}`)
  const ends = await Promise.all(programs.map((program) => clientCall(callOf(it, program, { output_tokens: 20 }))))
  const engines = new Set<string | null>()
  for (const ended of ends) {
    expect(ended).toMatchObject({ end: 'completed' })
    engines.add(ended.engine)
    if (ended.end !== 'completed') continue
    expect(ended.usage.switchyard.service_s).toBeLessThan(60)
    expect(ended.usage.switchyard.wait_s).toBeLessThan(60)
  }
  expect(engines.size).toBe(2)
  await reconciled(it, [localTenant(it)], programs)
})
