/** What an application asks for before it runs: the order of its nodes, their sizes, and the engines that serve them now. */
import { poolActor } from '../../actors/stubs.ts'
import type { ApplicationReport, Definition } from '../../core/application/application-state.ts'
import { checkedGraph, type Graph } from '../../core/application/graph.ts'
import { expectedOutput, type ModelFigures, plannerForm } from '../../core/application/planner-form.ts'
import { textBytes } from '../../core/application/template.ts'
import { estimatePromptTokens } from '../../core/call/prompt-estimate.ts'
import type { PoolSnapshot } from '../../core/pool/pool-types.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { applicationsPage } from '../../store/applications.ts'
import { catalogue, type Region } from '../../store/catalogue.ts'
import { fromStore } from '../../store/database.ts'
import type { TenantIdentity } from '../../store/keys.ts'
import { atOnce } from '../bounded-concurrency.ts'
import { stepsOf } from './application-json.ts'

const POOLS_AT_ONCE_MAX = 6
/** Of the tenant's, from which lengths of outputs are learned. */
const LEARNED_FROM_MAX = 20

type Figures = ModelFigures & { engines: { region: string; ready: number; seats: number }[] }

export async function planOf(env: Env, identity: TenantIdentity, { state }: ApplicationReport, definition: Definition) {
  const checked = checkedGraph(definition.nodes)
  const graph: Graph = checked.ok ? checked.graph : []
  const figures = await modelFigures(env, identity, [...new Set(graph.map(({ model }) => model))])
  const figuresOf = (model: string): Figures =>
    figures.get(model) ?? { bytes_per_token: null, output_tokens: null, engines: [] }
  const nodes = graph.map((node, at) => {
    const { requests = 0, inputs } = state.nodes[at] ?? {}
    const bytes = (inputs?.field_bytes ?? 0) + (inputs?.chunk_bytes ?? 0) + requests * textBytes(node.body)
    const { engines, ...known } = figuresOf(node.model)
    const output = expectedOutput(node, known)
    return {
      ...{ id: node.id, model: node.model, after: node.sources.map(({ id }) => id), requests, engines },
      prompt_tokens_estimate: requests === 0 ? 0 : estimatePromptTokens(bytes, known.bytes_per_token),
      output_tokens_estimate: output === null ? null : requests * output,
    }
  })
  return {
    ...{ object: 'application.plan' as const, application: state.id, steps: stepsOf(graph), nodes },
    planner: plannerForm(state, graph, figuresOf),
  }
}

async function modelFigures(
  env: Env,
  { tenant, regions: allowed }: TenantIdentity,
  models: readonly string[],
): Promise<Map<string, Figures>> {
  const { regions, models: known } = await catalogue(env)
  const open = regions.filter(({ id }) => allowed === null || allowed.includes(id))
  const pools = open.flatMap((region) => models.map((model) => ({ region, model })))
  const [found, learned] = await Promise.all([
    atOnce(pools, POOLS_AT_ONCE_MAX, ({ region, model }) => snapshotOf(env, region, model)),
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
      const bytes_per_token = measured ?? known.get(model)?.bytes_per_token ?? null
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
