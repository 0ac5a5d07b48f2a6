/** An agent's end of a host link: it says hello, plans and chooses as a test says, and reports its engines. */
import { env } from 'cloudflare:workers'
import { expect } from 'vitest'
import { AGENT_HEADER, TICKET_KID_HEADER } from '../../src/actors/link-frames.ts'
import { hostsStub } from '../../src/actors/stubs.ts'
import type { HostEngine, HostHello, HostPlan, HostStage, PlacedNode } from '../../src/protocol/host.ts'

export function openHostLink(agent: string): Promise<Response> {
  const headers = { upgrade: 'websocket', [AGENT_HEADER]: agent, [TICKET_KID_HEADER]: 'kid' }
  return hostsStub(env).fetch('https://hosts/link', { headers })
}

export function hostHello(agent: string, change: Partial<HostHello> = {}): HostHello {
  return {
    ...{ type: 'hello', protocol: { min: 1, max: 1 }, agent, region: 'us-east', gpus: 2, lend: 'all' },
    models: ['small', 'large'].map((model) => ({ model, kind: 'emulated', context_tokens_max: 4096, degrees: [1, 2] })),
    home: [{ id: `${agent}-e0`, model: 'test-model', gpus: [0] }],
    ...change,
  }
}

/** Nodes a and b: a first on GPU 0, then b on GPUs 0 and 1. */
export const PLAN: HostPlan = {
  nodes: [
    { ids: ['a'], model: 'small', inputs: [] },
    { ids: ['b'], model: 'large', inputs: [0] },
  ],
  stages: [0, 1].map((node) => {
    const plan = { dp: 1, tp: node + 1 }
    const planned = { node, plan, loading_s: 1, gpus: [[0, 1].slice(0, node + 1)], finishes: true, busy_gpu_s: 1 }
    return { start_s: node, end_s: node + 1, nodes: [planned] }
  }),
  ...{ total_s: 2, planning_ms: 1, guessed_lengths: [] },
}

interface Question {
  type: 'plan' | 'choose'
  id: number
  epoch: number
  done: number[]
}

export class HostClient {
  readonly agent: string
  readonly stages: HostStage[] = []
  readonly asked: Question[] = []
  /** What it answers; null: nothing. */
  plan: HostPlan | string | null = PLAN
  placed: ((done: number[]) => PlacedNode[]) | null = (done) =>
    done.includes(0) ? [{ node: 1, tp: 2, first_gpus: [0] }] : [{ node: 0, tp: 1, first_gpus: [0] }]
  closeCode: number | null = null
  readonly #socket: WebSocket
  #welcomed = false
  #seq = 0

  private constructor(agent: string, socket: WebSocket) {
    this.agent = agent
    this.#socket = socket
    socket.addEventListener('message', ({ data }) => this.#received(JSON.parse(data as string)))
    socket.addEventListener('close', ({ code }) => {
      this.closeCode = code
    })
    socket.accept()
  }

  /** Resolves when it was told its stage. */
  static async join(agent: string, change: Partial<HostHello> = {}): Promise<HostClient> {
    const client = new HostClient(agent, (await openHostLink(agent)).webSocket as WebSocket)
    client.send(hostHello(agent, change))
    await expect.poll(() => client.#welcomed && client.stages.length > 0).toBe(true)
    return client
  }

  static async open(agent: string): Promise<HostClient> {
    return new HostClient(agent, (await openHostLink(agent)).webSocket as WebSocket)
  }

  get stage(): HostStage | undefined {
    return this.stages.at(-1)
  }

  send(message: unknown): void {
    this.#socket.send(JSON.stringify(message))
  }

  /** As if it had come to its last stage. */
  report(state: HostEngine['state'], message: string | null = null): void {
    this.#seq += 1
    const engines = (this.stage?.engines ?? []).map(({ model, gpus }) => {
      return { id: `${this.agent}-x${gpus[0]}`, model, gpus, home: false, state, message }
    })
    this.send({ type: 'status', seq: this.#seq, epoch: this.stage?.epoch ?? 0, engines })
  }

  close(): void {
    this.#socket.close(1000)
  }

  #received(message: Question | HostStage | { type: 'welcome' }): void {
    if (message.type === 'welcome') this.#welcomed = true
    else if (message.type === 'stage') this.stages.push(message)
    else {
      this.asked.push(message)
      this.#answer(message)
    }
  }

  #answer({ type, id, epoch, done }: Question): void {
    if (type === 'plan' && this.plan !== null) {
      const { plan } = this
      const outcome = typeof plan === 'string' ? { ok: false, reason: plan } : { ok: true, plan }
      this.send({ type: 'planned', id, outcome })
    }
    if (type === 'choose' && this.placed !== null)
      this.send({ type: 'chosen', id, epoch, outcome: { ok: true, placed: this.placed(done) } })
  }
}
