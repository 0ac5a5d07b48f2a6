/**
 * A graph that is checked: every node knows where its requests come from, and what each placeholder of its template means.
 *
 * Keeps true: nodes are in an order in which each comes after those whose outputs it takes. A node's `depth` is 0 for lines
 * and documents, and one more than the deepest of its sources otherwise.
 */
import type { Endpoint, NodeForm } from './graph-schema.ts'
import { namesIn } from './template.ts'

/** What a placeholder stands for. `output`: of that node, for the same line. */
export type Slot =
  | { kind: 'field'; field: string }
  | { kind: 'output'; node: string }
  | { kind: 'chunk' }
  | { kind: 'previous' }

export interface GraphNode {
  id: string
  model: string
  endpoint: Endpoint
  body: Readonly<Record<string, unknown>>
  /** By the name of the placeholder. */
  slots: ReadonlyMap<string, Slot>
  where: readonly (readonly [field: string, value: string | number | boolean])[]
  documents: { field: string; chunk_chars: number | null } | null
  /** Their outputs go into its template. Empty: it works on lines or documents. */
  sources: readonly GraphNode[]
  each: number
  /** Requests for one line that is no document: the product of `each` along the way. */
  copies: number
  depth: number
}

/** In the order given. */
export type Graph = readonly GraphNode[]

export type GraphOutcome = { ok: true; graph: Graph } | { ok: false; param: string; message: string }

const OUTPUT = '.output'
export const COPIES_MAX = 10_000

export function checkedGraph(nodes: readonly NodeForm[]): GraphOutcome {
  const made = new Map<string, GraphNode>()
  const duplicate = nodes.findIndex(({ id }, at) => nodes.findIndex((one) => one.id === id) < at)
  if (duplicate !== -1) {
    return refused(duplicate, 'id', `There are two nodes ${nodes[duplicate]?.id}. Give one another id.`)
  }
  let waiting = nodes.map((node, at) => ({ node, at }))
  while (waiting.length > 0) {
    const ready = waiting.filter(({ node }) => (node.from?.nodes ?? []).every((id) => made.has(id)))
    if (ready.length === 0) return noOrder(waiting, nodes)
    for (const { node, at } of ready) {
      const checked = checkedNode(node, at, made)
      if (!checked.ok) return checked
      made.set(node.id, checked.node)
    }
    waiting = waiting.filter(({ node }) => !made.has(node.id))
  }
  return { ok: true, graph: nodes.map(({ id }) => made.get(id) as GraphNode) }
}

/** Every node after those whose outputs it takes. */
export function inOrder(graph: Graph): GraphNode[] {
  return graph.toSorted((a, b) => a.depth - b.depth)
}

function refused(at: number, field: string, message: string): GraphOutcome & { ok: false } {
  return { ok: false, param: `nodes.${at}.${field}`, message }
}

/** Of nodes that wait for each other, or for a node that is not there. */
function noOrder(waiting: readonly { node: NodeForm; at: number }[], nodes: readonly NodeForm[]): GraphOutcome {
  for (const { node, at } of waiting) {
    const unknown = node.from?.nodes.find((input) => !nodes.some(({ id }) => id === input))
    if (unknown !== undefined) {
      return refused(at, 'from.nodes', `Node ${node.id}: there is no node ${unknown} to take outputs from.`)
    }
  }
  const [{ at } = { at: 0 }] = waiting
  const ids = waiting.map(({ node }) => node.id).join(', ')
  const message = `Nodes ${ids} take outputs from each other in a circle. Only documents loop, within one node.`
  return refused(at, 'from.nodes', message)
}

function checkedNode(
  node: NodeForm,
  at: number,
  made: ReadonlyMap<string, GraphNode>,
): { ok: true; node: GraphNode } | (GraphOutcome & { ok: false }) {
  const { id, documents, from } = node
  const fail = (field: string, message: string) => refused(at, field, `Node ${id}: ${message}`)
  const kinds = [node.requests, documents, from].filter((kind) => kind !== undefined)
  if (kinds.length !== 1) return fail('requests', 'it has one of requests, documents and from.')
  const sources = [...new Set(from?.nodes ?? [])].map((source) => made.get(source) as GraphNode)
  const each = from?.each ?? 1
  const other = sources.find((source) => copiesOut(source) !== copiesOut(sources[0] as GraphNode))
  if (other !== undefined) {
    const counts = `${sources[0]?.id} has ${copiesOut(sources[0] as GraphNode)} outputs for a line and ${other.id} ${copiesOut(other)}`
    return fail('from.nodes', `${counts}. Outputs that are taken together must be equally many.`)
  }
  const copies = each * (sources[0] === undefined ? 1 : copiesOut(sources[0]))
  if (copies > COPIES_MAX)
    return fail('from.each', `it would have ${copies} requests for a line. At most ${COPIES_MAX}.`)
  if (node.body.model !== undefined) return fail('body.model', 'name the model beside the body, not in it.')
  if (node.body.stream === true) return fail('body.stream', 'calls of an application have no stream. Leave it out.')
  if (node.body.n !== undefined && node.body.n !== 1) return fail('body.n', 'a call has one answer. Use from.each.')
  const slots = new Map<string, Slot>()
  for (const name of namesIn(node.body)) {
    const slot = slotOf(name, node)
    if (typeof slot === 'string') return fail('body', slot)
    slots.set(name, slot)
  }
  const unused = sources.find((source) => !slots.has(source.id + OUTPUT))
  if (unused !== undefined) {
    return fail('body', `it takes outputs from ${unused.id}, and its template does not name {{${unused.id}${OUTPUT}}}.`)
  }
  if (documents !== undefined && ![...slots.values()].some(({ kind }) => kind === 'chunk')) {
    return fail('body', 'it works on documents, and its template does not name {{chunk}}.')
  }
  return {
    ok: true,
    node: {
      ...{ id, model: node.model, endpoint: node.endpoint, body: node.body, slots, each, copies },
      ...{ sources, where: Object.entries(node.where ?? {}) },
      documents:
        documents === undefined ? null : { field: documents.field, chunk_chars: documents.chunk_chars ?? null },
      depth: 1 + Math.max(-1, ...sources.map(({ depth }) => depth)),
    },
  }
}

/** Outputs of one line that leave the node: of a document, the last one. */
export function copiesOut({ documents, copies }: GraphNode): number {
  return documents === null ? copies : 1
}

/** A text says why the name means nothing here. */
function slotOf(name: string, { documents, from }: NodeForm): Slot | string {
  if (documents !== undefined && name === 'chunk') return { kind: 'chunk' }
  if (documents !== undefined && name === 'previous') return { kind: 'previous' }
  if (!name.endsWith(OUTPUT)) return { kind: 'field', field: name }
  const node = name.slice(0, -OUTPUT.length)
  if (from?.nodes.includes(node)) return { kind: 'output', node }
  return `its template names {{${name}}}, and ${node} is not among the nodes in \`from\`.`
}
