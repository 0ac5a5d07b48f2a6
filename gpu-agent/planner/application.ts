/**
 * Draws the requests of an application (protocol/application-tokens.ts): their prompts by tokens, the lengths of their outputs, and what each takes
 * from others.
 */
import {
  type ApplicationNode,
  type ApplicationTokens,
  APPLICATION_REQUESTS_MAX as REQUESTS_MAX,
} from '../../src/protocol/application-tokens.ts'
import { fuseNodes } from './fuse.ts'
import { drawOutputTokens, type LengthTable, limited } from './lengths/length-table.ts'
import type { NodeWorkload, Parent, Workload } from './workload.ts'

export type WorkloadOutcome = { ok: true; workload: Workload } | { ok: false; reason: string }

/** Of a node, which has the model. */
export type NodeLengths = (
  model: string,
  node: Pick<ApplicationNode, 'id' | 'output_lengths'>,
) => LengthTable | undefined

/** `lengths`: of a node; undefined: not known. `random`: uniform in [0, 1). */
export function drawWorkload(file: ApplicationTokens, lengths: NodeLengths, random: () => number): WorkloadOutcome {
  const nodes: NodeWorkload[] = []
  const numbers = new Map<string, number>()
  const waiting = [...file.nodes]
  const duplicate = file.nodes.find(({ id }, at) => file.nodes.findIndex((one) => one.id === id) < at)
  if (duplicate !== undefined) return { ok: false, reason: `node ${duplicate.id} is there twice` }
  let requests = 0
  while (waiting.length > 0) {
    const at = waiting.findIndex(({ from }) => (from?.nodes ?? []).every((id) => numbers.has(id)))
    if (at === -1) return { ok: false, reason: noOrder(waiting, file) }
    const [node] = waiting.splice(at, 1) as [ApplicationNode]
    const drawn = drawNode(node, nodes, numbers, lengths(node.model, node), random)
    if (!drawn.ok) return { ok: false, reason: `node ${node.id}: ${drawn.reason}` }
    requests += drawn.node.input_tokens.length
    if (requests > REQUESTS_MAX) return { ok: false, reason: `more than ${REQUESTS_MAX} requests in all` }
    numbers.set(node.id, nodes.length)
    nodes.push(drawn.node)
  }
  return { ok: true, workload: fuseNodes({ nodes }) }
}

/** Of nodes that wait for each other, or for a node that is not there. */
function noOrder(waiting: readonly ApplicationNode[], { nodes }: ApplicationTokens): string {
  for (const { id, from } of waiting) {
    const unknown = from?.nodes.find((input) => !nodes.some((node) => node.id === input))
    if (unknown !== undefined) return `node ${id}: there is no node ${unknown} to take outputs from`
  }
  const ids = waiting.map(({ id }) => id).join(', ')
  return `nodes ${ids} take outputs from each other in a circle. Only documents loop, within one node`
}

/** A prompt before its node has seen it: tokens of its own, and the requests whose outputs it takes. */
interface Prompt {
  tokens: number
  /** The request of this node before it; -1: none. */
  after: number
  parents: readonly Parent[]
}

function drawNode(
  node: ApplicationNode,
  before: readonly NodeWorkload[],
  numbers: ReadonlyMap<string, number>,
  table: LengthTable | undefined,
  random: () => number,
): { ok: true; node: NodeWorkload } | { ok: false; reason: string } {
  const prompts = promptsOf(node, before, numbers)
  if (!prompts.ok) return prompts
  const { id, model, output_tokens: known, max_output_tokens = Number.POSITIVE_INFINITY } = node
  const count = prompts.list.length
  if (count > REQUESTS_MAX) return { ok: false, reason: `more than ${REQUESTS_MAX} requests` }
  if (known !== undefined && known.length !== count)
    return { ok: false, reason: `it has ${count} requests and ${known.length} output_tokens` }
  if (table === undefined && known === undefined)
    return { ok: false, reason: `no output lengths are known of the model ${model}. Name output_tokens` }
  const input_tokens = new Int32Array(count)
  const output_tokens = new Int32Array(count)
  const next = new Int32Array(count).fill(-1)
  for (const [at, { tokens, after, parents }] of prompts.list.entries()) {
    let taken = after < 0 ? 0 : (output_tokens[after] as number)
    for (const [parent, request] of parents) taken += before[parent]?.output_tokens[request] ?? 0
    const input = node.template_tokens + tokens + taken
    if (table !== undefined && input >= table.max_model_tokens)
      return {
        ok: false,
        reason: `request ${at + 1} has ${input} tokens, and ${model} takes ${table.max_model_tokens} with its output`,
      }
    input_tokens[at] = input
    const limits = { input_tokens: input, max_output_tokens }
    if (known === undefined) output_tokens[at] = drawOutputTokens(table as LengthTable, limits, random)
    else output_tokens[at] = limited(known[at] as number, table?.max_model_tokens ?? Number.POSITIVE_INFINITY, limits)
    if (after >= 0) next[after] = at
  }
  const parents = prompts.list.some((one) => one.parents.length > 0) ? prompts.list.map((one) => one.parents) : null
  return { ok: true, node: { id, model, input_tokens, output_tokens, next, parents } }
}

function promptsOf(
  { requests, documents, from }: ApplicationNode,
  before: readonly NodeWorkload[],
  numbers: ReadonlyMap<string, number>,
): { ok: true; list: Prompt[] } | { ok: false; reason: string } {
  const kinds = [requests, documents, from].filter((kind) => kind !== undefined)
  if (kinds.length !== 1) return { ok: false, reason: 'it has one of requests, documents and from' }
  if (requests !== undefined) {
    const tokens = Array.isArray(requests) ? requests : new Array<number>(requests.count).fill(requests.tokens)
    return { ok: true, list: tokens.map((one) => ({ tokens: one, after: -1, parents: [] })) }
  }
  if (documents !== undefined) return { ok: true, list: chunkPrompts(documents) }
  const { nodes = [], each = 1 } = from ?? {}
  const sources = nodes.map((id) => numbers.get(id) as number)
  const outputs = sources.map((source) => finalRequests(before[source] as NodeWorkload))
  const count = outputs[0]?.length ?? 0
  const other = outputs.findIndex((list) => list.length !== count)
  if (other > 0)
    return {
      ok: false,
      reason: `${nodes[0]} has ${count} outputs and ${nodes[other]} ${outputs[other]?.length}; they are taken together`,
    }
  const list = Array.from({ length: count * each }, (_, at): Prompt => {
    const parents = sources.map((source, input): Parent => [source, outputs[input]?.[Math.floor(at / each)] as number])
    return { tokens: 0, after: -1, parents }
  })
  return { ok: true, list }
}

/** Documents in the order of the file, so that each chunk comes after the one before it. */
function chunkPrompts({ chunks, chunk_tokens }: NonNullable<ApplicationNode['documents']>): Prompt[] {
  const list: Prompt[] = []
  for (const count of chunks)
    for (let chunk = 0; chunk < count; chunk += 1)
      list.push({ tokens: chunk_tokens, after: chunk === 0 ? -1 : list.length - 1, parents: [] })
  return list
}

/** Requests whose outputs leave the node: of a document, the last one. */
function finalRequests({ next }: NodeWorkload): number[] {
  return Array.from(next.keys()).filter((request) => (next[request] as number) < 0)
}
