/**
 * Where the calls of a program stand and how its edges run: layered from left to right, with few crossings (dagre; Gansner et al.,
 * "A technique for drawing directed graphs", 1993). In a bundle of its own. Pure.
 */
import { Graph, layout } from '@dagrejs/dagre'
import { type CallGraph, type Edge, type GraphCall, NODE_PX } from './call-graph.ts'

const MARGIN_PX = 12
/** Room for the name of a tool between two calls. */
const RANK_GAP_PX = 58
const NODE_GAP_PX = 14

export interface Point {
  x: number
  y: number
}

export interface PlacedCall extends GraphCall {
  /** Its upper left corner. */
  x: number
  y: number
}

export interface PlacedEdge extends Edge {
  points: readonly Point[]
}

export interface PlacedGraph {
  calls: PlacedCall[]
  edges: PlacedEdge[]
  width: number
  height: number
}

export function placed({ calls, edges }: CallGraph): PlacedGraph {
  const graph = new Graph()
  const margins = { marginx: MARGIN_PX, marginy: MARGIN_PX }
  graph.setGraph({ rankdir: 'LR', ranksep: RANK_GAP_PX, nodesep: NODE_GAP_PX, edgesep: NODE_GAP_PX, ...margins })
  for (const { call } of calls) graph.setNode(call.id, { ...NODE_PX })
  // A longer weight keeps the chain straight that the program took longest for.
  for (const { from, to, isCritical } of edges) graph.setEdge(from, to, { weight: isCritical ? 3 : 1 })
  layout(graph)
  const { width = 0, height = 0 } = graph.graph()
  return {
    calls: calls.map((one) => {
      const { x, y } = graph.node(one.call.id)
      return { ...one, x: x - NODE_PX.width / 2, y: y - NODE_PX.height / 2 }
    }),
    edges: edges.map((edge) => ({ ...edge, points: graph.edge(edge.from, edge.to).points })),
    width,
    height,
  }
}
