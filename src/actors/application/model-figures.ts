/** What is known of nodes and their models before an application runs: tokens per byte, lengths of answers, and the engines that serve them. */
import type { GraphNode } from '../../core/application/graph.ts'
import { learnedLengths } from '../../core/application/learned-lengths.ts'
import type { NodeFigures } from '../../core/application/planner-form.ts'
import type { PoolSnapshot } from '../../core/pool/pool-types.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { applicationsPage } from '../../store/applications.ts'
import { batchesPage } from '../../store/batches.ts'
import { freshCatalogue, isLinked, type Region } from '../../store/catalogue.ts'
import { fromStore } from '../../store/database.ts'
import { poolActor } from '../stubs.ts'

/** Applications of the tenant, and as many batches, from which lengths of answers are learned. */
const LEARNED_FROM_MAX = 20

export type KnownNode = NodeFigures & { engines: { region: string; ready: number; seats: number }[] }

/** `regions`: that may serve; null: all. The answer takes any of the nodes. */
export async function knownNodes(
  env: Env,
  tenant: string,
  regions: readonly string[] | null,
  nodes: readonly GraphNode[],
): Promise<(node: GraphNode) => KnownNode> {
  const known = await freshCatalogue(env)
  const { regions: all, models: listed } = known
  const open = all.filter(({ id }) => regions === null || regions.includes(id))
  const models = [...new Set(nodes.map(({ model }) => model))]
  const pools = open
    .flatMap((region) => models.map((model) => ({ region, model })))
    .filter(({ region, model }) => isLinked(known, region.id, model))
  const [found, lengthsOf] = await Promise.all([
    Promise.all(pools.map(({ region, model }) => snapshotOf(env, region, model))),
    learned(env, tenant),
  ])
  const figures = new Map(
    models.map((model) => {
      const own = found.filter((pool) => pool?.model === model)
      const measured = own.find((pool) => (pool?.bytes_per_token ?? null) !== null)?.bytes_per_token
      const engines = own.flatMap((pool) => {
        const ready = pool?.engines.filter(({ state }) => state === 'ready') ?? []
        const seats = ready.reduce((sum, engine) => sum + engine.seats, 0)
        return pool === null || ready.length === 0 ? [] : [{ region: pool.region, ready: ready.length, seats }]
      })
      return [model, { bytes_per_token: measured ?? listed.get(model)?.bytes_per_token ?? null, engines }]
    }),
  )
  return (node) => {
    const { bytes_per_token = null, engines = [] } = figures.get(node.model) ?? {}
    return { bytes_per_token, engines, lengths: lengthsOf(node) }
  }
}

/** A pool that does not answer has no engines to show. */
async function snapshotOf(env: Env, region: Region, model: string): Promise<PoolSnapshot | null> {
  try {
    return await poolActor(env, region, model).describe(Date.now())
  } catch (error) {
    logFailure('pool_unreachable', error, { region: region.id, model })
    return null
  }
}

/** From the tenant's latest applications and batches. */
async function learned(env: Env, tenant: string): Promise<ReturnType<typeof learnedLengths>> {
  const [latest, batches] = await Promise.all([
    fromStore(() => applicationsPage(env.DB, tenant, null, LEARNED_FROM_MAX)),
    fromStore(() => batchesPage(env.DB, tenant, null, LEARNED_FROM_MAX)),
  ])
  return learnedLengths(
    (latest ?? []).flatMap(({ report, definition }) =>
      report.nodes.flatMap(({ lengths }, at) => {
        const node = definition.nodes[at]
        return node === undefined ? [] : [{ node, lengths }]
      }),
    ),
    (batches ?? []).flatMap(({ lengths }) => lengths),
  )
}
