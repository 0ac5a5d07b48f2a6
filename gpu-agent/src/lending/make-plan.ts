/** Plans an application for the hosts of a question: lengths are drawn, and a search finds the stages. Takes CPU for up to a second. */
import { seededRandom } from '../../../src/core/seeded-random.ts'
import { type HostPlan, type Planned, type PlanQuestion, STAGES_MAX } from '../../../src/protocol/host.ts'
import { drawWorkload, type NodeLengths } from '../../planner/application.ts'
import type { ModelCosts } from '../../planner/costs/model-costs.ts'
import { tableOfLengths } from '../../planner/lengths/length-table.ts'
import { GUESSED_LENGTHS, lengthsOf } from '../../planner/lengths/model-lengths.ts'
import { SimulatedWorld } from '../../planner/runs/simulated-world.ts'
import { type PlannerName, planBy } from '../../planner/search/planners.ts'
import { inputsOf } from '../../planner/workload.ts'

/** `monotonic_ms`: to tell how long it took. */
export function makePlan(
  { application, hosts, seed }: PlanQuestion,
  costs: readonly ModelCosts[],
  planner: PlannerName,
  monotonic_ms: () => number,
): Planned['outcome'] {
  const started_ms = monotonic_ms()
  const guessed = new Set<string>()
  const tableOf: NodeLengths = (model, { output_lengths }) => {
    const context = Math.max(...costs.filter((one) => one.model === model).map((one) => one.max_model_tokens))
    const given = output_lengths === undefined ? undefined : tableOfLengths(output_lengths, context)
    if (given !== undefined) return given
    const published = lengthsOf(model)
    if (published === undefined) guessed.add(model)
    return { ...(published ?? GUESSED_LENGTHS), max_model_tokens: context }
  }
  const unknown = application.nodes.find(({ model }) => !costs.some((one) => one.model === model))
  if (unknown !== undefined) return refused(`node ${unknown.id}: this host has no costs for the model ${unknown.model}`)
  const drawn = drawWorkload(application, tableOf, seededRandom(seed))
  if (!drawn.ok) return refused(drawn.reason)
  const { nodes } = drawn.workload
  const outcome = planBy(planner, new SimulatedWorld(drawn.workload, costs, hosts))
  if (!outcome.ok) return refused(outcome.reason)
  const { stages, total_s } = outcome.plan
  if (stages.length > STAGES_MAX)
    return refused(`the plan has ${stages.length} stages, and ${STAGES_MAX} can be carried out`)
  // A node with known lengths draws none.
  const known = new Set(application.nodes.filter((node) => node.output_tokens !== undefined).map(({ model }) => model))
  const plan: HostPlan = {
    nodes: nodes.map((node) => ({ ids: [...(node.ids ?? [node.id])], model: node.model, inputs: inputsOf(node) })),
    stages: stages.map((stage) => ({
      ...stage,
      nodes: stage.nodes.map((node) => ({ ...node, gpus: node.gpus.map((gpus) => [...gpus]) })),
    })),
    total_s,
    planning_ms: monotonic_ms() - started_ms,
    guessed_lengths: [...guessed].filter((model) => !known.has(model)),
  }
  return { ok: true, plan }
}

function refused(reason: string): Planned['outcome'] {
  return { ok: false, reason }
}
