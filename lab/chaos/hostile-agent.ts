/** Enrols an agent that means harm in a fleet, and runs it in a process of its own (flood-agent.ts). */
import path from 'node:path'
import { z } from 'zod'
import { ManagedChild } from '../testbed/managed-child.ts'
import { flagList, ROOT } from '../testbed/repository.ts'
import type { Fleet } from './fleet.ts'

/** Another fault may keep it from linking. */
const READY_TIMEOUT_MS = 15_000
const FLOOD_AGENT = path.join(ROOT, 'lab/chaos/flood-agent.ts')

const Sent = z.object({ links: z.number(), frames: z.number(), refused: z.number() })

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
  /** Links that were opened, frames, and attempts to link that were answered with another status than 101. */
  readonly seen: { links: number; frames: number; refused: number }
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
  const seen = { links: 0, frames: 0, refused: 0 }
  const target = { 'control-url': fleet.url, id, region, model: fleet.model }
  const child = new ManagedChild<'ready'>({
    name: id,
    args: [FLOOD_AGENT, ...flagList({ ...target, frames, links, deaf: deaf ? 1 : 0 })],
    env: { SWITCHYARD_AGENT_TOKEN: token },
    ready: ['ready'],
    ready_timeout_ms: READY_TIMEOUT_MS,
    runFolder: fleet.place.run,
    onLine: (line) => {
      if (!line.startsWith('{')) return
      const event = JSON.parse(line) as { event: string; code: number; reason: string }
      if (event.event === 'closed') closes.push({ code: event.code, reason: event.reason })
      if (event.event === 'sent') Object.assign(seen, Sent.parse(event))
    },
  })
  await child.start()
  return { closes, seen, end: async () => void (await child.end('SIGKILL')) }
}
