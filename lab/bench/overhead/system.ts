/**
 * Switchyard as it is served, one region and one agent with an emulated engine; and the bare Worker beside it in front of
 * the same agent.
 */
import path from 'node:path'
import { freePort } from '../../../ops/system/free-port.ts'
import type { Secrets } from '../../../ops/system/secrets.ts'
import { agentIdOf } from '../../../ops/workerd/agent-ids.ts'
import { readWorkerConfig } from '../../../ops/workerd/worker-config.ts'
import { ROOT } from '../../testbed/repository.ts'
import { startTestbed } from '../../testbed/testbed.ts'
import { type BareWorker, startBareWorker } from './bare-worker.ts'

export const REGION = 'us-east'
export const MODEL = 'bench'
/** One, since tickets that are made beforehand name their engine. */
const ENGINES = 1
const CONTEXT_TOKENS = 8192

export interface BenchSystem {
  port: number
  secrets: Secrets
  workerd_pid: number
  /** Of all processes of the control plane, of which `workerd_pid` is the first. */
  workerd_pids: readonly number[]
  /** Of the process that starts them, and that is the balancer in front of several. */
  control_plane_pid: number
  agent: { id: string; engine: string; port: number; pid: number }
  bare: BareWorker
  /** Of the engine. */
  context_tokens: number
  folder: string
  stop(): Promise<void>
}

/**
 * `profile`: of the engine, by name or as a file. `state_in`: the folder in which its state lies; the system's for temporary files.
 * `workers`: processes of the control plane.
 */
export async function startSystem(
  context_tokens = CONTEXT_TOKENS,
  profile = 'fast',
  state_in?: string,
  workers = 1,
): Promise<BenchSystem> {
  const flags = { 'context-tokens': context_tokens, workers }
  const within = state_in === undefined ? {} : { within: state_in }
  const testbed = await startTestbed({ name: 'overhead', regions: [REGION], model: MODEL, flags, ...within })
  const { place, port, secrets } = testbed
  const folder = place.root
  try {
    const id = agentIdOf(REGION)
    const engine = {
      engine: 'emulated',
      'context-tokens': context_tokens,
      engines: ENGINES,
      profile,
      'drain-limit-s': 1,
    }
    const agent = testbed.agent({ id, region: REGION, flags: engine })
    const { ready } = await agent.start()
    const config = await readWorkerConfig(path.join(ROOT, 'wrangler.toml'))
    const bare = await startBareWorker(config, path.join(folder, 'bare'), await freePort(), String(ready.url))
    return {
      ...{ port, secrets, bare, folder, context_tokens, workerd_pid: testbed.workerdPid ?? 0 },
      ...{ workerd_pids: testbed.workerdPids, control_plane_pid: testbed.controlPlanePid ?? 0 },
      agent: { id, engine: `${id}-e0`, port: Number(new URL(String(ready.url)).port), pid: agent.pid ?? 0 },
      stop: async () => {
        await bare.stop()
        await testbed.remove()
      },
    }
  } catch (error) {
    await testbed.remove()
    throw error
  }
}
