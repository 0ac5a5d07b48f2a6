/**
 * An application with the length of every request: what the simulator plays. Lengths are drawn (lengths/length-table.ts) or known. A request's prompt
 * includes the outputs that it takes from others, so lengths are drawn in the order of the data flow, before anything is simulated.
 */

/** A request of another node that must end first. */
export type Parent = readonly [node: number, request: number]

export interface NodeWorkload {
  id: string
  /** Nodes of the application that were fused into it, in their order. Left out: the one of this id. */
  ids?: readonly string[]
  model: string
  input_tokens: Int32Array
  output_tokens: Int32Array
  /** The request of this node that follows; -1: none. Self-loops of the graph, fused (§4.2). */
  next: Int32Array
  /** By request. Null: no request of the node waits for another node. */
  parents: readonly (readonly Parent[])[] | null
}

export interface Workload {
  nodes: readonly NodeWorkload[]
}

/** Nodes whose outputs a node takes. */
export function inputsOf({ parents }: NodeWorkload): number[] {
  if (parents === null) return []
  return [...new Set(parents.flatMap((of_request) => of_request.map(([node]) => node)))].sort((a, b) => a - b)
}
