/**
 * An ended run as a line of a trace (docs/traces.md): its calls with their tokens, dependencies and tool times, and no text.
 * The simulator plays such lines, so what ran here can be played on engines that one does not have.
 *
 * What no actor knows is estimated:
 * - Parents that the client did not declare and the thread does not give: the latest call that had ended.
 * - Tool time: from a call's end to the start of its earliest child, so a client's own time is in it.
 * - Shared prefix: the parent's whole prompt and answer where the prompt is long enough to hold them, else nothing.
 * - The head that programs of an app share: what the engine found in its cache of the first prompt.
 */
import { parentByTime, type TimedCall } from './parent-by-time.ts'
import { type CallRow, type LeaseRow, type ProgramRows, TOOL_RETURN_MS_MAX } from './program-state.ts'

/** Of the line format. */
const TOOL_CHARS_MAX = 1024

export interface TracedCall {
  /** Its chain, numbered from 0. */
  thread: number
  /** Positions of calls before it. */
  parents: number[]
  prompt_tokens: number
  shared_prefix_tokens: number
  output_tokens: number
  tool: string | null
  tool_seconds: number | null
}

export interface TracedRun {
  arrived_at_ms: number
  /** From the first call's arrival to the last one's end. */
  response_ms: number
  app_prefix_tokens: number
  prompt_tokens: number
  cached_tokens: number
  output_tokens: number
  engines: string[]
  models: string[]
  calls: TracedCall[]
}

interface ServedCall extends TimedCall {
  row: CallRow
  /** The last one that computed something: an engine that failed before it has answered nothing. */
  lease: LeaseRow
}

/** Null: no engine has computed anything for it. */
export function tracedRun({ calls, leases }: Pick<ProgramRows, 'calls' | 'leases'>): TracedRun | null {
  const leases_of = Map.groupBy(leases, ({ call }) => call)
  const ordered = calls.toSorted((a, b) => a.position - b.position)
  const served = ordered.flatMap((row): ServedCall[] => {
    const own = (leases_of.get(row.call) ?? []).toSorted((a, b) => a.position - b.position)
    const lease = own.findLast(({ prompt_tokens }) => prompt_tokens > 0)
    return lease === undefined ? [] : [{ row, lease, started_ms: row.opened_at_ms, ended_ms: row.ended_at_ms }]
  })
  const [first] = served
  if (first === undefined) return null
  const parents = parentsOf(ordered, served)
  const threads = new Map<string, number>()
  const ended_ms = served.reduce((latest, { started_ms, ended_ms: at }) => Math.max(latest, at ?? started_ms), 0)
  const sum = (of: 'prompt_tokens' | 'cached_tokens' | 'output_tokens') =>
    served.reduce((total, { lease }) => total + lease[of], 0)
  return {
    arrived_at_ms: first.started_ms,
    response_ms: Math.max(0, ended_ms - first.started_ms),
    app_prefix_tokens: Math.min(first.lease.prompt_tokens, first.lease.cached_tokens),
    ...{
      prompt_tokens: sum('prompt_tokens'),
      cached_tokens: sum('cached_tokens'),
      output_tokens: sum('output_tokens'),
    },
    engines: [...new Set(served.map(({ lease }) => lease.engine))],
    models: [...new Set(served.map(({ lease }) => lease.model))],
    calls: served.map(({ row, lease }, index) => {
      if (!threads.has(row.thread)) threads.set(row.thread, threads.size)
      const [parent] = (parents[index] ?? []).toSorted((a, b) => b - a)
      return {
        thread: threads.get(row.thread) ?? 0,
        parents: parents[index] ?? [],
        prompt_tokens: lease.prompt_tokens,
        shared_prefix_tokens: parent === undefined ? 0 : sharedTokens(served[parent] as ServedCall, lease),
        output_tokens: Math.max(1, lease.output_tokens),
        tool: row.tools === null || row.tools.names.length === 0 ? null : toolOf(row.tools.names),
        tool_seconds: gapSeconds(served, parents, index),
      }
    }),
  }
}

/** Positions among `served`. Where a parent was not served, its own parents stand for it. */
function parentsOf(all: readonly CallRow[], served: readonly ServedCall[]): number[][] {
  const position = new Map(served.map(({ row }, index) => [row.call, index]))
  const through = new Map<string, readonly number[]>()
  for (const { call, parents } of all) {
    const index = position.get(call)
    through.set(call, index === undefined ? parents.flatMap((parent) => through.get(parent) ?? []) : [index])
  }
  return served.map(({ row }, index) => {
    const declared = row.parents.flatMap((parent) => through.get(parent) ?? []).filter((parent) => parent < index)
    if (declared.length > 0 || row.parents_known) return [...new Set(declared)]
    const parent = parentByTime(served, index)
    return parent === null ? [] : [parent]
  })
}

function sharedTokens({ lease: parent }: ServedCall, { prompt_tokens }: LeaseRow): number {
  const whole = parent.prompt_tokens + parent.output_tokens
  return prompt_tokens >= whole ? whole : 0
}

function gapSeconds(served: readonly ServedCall[], parents: readonly number[][], index: number): number | null {
  const { ended_ms } = served[index] as ServedCall
  const child = parents.findIndex((of) => of.includes(index))
  if (ended_ms === null || child === -1) return null
  const gap_ms = (served[child] as ServedCall).started_ms - ended_ms
  return Math.min(TOOL_RETURN_MS_MAX, Math.max(0, gap_ms)) / 1000
}

function toolOf(names: readonly string[]): string {
  return names.join(' ').slice(0, TOOL_CHARS_MAX)
}
