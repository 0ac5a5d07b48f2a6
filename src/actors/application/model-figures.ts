/** What is known of nodes and their models before an application runs: tokens per byte, lengths of answers, and the engines that serve them. */
import type { GraphNode } from '../../core/application/graph.ts'
import { learnedLengths } from '../../core/application/learned-lengths.ts'
import { onlineLengths } from '../../core/application/online-lengths.ts'
import type { ModelLengths } from '../../core/application/output-lengths.ts'
import type { NodeFigures } from '../../core/application/planner-form.ts'
import type { PoolSnapshot } from '../../core/pool/pool-types.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { applicationsPage } from '../../store/applications.ts'
import { archivedCalls, archivedPrograms } from '../../store/archive.ts'
import { batchesPage } from '../../store/batches.ts'
import { freshCatalogue, isLinked, type Region } from '../../store/catalogue.ts'
import { fromStore } from '../../store/database.ts'
import { archiveDatabases, archiveStoreOfRun } from '../archive-store.ts'
import { poolActor } from '../stubs.ts'

/** Applications of the tenant, and as many batches and programs, from which lengths of answers are learned. */
const LEARNED_FROM_MAX = 20
/** Its latest. */
const CALLS_OF_PROGRAM_MAX = 100

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
    learned(env, tenant, nodes),
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

/** From the tenant's latest applications and batches, and of models that these do not know from its latest programs. */
async function learned(
  env: Env,
  tenant: string,
  nodes: readonly GraphNode[],
): Promise<ReturnType<typeof learnedLengths>> {
  const [latest, batches] = await Promise.all([
    fromStore(() => applicationsPage(env.DB, tenant, null, LEARNED_FROM_MAX)),
    fromStore(() => batchesPage(env.DB, tenant, null, LEARNED_FROM_MAX)),
  ])
  const before = (latest ?? []).flatMap(({ report, definition }) =>
    report.nodes.flatMap(({ lengths }, at) => {
      const node = definition.nodes[at]
      return node === undefined ? [] : [{ node, lengths }]
    }),
  )
  const besides = (batches ?? []).flatMap(({ lengths }) => lengths)
  const lengthsOf = learnedLengths(before, besides)
  const unknown = new Set(nodes.filter((node) => lengthsOf(node) === null).map(({ model }) => model))
  if (unknown.size === 0) return lengthsOf
  return learnedLengths(before, [...besides, ...(await online(env, tenant, unknown))])
}

/** From calls of the tenant's programs that ended last. A plan can be made without them. */
async function online(env: Env, tenant: string, models: ReadonlySet<string>): Promise<ModelLengths[]> {
  const callsOf = ({ program, run }: { program: string; run: string }) =>
    archivedCalls(archiveStoreOfRun(env, tenant, run), { tenant, program, run }, null, CALLS_OF_PROGRAM_MAX, 'desc')
  try {
    const last = await archivedPrograms(await archiveDatabases(env, tenant), tenant, null, LEARNED_FROM_MAX)
    const pages = await Promise.all(last.map(callsOf))
    return onlineLengths(
      pages.flatMap(({ calls }) => calls),
      models,
    )
  } catch (error) {
    logFailure('archive_not_read', error)
    return []
  }
}
