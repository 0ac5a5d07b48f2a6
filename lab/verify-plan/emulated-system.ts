/** A whole system with emulated engines: a control plane in workerd, and one agent with so many engines of a profile. */
import { agentIdOf } from '../../ops/workerd/agent-ids.ts'
import type { Endpoint } from '../bench/complete-call.ts'
import { startTestbed } from '../testbed/testbed.ts'

export interface EngineSpec {
  engines: number
  profile_file: string
  context_tokens: number
  policy: string
}

const REGION = 'us-east'
const MODEL = 'paced'
const DRAIN_LIMIT_S = 5

/** Runs `work` against it, and removes it. */
export async function withSystem<T>(spec: EngineSpec, work: (endpoint: Endpoint) => Promise<T>): Promise<T> {
  const { engines, profile_file, context_tokens, policy } = spec
  const flags = { 'context-tokens': context_tokens }
  const testbed = await startTestbed({ name: 'verify-plan', regions: [REGION], model: MODEL, flags })
  try {
    const engine = { engine: 'emulated', engines, profile: profile_file, policy, 'drain-limit-s': DRAIN_LIMIT_S }
    await testbed.agent({ id: agentIdOf(REGION), region: REGION, flags: engine }).start()
    return await work({ url: testbed.url, api_key: testbed.secrets.apiKey, model: MODEL })
  } finally {
    await testbed.remove()
  }
}
