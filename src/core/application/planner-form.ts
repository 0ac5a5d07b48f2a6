/**
 * The form in which planners take an application (protocol/application-tokens.ts): the same nodes and edges with prompts given by their tokens. Tokens
 * follow from bytes with the ratio that the engines of the model have measured. Lengths of outputs are distributed as they were
 * before, of such a node or of its model; where it gave none, they are left to the planner's tables.
 *
 * The planner's edges take all outputs of a node. A node that takes only some of them, by `where`, is given as prompts of its
 * own.
 */
import type { ApplicationNode, ApplicationTokens, OutputLengths } from '../../protocol/application-tokens.ts'
import { estimatePromptTokens } from '../call/prompt-estimate.ts'
import type { ApplicationState, NodeState } from './application-state.ts'
import type { Graph, GraphNode } from './graph.ts'
import { meanUnder, OUTPUT_LIMITS } from './output-lengths.ts'
import { textBytes } from './template.ts'

/** What is known of a node and its model. Null: not yet. */
export interface NodeFigures {
  bytes_per_token: number | null
  lengths: OutputLengths | null
}

/** Of an application whose lines are checked. Nodes without requests are left out. */
export function plannerForm(
  { name, nodes }: Pick<ApplicationState, 'name' | 'nodes'>,
  graph: Graph,
  figuresOf: (node: GraphNode) => NodeFigures,
): ApplicationTokens {
  const stateOf = (node: GraphNode) => nodes[graph.indexOf(node)] as NodeState
  const asked = graph.filter((node) => stateOf(node).requests > 0)
  return { name, nodes: asked.map((node) => plannerNode(node, stateOf, figuresOf)) }
}

/** Tokens of one answer in the mean: what was seen, within the node's limit. Null: nothing is known. */
export function expectedOutput(node: GraphNode, { lengths }: NodeFigures): number | null {
  const max = outputLimit(node)
  if (lengths === null) return max
  return Math.max(1, Math.round(meanUnder(lengths, max ?? Number.POSITIVE_INFINITY)))
}

function plannerNode(
  node: GraphNode,
  stateOf: (node: GraphNode) => NodeState,
  figuresOf: (node: GraphNode) => NodeFigures,
): ApplicationNode {
  const { requests, inputs } = stateOf(node)
  const figures = figuresOf(node)
  const tokensOf = (bytes: number) => estimatePromptTokens(bytes, figures.bytes_per_token)
  const field_tokens = inputs.field_bytes === 0 ? 0 : tokensOf(inputs.field_bytes / requests)
  const template_tokens = tokensOf(textBytes(node.body))
  const max = outputLimit(node)
  const common = {
    ...{ id: node.id, model: node.model },
    ...(max === null ? {} : { max_output_tokens: max }),
    ...(figures.lengths === null ? {} : { output_lengths: figures.lengths }),
  }
  const takes_all = node.sources.every((source) => node.each * outputsOf(source, stateOf(source)) === requests)
  if (node.sources.length > 0 && takes_all) {
    const from = { nodes: node.sources.map(({ id }) => id), each: node.each }
    return { ...common, template_tokens: template_tokens + field_tokens, from }
  }
  if (node.sources.length > 0) {
    const taken = node.sources.reduce((sum, of) => sum + (expectedOutput(of, figuresOf(of)) ?? 0), 0)
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
  const [first] = OUTPUT_LIMITS.map((name) => body[name]).filter((value) => typeof value === 'number')
  return first ?? null
}
