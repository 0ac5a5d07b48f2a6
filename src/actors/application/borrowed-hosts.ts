/**
 * Hosts that an application borrows: a plan for them once its lines are checked, the next stage whenever a node is done, and
 * their return. An application runs on whatever engines serve its models, so it waits for no host: where there is none, or none
 * answers, it goes on as it is.
 */
import type { ApplicationState, HostsState } from '../../core/application/application-state.ts'
import type { Graph } from '../../core/application/graph.ts'
import { plannerForm } from '../../core/application/planner-form.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { RUN_INTERVAL_MS, type RunReply } from '../hosts-rpc.ts'
import { hostsActor } from '../stubs.ts'
import { knownNodes } from './model-figures.ts'

/** A larger plan is not kept, and the application runs without. */
export const PLAN_BYTES_MAX = 256 * 1024
/** After a plan was lost. */
const PLAN_AGAIN_MS = 60_000
/** How often it asks while engines load: calls begin when it hears that they are ready. */
const LOADING_INTERVAL_MS = 1000

export class BorrowedHosts {
  readonly #env: Env
  readonly #graph: Graph
  #asked_ms = Number.NEGATIVE_INFINITY
  #lost_ms = Number.NEGATIVE_INFINITY
  #done = ''
  /** Nodes whose engines were ready when last asked. */
  #ready = new Set<string>()
  /** Engines load. Hosts that another application has may be awaited for hours, and are asked for less often. */
  #is_loading = true

  constructor(env: Env, graph: Graph) {
    this.#env = env
    this.#graph = graph
  }

  /** Until it should ask again. */
  get interval_ms(): number {
    return this.#is_loading ? LOADING_INTERVAL_MS : RUN_INTERVAL_MS
  }

  /** What the state is to say of hosts. */
  async plan(state: ApplicationState): Promise<HostsState> {
    const { tenant, id, regions } = state
    const form = plannerForm(state, this.#graph, await knownNodes(this.#env, tenant, regions, this.#graph))
    try {
      const reply = await hostsActor(this.#env).plan({
        ...{ tenant, application: id, nodes: form, regions, gpus_max: null },
        seed: 0,
      })
      if (reply.status === 'refused') return { ...reply, plan_id: null, plan: null }
      const { plan_id, plan } = reply
      if (JSON.stringify(plan).length <= PLAN_BYTES_MAX) return { status: 'planned', plan_id, plan, message: null }
      await this.release(state)
      return refused(`The plan has more than ${PLAN_BYTES_MAX} bytes, so the application runs without it.`)
    } catch (error) {
      logFailure('hosts_unreachable', error, { tenant, application: id })
      return refused('The hosts that could be lent did not answer. Send the application again to plan it again.')
    }
  }

  /** Says which nodes are done. Returns nodes whose engines have become ready; null: it is time to plan again. */
  async keep(state: ApplicationState, done: readonly string[], now_ms: number): Promise<string[] | null> {
    const { tenant, id, hosts } = state
    if (hosts?.status !== 'planned') return []
    const told = done.join(' ')
    if (told === this.#done && now_ms - this.#asked_ms < this.interval_ms) return []
    this.#asked_ms = now_ms
    this.#done = told
    this.#is_loading = false
    let reply: RunReply
    try {
      reply = await hostsActor(this.#env).run({ tenant, application: id, plan_id: hosts.plan_id, done })
    } catch (error) {
      logFailure('hosts_unreachable', error, { tenant, application: id })
      return []
    }
    if (reply.status === 'lost') return this.#lost(now_ms)
    if (reply.status !== 'running') {
      this.#ready.clear()
      return []
    }
    this.#is_loading = reply.nodes.some(({ state }) => state === 'loading')
    const ready = new Set(reply.nodes.filter(({ state }) => state === 'ready').map(({ node }) => node))
    const fresh = [...ready].filter((node) => !this.#ready.has(node))
    this.#ready = ready
    return fresh
  }

  async release({ tenant, id, hosts }: ApplicationState): Promise<void> {
    if (hosts?.status !== 'planned') return
    try {
      await hostsActor(this.#env).release({ tenant, application: id })
    } catch (error) {
      // They return by themselves, since nothing asks for them any more.
      logFailure('hosts_unreachable', error, { tenant, application: id })
    }
  }

  #lost(now_ms: number): null | string[] {
    if (now_ms - this.#lost_ms < PLAN_AGAIN_MS) return []
    this.#lost_ms = now_ms
    return null
  }
}

function refused(message: string): HostsState {
  return { status: 'refused', plan_id: null, plan: null, message }
}
