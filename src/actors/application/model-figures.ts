/** What is known of models before an application runs: tokens per byte, lengths of answers, and the engines that serve them. */
import type { ModelFigures } from '../../core/application/planner-form.ts'
import type { PoolSnapshot } from '../../core/pool/pool-types.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { applicationsPage } from '../../store/applications.ts'
import { freshCatalogue, type Region } from '../../store/catalogue.ts'
import { fromStore } from '../../store/database.ts'
import { poolActor } from '../stubs.ts'

/** Of the tenant's, from which lengths of answers are learned. */
const LEARNED_FROM_MAX = 20

export type KnownModel = ModelFigures & { engines: { region: string; ready: number; seats: number }[] }

/** `regions`: that may serve; null: all. */
export async function knownModels(
  env: Env,
  tenant: string,
  regions: readonly string[] | null,
  models: readonly string[],
): Promise<Map<string, KnownModel>> {
  const { regions: all, models: listed } = await freshCatalogue(env)
  const open = all.filter(({ id }) => regions === null || regions.includes(id))
  const pools = open.flatMap((region) => models.map((model) => ({ region, model })))
  const [found, learned] = await Promise.all([
    Promise.all(pools.map(({ region, model }) => snapshotOf(env, region, model))),
    learnedOutputs(env, tenant),
  ])
  return new Map(
    models.map((model) => {
      const own = found.filter((pool) => pool?.model === model)
      const measured = own.find((pool) => (pool?.bytes_per_token ?? null) !== null)?.bytes_per_token
      const engines = own.flatMap((pool) => {
        const ready = pool?.engines.filter(({ state }) => state === 'ready') ?? []
        const seats = ready.reduce((sum, engine) => sum + engine.seats, 0)
        return pool === null || ready.length === 0 ? [] : [{ region: pool.region, ready: ready.length, seats }]
      })
      const bytes_per_token = measured ?? listed.get(model)?.bytes_per_token ?? null
      return [model, { bytes_per_token, output_tokens: learned.get(model) ?? null, engines }]
    }),
  )
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

/** By model, tokens of one answer in the tenant's latest applications. */
async function learnedOutputs(env: Env, tenant: string): Promise<Map<string, number>> {
  const latest = (await fromStore(() => applicationsPage(env.DB, tenant, null, LEARNED_FROM_MAX))) ?? []
  const sums = new Map<string, { answers: number; tokens: number }>()
  for (const { report, definition } of latest) {
    for (const [at, { completed, tokens }] of report.nodes.entries()) {
      const { model } = definition.nodes[at] ?? {}
      if (model === undefined || completed === 0) continue
      const { answers, tokens: before } = sums.get(model) ?? { answers: 0, tokens: 0 }
      sums.set(model, { answers: answers + completed, tokens: before + tokens.output })
    }
  }
  return new Map([...sums].map(([model, { answers, tokens }]) => [model, tokens / answers]))
}
