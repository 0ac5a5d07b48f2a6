/**
 * Processes that are killed with kill -9 or stopped while they work: agents before their first token and with records unsent,
 * and the control plane under twenty streams. Nothing restarts them but the test.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { type ClientEnd, clientCall } from '../../lab/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../lab/chaos/fleet.ts'
import { unsettled } from '../../lab/chaos/ledger.ts'
import { callOf, localTenant, MODEL, reconciled } from './support/fleet-calls.ts'
import { eventually } from './support/system.ts'

let fleet: Fleet
beforeAll(async () => {
  fleet = await Fleet.start({
    ...{ regions: ['us-east'], agents_per_region: 2, engines_per_agent: 1, model: MODEL },
    agent_flags: { seats: 32, slots: 64 },
  })
})
afterEach(() => fleet.startWhatIsDown())
afterAll(() => fleet.remove())

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

function names(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`)
}

it.each([true, false])(
  'an agent that is killed before the first data event (stream: %s) is replaced, and its client does not know',
  async (stream) => {
    // A prompt of many steps of prefill, so that the first token is some way off.
    const prompt = `${stream} ${'word '.repeat(5000)}`
    const calls = names(`early-${stream}`, 6)
    const ends = calls.map((program) => clientCall(callOf(fleet, program, { stream, prompt })))
    const victim = fleet.agents[0] as FleetAgent
    await eventually('it has calls', () => unsettled(fleet).open_leases >= 6 || undefined)
    await victim.child.end('SIGKILL')
    for (const ended of await Promise.all(ends)) {
      expect(ended).toMatchObject({ end: 'completed' })
      if (ended.end === 'completed') expect(ended.usage.switchyard.engine).toBe('us-east-2-e0')
    }
    await victim.child.start()
    await reconciled(fleet, [localTenant(fleet)], calls)
  },
)

it('an agent that is killed with records unsent sends them when it is back', async () => {
  const [cut] = fleet.agents as [FleetAgent]
  // Its calls go on, its records do not get out.
  cut.linkWire.set('frozen')
  const programs = names('unsent', 12)
  const ends = await Promise.all(programs.map((program) => clientCall(callOf(fleet, program, {}))))
  expect(ends.map(({ end }) => end)).toEqual(programs.map(() => 'completed'))
  expect(unsettled(fleet).unacknowledged).toBeGreaterThan(0)
  await cut.child.end('SIGKILL')
  cut.linkWire.set('open')
  await cut.child.start()
  await reconciled(fleet, [localTenant(fleet)], programs)
})

it.each(['SIGKILL', 'SIGTERM'] as const)(
  'a control plane that ends by %s under 20 streams: each client sees an end that is one, and all of it reconciles',
  async (signal) => {
    const programs = names(`stream-${signal}`, 20)
    const flowing = new Set<string>()
    const ends = programs.map((program) =>
      clientCall({
        ...callOf(fleet, program, { stream: true, output_tokens: 1000 }),
        onBytes: () => {
          flowing.add(program)
        },
      }),
    )
    await eventually('all of them flow', () => flowing.size === programs.length || undefined)
    await fleet.endControlPlane(signal)
    const seen: ClientEnd['end'][] = (await Promise.all(ends)).map(({ end }) => end)
    expect(seen.filter((end) => end !== 'broken' && end !== 'error_event')).toEqual([])
    await fleet.startControlPlane()
    await reconciled(fleet, [localTenant(fleet)], programs)
    expect(await clientCall(callOf(fleet, 'after', {}))).toMatchObject({ end: 'completed' })
  },
)

it('a control plane whose workerd ends and cannot be started again ends with the reason, and works after a new start', async () => {
  const workerd = await fleet.runningWorkerd()
  // Miniflare starts a crashed workerd through it; every start of the control plane writes it anew.
  writeFileSync(path.join(fleet.place.run, 'control-plane', 'launch-workerd'), '#!/bin/sh\nexit 1\n')
  process.kill(workerd ?? 0, 'SIGKILL')
  await eventually('the control plane ends', () => !fleet.isControlPlaneUp || undefined)
  expect(readFileSync(path.join(fleet.place.logs, 'control-plane.log'), 'utf8')).toContain(
    'workerd has ended, and did not come back within 10 s',
  )
  await fleet.startControlPlane()
  expect(await clientCall(callOf(fleet, 'after-workerd', {}))).toMatchObject({ end: 'completed' })
})

/** Longer than an engine may be silent, and an upstream before its headers and between two reads; shorter than LINK_SILENT_MS. */
const STOPPED_MS = 13_000

it('a control plane that does not run for 13 s: what came meanwhile is read before anybody is taken for silent', async () => {
  const programs = names('stopped', 60)
  const ends: Promise<ClientEnd>[] = []
  const call = (program: string, index: number): void => {
    const options = { stream: index % 2 === 0, output_tokens: index % 3 === 0 ? 150 : 10 }
    ends.push(clientCall(callOf(fleet, program, options)))
  }
  // Some are streaming when it stops, some are at each stage before that, and some arrive while it does not run.
  for (const [index, program] of programs.slice(0, 40).entries()) {
    call(program, index)
    await sleep(10)
  }
  await fleet.signalControlPlane('SIGSTOP')
  try {
    for (const [index, program] of programs.slice(40).entries()) call(program, index)
    await sleep(STOPPED_MS)
  } finally {
    await fleet.signalControlPlane('SIGCONT')
  }
  for (const ended of await Promise.all(ends)) expect(ended, JSON.stringify(ended)).toMatchObject({ end: 'completed' })
  await reconciled(fleet, [localTenant(fleet)], programs)
})
