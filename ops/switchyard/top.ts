/** `switchyard top`: the tenant's running programs, drawn again every second on a terminal, once elsewhere. */
import { z } from 'zod'
import { type Column, textTable } from '../../cli/table.ts'
import { LivePosition } from '../../src/protocol/live.ts'
import { positionText } from './explain-program.ts'

export const LISTED_MAX = 1000

export const ListedProgram = z.object({
  id: z.string(),
  app: z.string().nullable(),
  started_at: z.string(),
  last_call_arrival: z.string().nullable(),
  calls: z.number(),
  open_calls: z.number(),
  service_s: z.number(),
  position: LivePosition.nullable().default(null),
})
export type ListedProgram = z.infer<typeof ListedProgram>

/** How programs are sorted, the first of each on top. */
export const SORTS = {
  service: (a, b) => b.service_s - a.service_s,
  calls: (a, b) => b.calls - a.calls,
  open: (a, b) => b.open_calls - a.open_calls,
  started: (a, b) => b.started_at.localeCompare(a.started_at),
  last: (a, b) => (b.last_call_arrival ?? '').localeCompare(a.last_call_arrival ?? ''),
} satisfies Record<string, (a: ListedProgram, b: ListedProgram) => number>
export type Sort = keyof typeof SORTS
export const SORT_NAMES = Object.keys(SORTS) as Sort[]

export interface View {
  sort: Sort
  /** Part of an id or app. Empty: all. */
  filter: string
  columns: number
  rows: number
}

export function nextSort(sort: Sort): Sort {
  return SORT_NAMES[(SORT_NAMES.indexOf(sort) + 1) % SORT_NAMES.length] as Sort
}

/** A filter while it is typed, after a key. `over`: the key ends it. */
export function typedFilter(filter: string, text: string, key: string | undefined): { filter: string; over: boolean } {
  if (key === 'return' || key === 'enter') return { filter, over: true }
  if (key === 'escape') return { filter: '', over: true }
  if (key === 'backspace') return { filter: filter.slice(0, -1), over: false }
  return { filter: /^[\x20-\x7e]$/.test(text) ? filter + text : filter, over: false }
}

/** Lines that fit the view. `more`: programs beyond those given. */
export function topLines(programs: readonly ListedProgram[], more: boolean, view: View, now_ms: number): string[] {
  const shown = programs
    .filter(({ id, app }) => id.includes(view.filter) || (app ?? '').includes(view.filter))
    .sort((a, b) => SORTS[view.sort](a, b) || a.id.localeCompare(b.id))
  const open = programs.reduce((sum, { open_calls }) => sum + open_calls, 0)
  const reasoning = programs.filter(({ open_calls }) => open_calls > 0).length
  const acting = programs.filter(({ open_calls, calls }) => open_calls === 0 && calls > 0).length
  const head = `${programs.length}${more ? ' or more' : ''} programs: ${reasoning} reasoning, ${acting} acting; ${open} open calls. By ${view.sort}${view.filter === '' ? '' : `, with "${view.filter}"`}.`
  const room = Math.max(0, view.rows - 4)
  const table = textTable(columnsAt(now_ms), shown.slice(0, room)).split('\n')
  const hidden = shown.length - Math.min(shown.length, room)
  const lines = [head, '', ...(shown.length === 0 ? [EMPTY] : table), ...(hidden === 0 ? [] : [`… and ${hidden} more`])]
  return lines.map((line) => line.slice(0, view.columns))
}

const EMPTY = 'No program runs. The first call with an X-Program-Id starts one.'

function columnsAt(now_ms: number): Column<ListedProgram>[] {
  const age = (at: string | null) => (at === null ? '-' : duration(now_ms - Date.parse(at)))
  return [
    { title: 'program', cell: ({ id }) => id },
    { title: 'app', cell: ({ app }) => app ?? '-' },
    { title: 'state', cell: stateOf },
    { title: 'open', cell: ({ open_calls }) => String(open_calls), align: 'right' },
    { title: 'calls', cell: ({ calls }) => String(calls), align: 'right' },
    { title: 'service s', cell: ({ service_s }) => service_s.toFixed(2), align: 'right' },
    { title: 'runs for', cell: ({ started_at }) => age(started_at), align: 'right' },
    { title: 'last call', cell: ({ last_call_arrival }) => age(last_call_arrival), align: 'right' },
    { title: 'order', cell: ({ position }) => (position === null ? '-' : positionText(position)) },
  ]
}

function stateOf({ open_calls, calls }: ListedProgram): string {
  if (open_calls > 0) return 'reasoning'
  return calls > 0 ? 'acting' : 'new'
}

/** Clocks differ: what has not begun yet has taken no time. */
function duration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000))
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`
}
