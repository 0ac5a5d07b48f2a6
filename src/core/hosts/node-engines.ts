/** What an application is told of its nodes: which engines run for each, and whether they are ready. */
import type { HostEngine, HostStatus } from '../../protocol/host.ts'
import { hostOf, type Loan } from './loan.ts'

export interface LentEngine {
  engine: string
  agent: string
  region: string
  state: HostEngine['state']
  message: string | null
}

export interface NodeEngines {
  /** Of the application. */
  node: string
  model: string
  /**
   * `later`: not in this stage. `loading`: no engine is ready yet. `ready`: at least one is. `failed`: every engine failed to start, and its host
   * tries again. `done`: as asked.
   */
  state: 'later' | 'loading' | 'ready' | 'failed' | 'done'
  engines: LentEngine[]
  /** Why it is not ready. */
  message: string | null
}

/** `statusOf`: the last status of an agent; null: none, or the host is not linked. */
export function nodeEngines(
  loan: Loan,
  done: readonly string[],
  statusOf: (agent: string) => HostStatus | null,
): NodeEngines[] {
  const ended = new Set(done)
  return loan.plan.nodes.flatMap(({ ids, model }, node) => {
    const placed = loan.placed.find((one) => one.node === node)
    const engines = placed === undefined ? [] : enginesOf(loan, placed.first_gpus, placed.tp, model, statusOf)
    const wanted = placed?.first_gpus.length ?? 0
    const state = wanted === 0 ? 'later' : stateOf(engines, wanted)
    const message = state === 'ready' ? null : (engines.find((one) => one.message !== null)?.message ?? null)
    return ids.map((id): NodeEngines => {
      if (ended.has(id)) return { node: id, model, state: 'done', engines: [], message: null }
      return { node: id, model, state, engines, message }
    })
  })
}

function stateOf(engines: readonly LentEngine[], wanted: number): 'ready' | 'failed' | 'loading' {
  if (engines.some(({ state }) => state === 'ready')) return 'ready'
  const failed = engines.filter(({ state }) => state === 'failed').length
  return failed === wanted ? 'failed' : 'loading'
}

/** Engines that hosts have told of. What a host says of an earlier stage says nothing about this one. */
function enginesOf(
  { hosts, epoch }: Loan,
  first_gpus: readonly number[],
  tp: number,
  model: string,
  statusOf: (agent: string) => HostStatus | null,
): LentEngine[] {
  return first_gpus.flatMap((first) => {
    const place = hostOf(hosts, first, tp)
    const host = place === null ? undefined : hosts[place.at]
    if (place === null || host === undefined) return []
    const status = statusOf(host.agent)
    if (status === null || status.epoch < epoch) return []
    const engine = status.engines.find(
      (one) => one.model === model && one.gpus.length === tp && one.gpus.every((gpu) => place.gpus.includes(gpu)),
    )
    if (engine === undefined || engine.state === 'stopping') return []
    const { id, state, message } = engine
    return [{ engine: id, agent: host.agent, region: host.region, state, message }]
  })
}
