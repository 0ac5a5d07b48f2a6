/**
 * The form in which planners take an application (protocol/application-tokens.ts): the same nodes and edges with prompts given by their tokens. Tokens
 * follow from bytes with the ratio that the engines of the model have measured. Lengths of outputs are those that the model
 * gave the tenant before, in the mean; where it gave none, they are left to the planner's tables.
 *
 * The planner's edges take all outputs of a node. A node that takes only some of them, by `where`, is given as prompts of its
 * own.
 */
import type { ApplicationNode, ApplicationTokens } from '../../protocol/application-tokens.ts'
import { estimatePromptTokens } from '../call/prompt-estimate.ts'
import type { ApplicationState, NodeState } from './application-state.ts'
import type { Graph, GraphNode } from './graph.ts'
import { textBytes } from './template.ts'

/** What is known of a model. Null: not yet. */
export interface ModelFigures {
  bytes_per_token: number | null
  /** Of one answer, in the mean. */
  output_tokens: number | null
}

const LIMITS = ['max_completion_tokens', 'max_output_tokens', 'max_tokens'] as const

/** Of an application whose lines are checked. Nodes without requests are left out. */
export function plannerForm(
  { name, nodes }: Pick<ApplicationState, 'name' | 'nodes'>,
  graph: Graph,
  figuresOf: (model: string) => ModelFigures,
): ApplicationTokens {
  const stateOf = (node: GraphNode) => nodes[graph.indexOf(node)] as NodeState
  const asked = graph.filter((node) => stateOf(node).requests > 0)
  return { name, nodes: asked.map((node) => plannerNode(node, stateOf, figuresOf)) }
}

/** Tokens of one answer: what was seen, within the node's limit. Null: nothing is known. */
export function expectedOutput(node: GraphNode, { output_tokens }: ModelFigures): number | null {
  const max = outputLimit(node)
  if (output_tokens === null) return max
  return Math.max(1, Math.round(max === null ? output_tokens : Math.min(output_tokens, max)))
}

function plannerNode(
  node: GraphNode,
  stateOf: (node: GraphNode) => NodeState,
  figuresOf: (model: string) => ModelFigures,
): ApplicationNode {
  const { requests, inputs } = stateOf(node)
  const figures = figuresOf(node.model)
  const tokensOf = (bytes: number) => estimatePromptTokens(bytes, figures.bytes_per_token)
  const field_tokens = inputs.field_bytes === 0 ? 0 : tokensOf(inputs.field_bytes / requests)
  const template_tokens = tokensOf(textBytes(node.body))
  const max = outputLimit(node)
  const known = figures.output_tokens === null ? null : expectedOutput(node, figures)
  const common = {
    ...{ id: node.id, model: node.model },
    ...(max === null ? {} : { max_output_tokens: max }),
    ...(known === null ? {} : { output_tokens: new Array<number>(requests).fill(known) }),
  }
  const takes_all = node.sources.every((source) => node.each * outputsOf(source, stateOf(source)) === requests)
  if (node.sources.length > 0 && takes_all) {
    const from = { nodes: node.sources.map(({ id }) => id), each: node.each }
    return { ...common, template_tokens: template_tokens + field_tokens, from }
  }
  if (node.sources.length > 0) {
    const taken = node.sources.reduce((sum, of) => sum + (expectedOutput(of, figuresOf(of.model)) ?? 0), 0)
    return { ...common, template_tokens, requests: { count: requests, tokens: Math.max(1, field_tokens + taken) } }
  }
  if (node.documents === null) {
    return { ...common, template_tokens, requests: { count: requests, tokens: Math.max(1, field_tokens) } }
  }
  const chunks = Object.entries(inputs.chunks).flatMap(([count, documents]) =>
    new Array<number>(documents).fill(Number(count)),
  )
  const documents = { chunk_tokens: tokensOf(inputs.chunk_bytes / requests), chunks }
  return { ...common, template_tokens: template_tokens + field_tokens, documents }
}

/** Outputs that leave a node: of a document, the last one. */
function outputsOf({ documents }: GraphNode, { requests, inputs }: NodeState): number {
  return documents === null ? requests : Object.values(inputs.chunks).reduce((sum, count) => sum + count, 0)
}

function outputLimit({ body }: GraphNode): number | null {
  const [first] = LIMITS.map((name) => body[name]).filter((value) => typeof value === 'number')
  return first ?? null
}
