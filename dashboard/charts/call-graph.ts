/**
 * The place of each call in the graph of its program, and which calls are on its critical path (Autellix §3: the longest chain of
 * dependent calls, by service). A column holds calls that may run at once. A thread stays in one row of the graph, and threads
 * that never overlap share one. Pure.
 *
 * Calls come in order of arrival, so a call's parents stand before it. Parents that are not among them count as none; a call
 * without any follows the last call of its thread.
 */
import type { ShownCall } from '../../src/protocol/shown-program.ts'

export interface PlacedCall {
  call: ShownCall
  column: number
  /** Index of its thread in `lanes`. */
  lane: number
  row: number
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
  calls: PlacedCall[]
  edges: Edge[]
  columns: number
  rows: number
  /** Threads, in order of their first call. */
  lanes: string[]
  critical_path_s: number
}

export function callGraph(calls: readonly ShownCall[]): CallGraph {
  const known = new Map<string, PlacedCall>()
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
    const column = parents.reduce((most, id) => Math.max(most, (known.get(id)?.column ?? -1) + 1), 0)
    const longest = parents.reduce<string | null>(
      (best, id) => (best === null || (path_s.get(id) ?? 0) > (path_s.get(best) ?? 0) ? id : best),
      null,
    )
    if (longest !== null) before.set(call.id, longest)
    path_s.set(call.id, call.service_s + (longest === null ? 0 : (path_s.get(longest) ?? 0)))
    known.set(call.id, { call, column, lane: lanes.indexOf(call.thread), row: 0, isCritical: false })
    lastOfThread.set(call.thread, call.id)
    for (const from of parents) edges.push({ from, to: call.id, ...toolsOf(known.get(from)?.call), isCritical: false })
  }
  const critical_path_s = markCritical(known, edges, path_s, before)
  const placed = [...known.values()]
  const columns = placed.reduce((most, { column }) => Math.max(most, column + 1), 0)
  return { calls: placed, edges, columns, rows: placeRows(placed, lanes.length), lanes, critical_path_s }
}

/** How many rows there are. */
function placeRows(placed: readonly PlacedCall[], lanes: number): number {
  const spans = Array.from({ length: lanes }, () => ({ from: Number.POSITIVE_INFINITY, to: -1 }))
  for (const { lane, column } of placed) {
    const span = spans[lane]
    if (span === undefined) continue
    span.from = Math.min(span.from, column)
    span.to = Math.max(span.to, column)
  }
  const taken: (typeof spans)[] = []
  const rowOf = spans.map((span) => {
    const free = taken.findIndex((others) => others.every((other) => other.to < span.from || span.to < other.from))
    const row = free === -1 ? taken.push([]) - 1 : free
    taken[row]?.push(span)
    return row
  })
  for (const one of placed) one.row = rowOf[one.lane] ?? 0
  return taken.length
}

function toolsOf(call: ShownCall | undefined): Pick<Edge, 'tools' | 'tool_s'> {
  return { tools: (call?.tools ?? []).map(({ name }) => name), tool_s: call?.tool_s ?? null }
}

function markCritical(
  known: ReadonlyMap<string, PlacedCall>,
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
