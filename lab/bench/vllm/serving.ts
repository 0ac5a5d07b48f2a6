/** The control plane with one agent, which is another process for each run and is attached to one of the benchmark's vLLMs. */
import { agentIdOf } from '../../../ops/workerd/agent-ids.ts'
import { startTestbed, type Testbed } from '../../testbed/testbed.ts'
import type { VllmServer, VllmSize } from '../../testbed/vllm-server.ts'
import type { SchedulerName } from './schedulers.ts'

const REGION = 'us-east'
const DRAIN_LIMIT_S = 5
const ALL_AT_ONCE = 4096
const ALL_PROGRAMS_KV_TOKENS = 1_000_000_000

export class ControlPlane {
  readonly #testbed: Testbed
  readonly #seats: number

  private constructor(testbed: Testbed, seats: number) {
    this.#testbed = testbed
    this.#seats = seats
  }

  static async start(model: string, { seats, context_tokens }: VllmSize): Promise<ControlPlane> {
    const flags = { 'context-tokens': context_tokens }
    return new ControlPlane(await startTestbed({ name: 'vllm-serving', regions: [REGION], model, flags }), seats)
  }

  get url(): string {
    return this.#testbed.url
  }

  get api_key(): string {
    return this.#testbed.secrets.apiKey
  }

  get model(): string {
    return this.#testbed.model
  }

  /** Serves through this vLLM while `work` runs. */
  async serving<T>(server: VllmServer, name: SchedulerName, work: () => Promise<T>): Promise<T> {
    const { scheduler, policy, queue } = name
    const attached: Record<string, string> =
      server.socket === null
        ? { 'vllm-order': scheduler === 'stock-priority' ? 'priority' : 'fcfs' }
        : { 'vllm-socket': server.socket }
    const engine = { engine: 'vllm', policy, 'vllm-url': server.url, model: this.model, ...attached }
    // The baselines get every call at once: their own queue orders them, and the agent's, which also keeps the programs to
    // the KV cache, is not what is measured.
    const all = { seats: ALL_AT_ONCE, 'kv-tokens': ALL_PROGRAMS_KV_TOKENS }
    const room = queue ? {} : server.socket === null ? all : { seats: this.#seats }
    const flags = { ...engine, ...room, 'drain-limit-s': DRAIN_LIMIT_S }
    const agent = this.#testbed.agent({ id: agentIdOf(REGION), region: REGION, flags })
    try {
      await agent.start()
      return await work()
    } finally {
      await agent.end()
    }
  }

  async stop(): Promise<void> {
    await this.#testbed.remove()
  }
}
