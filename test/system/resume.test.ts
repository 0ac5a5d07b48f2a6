/**
 * Streams whose engine dies under them: agents are killed with kill -9 while tokens flow, and each client has the answer of an
 * unbroken run, word for word (lab/chaos/client.ts checks it), with one end, one usage and every lease settled once.
 */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { clientCall } from '../../lab/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../lab/chaos/fleet.ts'
import { readLedgers } from '../../lab/chaos/ledger.ts'
import { callOf, localTenant, MODEL, reconciled } from './support/fleet-calls.ts'
import { eventually } from './support/system.ts'

const STREAMS = 16
/** A step of the emulated engine takes 11 ms and more. */
const SOME_STEPS_US = 100_000

let fleet: Fleet
beforeAll(async () => {
  fleet = await Fleet.start({
    ...{ regions: ['us-east', 'eu-west'], agents_per_region: 1, engines_per_agent: 1, model: MODEL },
    agent_flags: { seats: 32, slots: 64 },
  })
})
afterEach(() => fleet.startWhatIsDown())
afterAll(() => fleet.remove())

interface ServedCall {
  outcome: string | null
  output_tokens: number
  resumed_tokens: number
  leases: { engine: string; state: string; output_tokens: number; resumed_tokens: number; prompt_tokens: number }[]
}

async function onlyCall(program: string): Promise<ServedCall> {
  return eventually('the call has ended', async () => {
    const { data } = (await (await fleet.fetch(`/v1/programs/${program}/calls`)).json()) as { data?: ServedCall[] }
    const [call] = data ?? []
    return call?.outcome != null && call.leases.every(({ state }) => state !== 'open') ? call : undefined
  })
}

it.each([
  { stream: true, what: 'streams' },
  { stream: false, what: 'answers in one piece' },
])('an agent that is killed under $what: all of them go on in the other region', async ({ stream, what }) => {
  const programs = Array.from({ length: STREAMS }, (_, index) => `killed-${what.replaceAll(' ', '-')}-${index}`)
  const output_tokens = 600
  const ends = programs.map((program) => clientCall(callOf(fleet, program, { stream, output_tokens })))
  const victim = fleet.agents[0] as FleetAgent
  await eventually('each has some of its answer', () => {
    const begun = readLedgers(fleet).filter(({ program }) => programs.includes(program))
    return (begun.length === STREAMS && begun.every(({ wall_us }) => wall_us > SOME_STEPS_US)) || undefined
  })
  await victim.child.end('SIGKILL')
  for (const ended of await Promise.all(ends)) {
    expect(ended).toMatchObject({ end: 'completed', usage: { completion_tokens: output_tokens } })
  }
  await victim.child.start()
  await reconciled(fleet, [localTenant(fleet)], programs)
  for (const program of programs) {
    const { outcome, leases } = await onlyCall(program)
    expect(outcome).toBe('completed')
    const [broken, last] = leases
    expect(leases).toHaveLength(2)
    expect(last?.engine).not.toBe(broken?.engine)
    expect(last?.resumed_tokens).toBeGreaterThan(0)
    expect((last?.resumed_tokens ?? 0) + (last?.output_tokens ?? 0)).toBe(output_tokens)
    expect(last?.prompt_tokens).toBe(broken?.prompt_tokens)
  }
})

it('a stream whose engines are killed one after the other goes on each time', async () => {
  const program = 'killed-twice'
  const ended = clientCall(callOf(fleet, program, { stream: true, output_tokens: 800 }))
  for (let kills = 0; kills < 2; kills++) {
    const serving = await eventually('an engine has part of the answer', () =>
      readLedgers(fleet)
        .filter((lease) => lease.program === program && lease.wall_us > SOME_STEPS_US)
        .at(kills),
    )
    const victim = fleet.agents.find(({ id }) => id === serving.agent) as FleetAgent
    await victim.child.end('SIGKILL')
    await victim.child.start()
  }
  expect(await ended).toMatchObject({ end: 'completed' })
  await reconciled(fleet, [localTenant(fleet)], [program])
})
