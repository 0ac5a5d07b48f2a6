/**
 * When an application that runs will be done. A node's request costs the time that the node worked over the requests that it
 * has finished; a node without results costs what the others cost in the mean. Nodes work side by side as they have so far.
 */
import type { NodeState } from './application-state.ts'

export interface NodePace {
  requests: number
  done: number
  /** When it worked. */
  spans: NodeState['spans']
}

/** Milliseconds that are left. Null: nothing is known yet. */
export function remainingMs(nodes: readonly NodePace[]): number | null {
  const busy_ms = nodes.map(({ spans }) => spans.reduce((sum, [from, to]) => sum + to - from, 0))
  const total_busy_ms = busy_ms.reduce((sum, ms) => sum + ms, 0)
  const total_done = nodes.reduce((sum, { done }) => sum + done, 0)
  if (total_done === 0 || total_busy_ms === 0) return null
  const side_by_side = Math.max(1, total_busy_ms / unionMs(nodes.flatMap(({ spans }) => spans)))
  const left_ms = nodes.reduce((sum, { requests, done }, at) => {
    const cost_ms = done === 0 ? total_busy_ms / total_done : (busy_ms[at] as number) / done
    return sum + (requests - done) * cost_ms
  }, 0)
  return Math.round(left_ms / side_by_side)
}

/** Time that is covered by any of them. */
function unionMs(spans: NodeState['spans']): number {
  let [covered_ms, until] = [0, 0]
  for (const [from, to] of spans.toSorted((a, b) => a[0] - b[0])) {
    covered_ms += Math.max(0, to - Math.max(from, until))
    until = Math.max(until, to)
  }
  return covered_ms
}
