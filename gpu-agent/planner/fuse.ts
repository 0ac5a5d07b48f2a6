/**
 * Fuses nodes in a row that run the same model into one (SamuLLM §4.2): the chunks of documents, written as a node for each position (Fig. 5 d), become
 * one node whose requests follow each other (Fig. 5 c). A planner that kept them apart would load the same model once for each chunk.
 *
 * A node is fused with its input if it has no other, runs the same model, and each of its requests continues one request that nothing else continues.
 */
import { inputsOf, type NodeWorkload, type Parent, type Workload } from './workload.ts'

interface Fused {
  id: string
  ids: string[]
  model: string
  input_tokens: number[]
  output_tokens: number[]
  next: number[]
  parents: (readonly Parent[])[]
}

/** Nodes come after their inputs. */
export function fuseNodes({ nodes }: Workload): Workload {
  const fused: Fused[] = []
  /** By node and request, where the request is afterwards. */
  const places: Parent[][] = []
  for (const node of nodes) {
    const parents = Array.from(node.input_tokens.keys(), (request) =>
      (node.parents?.[request] ?? []).map(([input, one]) => places[input]?.[one] as Parent),
    )
    const into = targetOf(node, nodes, parents, fused)
    const at = into ?? fused.length
    if (into === null)
      fused.push({
        id: node.id,
        ids: [],
        model: node.model,
        input_tokens: [],
        output_tokens: [],
        next: [],
        parents: [],
      })
    const target = fused[at] as Fused
    target.ids.push(node.id)
    const first = target.next.length
    places.push(Array.from(node.input_tokens.keys(), (request): Parent => [at, first + request]))
    for (const request of node.input_tokens.keys()) {
      target.input_tokens.push(node.input_tokens[request] as number)
      target.output_tokens.push(node.output_tokens[request] as number)
      const own = node.next[request] as number
      target.next.push(own < 0 ? -1 : first + own)
      const before = parents[request] as readonly Parent[]
      target.parents.push(into === null ? before : [])
      if (into !== null) target.next[(before[0] as Parent)[1]] = first + request
    }
  }
  return { nodes: fused.map(nodeOf) }
}

/** The fused node that this one continues; null: none. */
function targetOf(
  node: NodeWorkload,
  nodes: readonly NodeWorkload[],
  parents: readonly (readonly Parent[])[],
  fused: readonly Fused[],
): number | null {
  const [input, ...others] = inputsOf(node)
  if (input === undefined || others.length > 0 || nodes[input]?.model !== node.model) return null
  if (parents.some((of_request) => of_request.length !== 1)) return null
  const continued = parents.map(([parent]) => parent as Parent)
  const target = (continued[0] as Parent)[0]
  const requests = continued.map(([, request]) => request)
  const free = requests.every((request) => (fused[target]?.next[request] ?? 0) < 0)
  return free && new Set(requests).size === requests.length ? target : null
}

function nodeOf({ id, ids, model, input_tokens, output_tokens, next, parents }: Fused): NodeWorkload {
  return {
    ...{ id, ids, model },
    input_tokens: Int32Array.from(input_tokens),
    output_tokens: Int32Array.from(output_tokens),
    next: Int32Array.from(next),
    parents: parents.some((of_request) => of_request.length > 0) ? parents : null,
  }
}
