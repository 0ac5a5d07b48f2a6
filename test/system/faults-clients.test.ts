/**
 * Clients that behave badly, and others in their name: they leave at every stage of the path, and show tickets that are not
 * theirs.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { clientCall } from '../../lab/chaos/client.ts'
import { Fleet, type FleetAgent } from '../../lab/chaos/fleet.ts'
import { readProgram } from '../../lab/chaos/ledger.ts'
import { forgedTickets, lastClaims, showTicket } from '../../lab/chaos/tickets.ts'
import { callOf, localTenant, MODEL, reconciled } from './support/fleet-calls.ts'
import { opened, rawCall } from './support/raw-call.ts'
import { eventually } from './support/system.ts'

let fleet: Fleet
let agent: FleetAgent
beforeAll(async () => {
  fleet = await Fleet.start({
    ...{ regions: ['us-east'], agents_per_region: 1, engines_per_agent: 1, model: MODEL },
    // First come, first served takes no seat from a call, so a call can be made to wait for one.
    agent_flags: { profile: 'emulated-8b', seats: 8, slots: 16, policy: 'fcfs' },
  })
  agent = fleet.agents[0] as FleetAgent
})
afterEach(async () => {
  await fleet.setFaults({})
  agent.dataWire.set('open')
})
afterAll(() => fleet.remove())

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

interface PoolAnswer {
  engines: { waiting: number; running: number; leases_since_report: number }[]
}

type EngineLoad = PoolAnswer['engines'][number]

/** Resolves once the pool knows one engine, and its load is as asked. */
function engineIs(what: string, asked: (load: EngineLoad) => boolean): Promise<true> {
  return eventually(what, async () => {
    const answer = await fleet.fetch('/admin/v1/pools', { apiKey: fleet.secrets.adminKey })
    const { pools } = (await answer.json()) as { pools: PoolAnswer[] }
    const engines = pools.flatMap((pool) => pool.engines)
    return (engines.length === 1 && asked(engines[0] as EngineLoad)) || undefined
  })
}

/** No seat, no place in the queue and no lease is taken, and a call that needs a seat gets one. */
async function allFree(): Promise<void> {
  await engineIs('the engine is idle, and the pool counts no lease', (load) => {
    return load.waiting + load.running + load.leases_since_report === 0
  })
  expect(await clientCall(callOf(fleet, null, {}))).toMatchObject({ end: 'completed' })
}

async function leaveDuring(program: string, when: () => Promise<unknown>, output_tokens = 400): Promise<void> {
  const leaving = new AbortController()
  const call = clientCall({ ...callOf(fleet, program, { stream: true, output_tokens }), signal: leaving.signal })
  await when()
  leaving.abort()
  expect(await call).toMatchObject({ end: 'left' })
}

async function leftNothing(program: string): Promise<void> {
  if ((await fleet.fetch(`/v1/programs/${program}`)).status === 200) {
    await reconciled(fleet, [localTenant(fleet)], [program])
  }
  await allFree()
}

describe('a client that leaves', () => {
  it('while its body is uploaded: no call was opened', async () => {
    const { head, body } = rawCall(fleet, 'leaves-identify', {})
    const socket = await opened(fleet)
    socket.write(head + body.slice(0, 20))
    await sleep(100)
    socket.destroy()
    await sleep(100)
    expect((await fleet.fetch('/v1/programs/leaves-identify')).status).toBe(404)
    await leftNothing('leaves-identify')
  })

  it('during admit', async () => {
    await fleet.setFaults({ admit_delay_ms: 1500 })
    await leaveDuring('leaves-admit', () => sleep(150))
    await leftNothing('leaves-admit')
  })

  it('during lease', async () => {
    await fleet.setFaults({ lease_delay_ms: 800 })
    await leaveDuring('leaves-lease', () => sleep(400))
    await leftNothing('leaves-lease')
  })

  it('during dispatch, while its agent cannot be reached', async () => {
    agent.dataWire.set('frozen')
    await leaveDuring('leaves-dispatch', () => sleep(1500))
    agent.dataWire.set('open')
    await leftNothing('leaves-dispatch')
  })

  it('before the first data event, while it waits for a seat', async () => {
    const holding = Array.from({ length: 8 }, (_, index) =>
      clientCall(callOf(fleet, `holds-${index}`, { stream: true, output_tokens: 900 })),
    )
    await engineIs('the engine works on eight calls', (load) => load.running === 8)
    await leaveDuring(
      'leaves-queued',
      () => engineIs('the engine keeps a ninth waiting', (load) => load.waiting === 1),
      20,
    )
    for (const ended of await Promise.all(holding)) expect(ended).toMatchObject({ end: 'completed' })
    await leftNothing('leaves-queued')
  })

  it('in mid-stream', async () => {
    await leaveDuring('leaves-stream', () => sleep(1500), 900)
    await leftNothing('leaves-stream')
    const read = await readProgram(fleet, localTenant(fleet), 'leaves-stream')
    expect(read?.calls).toMatchObject([{ outcome: 'cancelled' }])
  })

  it('at settle, with its last byte', async () => {
    const { head, body } = rawCall(fleet, 'leaves-settle', { max_tokens: 3 })
    const socket = await opened(fleet)
    socket.write(head + body)
    await new Promise<void>((resolve) => {
      socket.on('data', (bytes: Buffer) => {
        if (!bytes.includes('[DONE]')) return
        socket.destroy()
        resolve()
      })
    })
    await leftNothing('leaves-settle')
    const read = await readProgram(fleet, localTenant(fleet), 'leaves-settle')
    expect(read?.calls).toMatchObject([{ outcome: 'completed' }])
  })
})

it('a ticket that is replayed, expired, altered, or for another engine, epoch or agent opens nothing', async () => {
  await clientCall(callOf(fleet, 'ticket', {}))
  const used = lastClaims(agent)
  if (used === null) throw new Error('the agent has served a call')
  for (const { what, ticket, refused_with } of await forgedTickets(fleet, agent, used)) {
    expect(await showTicket(agent, MODEL, ticket), what).toEqual({ status: 'refused', code: refused_with })
  }
  await reconciled(fleet, [localTenant(fleet)], ['ticket'])
  const read = await readProgram(fleet, localTenant(fleet), 'ticket')
  expect(read?.summary.calls).toBe(1)
})
