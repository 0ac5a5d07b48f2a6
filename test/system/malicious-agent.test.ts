/** An enrolled agent that means harm, beside an honest one: what it sends must cost the others nothing that lasts. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { clientCall } from '../../lab/chaos/client.ts'
import { Fleet } from '../../lab/chaos/fleet.ts'
import { startFlood } from '../../lab/chaos/hostile-agent.ts'
import { lie } from '../../lab/chaos/lying-agent.ts'
import { CLOSE } from '../../src/protocol/index.ts'
import { callOf, localTenant, MODEL, reconciled } from './support/fleet-calls.ts'
import { eventually } from './support/system.ts'

const CALLS_DURING_FLOOD = 10

let fleet: Fleet
beforeAll(async () => {
  fleet = await Fleet.start({
    ...{ regions: ['us-east'], agents_per_region: 1, engines_per_agent: 1, model: MODEL },
    agent_flags: { profile: 'tiny', 'context-tokens': 8192 },
  })
})
afterAll(() => fleet.remove())

it.each([
  { frames: 'hello', deaf: false, links: 2 },
  { frames: 'status', deaf: false, links: 1 },
  { frames: 'hello', deaf: true, links: 1 },
  { frames: 'status', deaf: true, links: 2 },
] as const)('a flood of $frames frames over $links links (ignores closes: $deaf) is ended and barred', async (kind) => {
  const id = `flood-${kind.frames}-${kind.deaf}`
  const flood = await startFlood(fleet, { id, region: 'us-east', ...kind })
  try {
    await eventually('the link is closed for the flood', () =>
      flood.closes.find(({ code, reason }) => code === CLOSE.flooded && reason.includes('no link for')),
    )
    await eventually('the agent is refused', () => flood.seen.refused > 0 || undefined)
    for (let call = 0; call < CALLS_DURING_FLOOD; call += 1) {
      expect(await clientCall(callOf(fleet, `beside-${id}`, { stream: call % 2 === 0 }))).toMatchObject({
        end: 'completed',
      })
    }
  } finally {
    await flood.end()
  }
  expect(await clientCall(callOf(fleet, `beside-${id}`, {}))).toMatchObject({ end: 'completed' })
  await reconciled(fleet, [localTenant(fleet)], [`beside-${id}`])
})

it('nothing that an agent says of its calls is believed beyond what its leases allow', async () => {
  expect(await lie(fleet, 'liar', 'us-east')).toEqual([])
  const audit = await fleet.fetch('/admin/v1/audit?object=agent:liar', { apiKey: fleet.secrets.adminKey })
  const { data } = (await audit.json()) as { data: { action: string; actor: string }[] }
  expect(data).toContainEqual(expect.objectContaining({ action: 'agent.record_lowered', actor: 'control-plane' }))
})
