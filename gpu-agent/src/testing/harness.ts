/** Starts a whole agent over scripted fronts, a stand-in control plane and a temporary outbox, and tears it all down. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { Agent } from '../agent.ts'
import type { AgentOptions } from '../agent-options.ts'
import type { AgentEvent } from '../events.ts'
import { ControlPlaneStandIn, TOKEN } from './control-plane-stand-in.ts'
import { ScriptedFront } from './scripted-front.ts'

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gpu-agent-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export async function startControlPlane(): Promise<ControlPlaneStandIn> {
  const control = await new ControlPlaneStandIn().start()
  onTestFinished(() => control.stop())
  return control
}

export interface Harness {
  agent: Agent
  control: ControlPlaneStandIn
  front: ScriptedFront
  fronts: ScriptedFront[]
  events: AgentEvent[]
  data_dir: string
  /** POST /v1/chat/completions; a ticket for a fresh lease unless one is given. */
  post(options?: { ticket?: string; body?: string; path?: string; signal?: AbortSignal }): Promise<Response>
}

export async function startAgent(
  options: Partial<AgentOptions> & { control?: ControlPlaneStandIn; engine_count?: number } = {},
): Promise<Harness> {
  const control = options.control ?? (await startControlPlane())
  const data_dir = options.data_dir ?? temporaryFolder()
  const events: AgentEvent[] = []
  const fronts: ScriptedFront[] = []
  const ids = Array.from({ length: options.engine_count ?? 1 }, (_, index) => `a-e${index}`)
  const agent = new Agent({
    id: 'a',
    region: 'here',
    control_url: control.url,
    token: TOKEN,
    listen: { host: '127.0.0.1', port: 0 },
    public_url: null,
    data_dir,
    engines: ids.map((id) => ({
      id,
      create: async (front_events, _, classes) => {
        const front = new ScriptedFront(id, front_events)
        front.classes(classes.all())
        fronts.push(front)
        return front
      },
    })),
    report: (event) => events.push(event),
    fatal: (message) => {
      throw new Error(message)
    },
    random: () => 0,
    ...options,
  })
  onTestFinished(() => agent.stop())
  await agent.start()
  if (control.welcome !== null) await control.until(() => control.statuses.length > 0)
  const post: Harness['post'] = async ({ ticket, body = '{}', path = '/v1/chat/completions', signal } = {}) => {
    const authorization = `Bearer ${ticket ?? (await control.ticket())}`
    return fetch(agent.url + path, { method: 'POST', headers: { authorization }, body, ...(signal && { signal }) })
  }
  const front = fronts[0]
  if (front === undefined) throw new Error('an agent has an engine')
  return { agent, control, front, fronts, events, data_dir, post }
}

/** Resolves when `holds`, looked at every few milliseconds; the test's own timeout bounds it. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5))
}
