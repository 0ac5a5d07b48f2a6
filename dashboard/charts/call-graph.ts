/**
 * The graph of a program's calls, and which of them are on its critical path (Autellix §3: the longest chain of dependent calls,
 * by service). Where each call stands is graph-layout.ts's matter. Pure.
 *
 * Calls come in order of arrival, so a call's parents stand before it. Parents that are not among them count as none; a call
 * without any follows the last call of its thread.
 */
import type { ShownCall } from '../../src/protocol/shown-program.ts'

/** A call's box in the graph. */
export const NODE_PX = { width: 96, height: 32 } as const

export interface GraphCall {
  call: ShownCall
  isCritical: boolean
}

export interface Edge {
  from: string
  to: string
  /** What ran between the two calls. */
  tools: string[]
  tool_s: number | null
  isCritical: boolean
}

export interface CallGraph {
  calls: GraphCall[]
  edges: Edge[]
  /** Threads, in order of their first call. */
  lanes: string[]
  critical_path_s: number
}

export function callGraph(calls: readonly ShownCall[]): CallGraph {
  const known = new Map<string, GraphCall>()
  const lanes: string[] = []
  const edges: Edge[] = []
  const lastOfThread = new Map<string, string>()
  const path_s = new Map<string, number>()
  const before = new Map<string, string>()
  for (const call of calls) {
    if (!lanes.includes(call.thread)) lanes.push(call.thread)
    const named = call.parents.filter((id) => known.has(id))
    const previous = lastOfThread.get(call.thread)
    const parents = named.length > 0 || previous === undefined ? named : [previous]
    const longest = parents.reduce<string | null>(
      (best, id) => (best === null || (path_s.get(id) ?? 0) > (path_s.get(best) ?? 0) ? id : best),
      null,
    )
    if (longest !== null) before.set(call.id, longest)
    path_s.set(call.id, call.service_s + (longest === null ? 0 : (path_s.get(longest) ?? 0)))
    known.set(call.id, { call, isCritical: false })
    lastOfThread.set(call.thread, call.id)
    for (const from of parents) edges.push({ from, to: call.id, ...toolsOf(known.get(from)?.call), isCritical: false })
  }
  const critical_path_s = markCritical(known, edges, path_s, before)
  return { calls: [...known.values()], edges, lanes, critical_path_s }
}

function toolsOf(call: ShownCall | undefined): Pick<Edge, 'tools' | 'tool_s'> {
  return { tools: (call?.tools ?? []).map(({ name }) => name), tool_s: call?.tool_s ?? null }
}

function markCritical(
  known: ReadonlyMap<string, GraphCall>,
  edges: readonly Edge[],
  path_s: ReadonlyMap<string, number>,
  before: ReadonlyMap<string, string>,
): number {
  let last: string | undefined
  for (const [id, s] of path_s) if (last === undefined || s > (path_s.get(last) ?? 0)) last = id
  const longest_s = last === undefined ? 0 : (path_s.get(last) ?? 0)
  while (last !== undefined) {
    const placed = known.get(last)
    if (placed !== undefined) placed.isCritical = true
    const parent = before.get(last)
    const edge = edges.find(({ from, to }) => from === parent && to === last)
    if (edge !== undefined) edge.isCritical = true
    last = parent
  }
  return longest_s
}
