/** Enrols an agent that means harm in a fleet, and runs it in a process of its own (flood-agent.ts). */
import path from 'node:path'
import { ManagedChild } from '../testbed/managed-child.ts'
import { flagList, ROOT } from '../testbed/repository.ts'
import type { Fleet } from './fleet.ts'

const FLOOD_AGENT = path.join(ROOT, 'lab/chaos/flood-agent.ts')

export interface FloodOptions {
  id: string
  region: string
  frames: 'hello' | 'status'
  links: number
  /** It ignores that its link was closed. */
  deaf: boolean
}

export interface Flood {
  /** Close codes and reasons of its links. */
  closes: { code: number; reason: string }[]
  /** Attempts to link that were answered with another status than 101. */
  refused: () => number
  end(): Promise<void>
}

/** An agent that the operator has enrolled. Returns its token. */
export async function enrol(fleet: Fleet, id: string, region: string): Promise<string> {
  const init = { method: 'POST', apiKey: fleet.secrets.adminKey, body: JSON.stringify({ id, region }) }
  const answer = await fleet.fetch('/admin/v1/agents', init)
  const { token } = (await answer.json()) as { token?: string }
  if (token === undefined) throw new Error(`the agent ${id} was not enrolled: ${answer.status}`)
  return token
}

/** Resolves when its first link is open. */
export async function startFlood(fleet: Fleet, { id, region, frames, links, deaf }: FloodOptions): Promise<Flood> {
  const token = await enrol(fleet, id, region)
  const closes: Flood['closes'] = []
  let refused = 0
  const target = { 'control-url': fleet.url, id, region, model: fleet.model }
  const child = new ManagedChild<'ready'>({
    name: id,
    args: [FLOOD_AGENT, ...flagList({ ...target, frames, links, deaf: deaf ? 1 : 0 })],
    env: { SWITCHYARD_AGENT_TOKEN: token },
    ready: ['ready'],
    runFolder: fleet.place.run,
    onLine: (line) => {
      if (!line.startsWith('{')) return
      const event = JSON.parse(line) as { event: string; code: number; reason: string; refused: number }
      if (event.event === 'closed') closes.push({ code: event.code, reason: event.reason })
      if (event.event === 'sent') refused = event.refused
    },
  })
  await child.start()
  return { closes, refused: () => refused, end: async () => void (await child.end('SIGKILL')) }
}
