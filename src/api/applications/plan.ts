/** What an application asks for before it runs: the order of its nodes, their sizes, the engines there are, and its stages. */
import { knownNodes } from '../../actors/application/model-figures.ts'
import type { ApplicationReport, Definition } from '../../core/application/application-state.ts'
import { checkedGraph, type Graph } from '../../core/application/graph.ts'
import { expectedOutput, plannerForm } from '../../core/application/planner-form.ts'
import { textBytes } from '../../core/application/template.ts'
import { estimatePromptTokens } from '../../core/call/prompt-estimate.ts'
import type { Env } from '../../env.ts'
import type { TenantIdentity } from '../../store/keys.ts'
import { hostsJson, stepsOf } from './application-json.ts'

export async function planOf(env: Env, identity: TenantIdentity, { state }: ApplicationReport, definition: Definition) {
  const checked = checkedGraph(definition.nodes)
  const graph: Graph = checked.ok ? checked.graph : []
  const figuresOf = await knownNodes(env, identity.tenant, identity.regions, graph)
  const nodes = graph.map((node, at) => {
    const { requests = 0, inputs } = state.nodes[at] ?? {}
    const bytes = (inputs?.field_bytes ?? 0) + (inputs?.chunk_bytes ?? 0) + requests * textBytes(node.body)
    const { engines, ...figures } = figuresOf(node)
    const output = expectedOutput(node, figures)
    return {
      ...{ id: node.id, model: node.model, after: node.sources.map(({ id }) => id), requests, engines },
      prompt_tokens_estimate: requests === 0 ? 0 : estimatePromptTokens(bytes, figures.bytes_per_token),
      output_tokens_estimate: output === null ? null : requests * output,
    }
  })
  return {
    ...{ object: 'application.plan' as const, application: state.id, steps: stepsOf(graph), nodes },
    ...{ hosts: hostsJson(state.hosts), planner: plannerForm(state, graph, figuresOf) },
  }
}
