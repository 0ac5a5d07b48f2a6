/**
 * An application as a Gantt chart, plan against reality. Each node has a row that says when it worked, pale when it is expected
 * to go on. Where hosts were planned for it, a row above it says when they were to work for the node, pale while they load.
 */
import type { Gantt, GanttBar } from '../plot/gantt.ts'
import type { ApplicationState } from './application-state.ts'

const LABEL_WIDTH = 110
const LABEL_CHARS = 17
const PLAN = ' plan'

/** `remaining_ms`: until the application is done; null: not known. `left`: by node, requests that are not done. */
export function applicationGantt(
  { name, nodes, hosts, started_at_ms, ended_at_ms }: ApplicationState,
  ids: readonly string[],
  left: readonly number[],
  now_ms: number,
  remaining_ms: number | null,
): Gantt {
  const start_ms = started_at_ms ?? now_ms
  const until_ms = ended_at_ms ?? now_ms
  const end_ms = ended_at_ms ?? now_ms + (remaining_ms ?? 0)
  const at = (ms: number) => Math.max(0, (ms - start_ms) / 1000)
  const plan = hosts?.plan ?? null
  const rows_each = plan === null ? 1 : 2
  const rowOf = (node: number) => node * rows_each + rows_each - 1
  const bars: GanttBar[] = nodes.flatMap(({ spans }, node) => {
    const row = rowOf(node)
    const worked = spans.map(([from, to]) => ({ row, node, start_s: at(from), end_s: at(to), pale_s: 0 }))
    const is_open = ended_at_ms === null && (left[node] ?? 0) > 0 && end_ms > until_ms
    if (!is_open) return worked
    const [start_s, end_s] = [at(until_ms), at(end_ms)]
    return [...worked, { row, node, start_s, end_s, pale_s: end_s - start_s }]
  })
  for (const stage of plan?.stages ?? []) {
    for (const planned of stage.nodes) {
      for (const id of plan?.nodes[planned.node]?.ids ?? []) {
        const node = ids.indexOf(id)
        const { start_s, end_s } = stage
        bars.push({ row: rowOf(node) - 1, node, start_s, end_s, pale_s: planned.loading_s ?? 0 })
      }
    }
  }
  const rows = ids.flatMap((id) => (plan === null ? [cut(id)] : [cut(id, PLAN), cut(id)]))
  const end_s = Math.max(at(end_ms), plan?.total_s ?? 0)
  return { title: name, rows, nodes: ids, bars, end_s, label_width: LABEL_WIDTH }
}

function cut(id: string, after = ''): string {
  const room = LABEL_CHARS - after.length
  return (id.length > room ? `${id.slice(0, room - 1)}…` : id) + after
}
