/**
 * Processes that are killed with kill -9 while they work: agents before their first token and with records unsent, and the
 * control plane under twenty streams. Nothing restarts them but the test.
 */
import { afterEach, expect, it } from 'vitest'
import { type ClientEnd, clientCall } from '../../scripts/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../scripts/chaos/fleet.ts'
import { unsettled } from '../../scripts/chaos/ledger.ts'
import { callOf, localTenant, MODEL, reconciled } from './support/fleet-calls.ts'
import { eventually } from './support/system.ts'

let fleet: Fleet | null = null
afterEach(async () => {
  await fleet?.remove()
  fleet = null
})

async function start(seats: number): Promise<Fleet> {
  fleet = await Fleet.start({
    ...{ regions: ['us-east'], agents_per_region: 2, engines_per_agent: 1, model: MODEL },
    agent_flags: ['--seats', String(seats), '--slots', '64'],
  })
  return fleet
}

function names(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`)
}

it.each([true, false])(
  'an agent that is killed before the first data event (stream: %s) is replaced, and its client does not know',
  async (stream) => {
    const it = await start(16)
    // A prompt of many steps of prefill, so that the first token is some way off.
    const prompt = 'word '.repeat(5000)
    const calls = names('early', 6)
    const ends = calls.map((program) => clientCall(callOf(it, program, { stream, prompt })))
    const victim = it.agents[0] as FleetAgent
    await eventually('it has calls', () => unsettled(it).open_leases >= 6 || undefined)
    await victim.child.end('SIGKILL')
    for (const ended of await Promise.all(ends)) {
      expect(ended).toMatchObject({ end: 'completed' })
      if (ended.end === 'completed') expect(ended.usage.switchyard.engine).toBe('us-east-2-e0')
    }
    await victim.child.start()
    await reconciled(it, [localTenant(it)], calls)
  },
)

it('an agent that is killed with records unsent sends them when it is back', async () => {
  const it = await start(16)
  const [cut] = it.agents as [FleetAgent]
  // Its calls go on, its records do not get out.
  cut.linkWire.set('frozen')
  const programs = names('unsent', 12)
  const ends = await Promise.all(programs.map((program) => clientCall(callOf(it, program, {}))))
  expect(ends.map(({ end }) => end)).toEqual(programs.map(() => 'completed'))
  expect(unsettled(it).unacknowledged).toBeGreaterThan(0)
  await cut.child.end('SIGKILL')
  cut.linkWire.set('open')
  await cut.child.start()
  await reconciled(it, [localTenant(it)], programs)
})

it.each(['SIGKILL', 'SIGTERM'] as const)(
  'a control plane that ends by %s under 20 streams: each client sees an end that is one, and all of it reconciles',
  async (signal) => {
    const it = await start(32)
    const programs = names('stream', 20)
    const flowing = new Set<string>()
    const ends = programs.map((program) =>
      clientCall({
        ...callOf(it, program, { stream: true, output_tokens: 250 }),
        onBytes: () => {
          flowing.add(program)
        },
      }),
    )
    await eventually('all of them flow', () => flowing.size === programs.length || undefined)
    await it.endControlPlane(signal)
    const seen: ClientEnd['end'][] = (await Promise.all(ends)).map(({ end }) => end)
    expect(seen.filter((end) => end !== 'broken' && end !== 'error_event')).toEqual([])
    await it.startControlPlane()
    await reconciled(it, [localTenant(it)], programs)
    expect(await clientCall(callOf(it, 'after', {}))).toMatchObject({ end: 'completed' })
  },
)
