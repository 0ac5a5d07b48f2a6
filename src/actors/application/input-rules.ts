/** How the lines of an application's input are checked, and what is noted of them for the plan. */
import { type ApplicationState, CALLS_MAX, type NodeState } from '../../core/application/application-state.ts'
import type { Graph, GraphNode } from '../../core/application/graph.ts'
import {
  faultsOf,
  type InputLine,
  inputBytes,
  readInputLine,
  takesLine,
  unitsOf,
} from '../../core/application/line-requests.ts'
import { inputGone } from '../../core/application/output-line.ts'
import type { LineRules } from '../batch/validation.ts'

export function inputRules(state: ApplicationState, graph: Graph): LineRules {
  const { tenant, input, nodes, limits } = state
  const requests_max = Math.min(CALLS_MAX, limits.calls ?? CALLS_MAX)
  return {
    ...{ tenant, input, id_field: 'id', requests_max, deleted: inputGone },
    check: (file_line) => {
      const read = readInputLine(file_line)
      if (read.status !== 'line') return read
      const faults = faultsOf(graph, read.line)
      let requests = 0
      if (faults.length === 0) {
        for (const [number, node] of graph.entries()) requests += note(nodes[number] as NodeState, node, read.line)
      }
      return { status: 'line', id: read.line.id, requests, faults }
    },
    tooMany: (line) => {
      const whose =
        limits.calls !== null && limits.calls <= CALLS_MAX ? 'limits.calls allows' : 'an application has at most'
      const message = `Line ${line}: with it there are more calls than the ${requests_max} that ${whose}.`
      return { code: 'too_many_calls', line, message, param: 'limits.calls' }
    },
  }
}

/** How many requests the line is for the node. */
function note(state: NodeState, node: GraphNode, line: InputLine): number {
  if (!takesLine(node, line)) return 0
  const units = unitsOf(node, line)
  const { fields, chunks } = inputBytes(node, line)
  state.requests += units
  state.inputs.field_bytes += units * fields
  state.inputs.chunk_bytes += chunks
  if (node.documents !== null) state.inputs.chunks[units] = (state.inputs.chunks[units] ?? 0) + 1
  return units
}
