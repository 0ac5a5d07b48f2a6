/** An application as a Gantt chart: a row for each node, when it worked, and pale when it is expected to go on. */
import type { Gantt, GanttBar } from '../plot/gantt.ts'
import type { ApplicationState } from './application-state.ts'

const LABEL_WIDTH = 110
const LABEL_CHARS = 17

/** `remaining_ms`: until the application is done; null: not known. `left`: by node, requests that are not done. */
export function applicationGantt(
  { name, nodes, started_at_ms, ended_at_ms }: ApplicationState,
  ids: readonly string[],
  left: readonly number[],
  now_ms: number,
  remaining_ms: number | null,
): Gantt {
  const start_ms = started_at_ms ?? now_ms
  const until_ms = ended_at_ms ?? now_ms
  const end_ms = ended_at_ms ?? now_ms + (remaining_ms ?? 0)
  const at = (ms: number) => Math.max(0, (ms - start_ms) / 1000)
  const bars: GanttBar[] = nodes.flatMap(({ spans }, node) => {
    const worked = spans.map(([from, to]) => ({ row: node, node, start_s: at(from), end_s: at(to), pale_s: 0 }))
    const is_open = ended_at_ms === null && (left[node] ?? 0) > 0 && end_ms > until_ms
    if (!is_open) return worked
    const [start_s, end_s] = [at(until_ms), at(end_ms)]
    return [...worked, { row: node, node, start_s, end_s, pale_s: end_s - start_s }]
  })
  const rows = ids.map((id) => (id.length > LABEL_CHARS ? `${id.slice(0, LABEL_CHARS - 1)}…` : id))
  return { title: name, rows, nodes: ids, bars, end_s: at(end_ms), label_width: LABEL_WIDTH }
}
