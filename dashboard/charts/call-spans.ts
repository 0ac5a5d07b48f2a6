/**
 * A call's time as the timeline draws it: waiting, prefill, decode, what it lost its seat for, and the tool after it. The start
 * is the Worker's clock, the durations are the engine's (docs: Server-Timing), so a span may end a little before or after
 * `ended_at`. Pure.
 */
import type { ShownCall } from '../../src/protocol/shown-program.ts'
import { handledText, seconds } from '../format.ts'

/** `swapped`: preempted, and its context was moved out of the cache. `tool_…`: what became of the context while a tool ran. */
export type SpanKind =
  | 'wait'
  | 'prefill'
  | 'decode'
  | 'open'
  | 'preempted'
  | 'swapped'
  | 'tool'
  | 'tool_moved'
  | 'tool_dropped'

const WORDS: Readonly<Record<SpanKind, string>> = {
  ...{ wait: 'wait', prefill: 'prefill', decode: 'decode', open: 'open', preempted: 'preempted' },
  ...{ swapped: 'preempted, context moved out', tool: 'tool', tool_moved: 'tool', tool_dropped: 'tool' },
}

export interface Span {
  call: string
  lane: number
  kind: SpanKind
  from_ms: number
  to_ms: number
  /** For the tool its name and what became of the context, for decode what interrupted it. */
  text: string
}

export const isTool = ({ kind }: Span): boolean => kind.startsWith('tool')

export function callSpans(calls: readonly ShownCall[], lanes: readonly string[], now_ms: number): Span[] {
  return calls.flatMap((call) => spansOf(call, lanes.indexOf(call.thread), now_ms)).filter((s) => s.to_ms > s.from_ms)
}

function spansOf(call: ShownCall, lane: number, now_ms: number): Span[] {
  const opened_ms = Date.parse(call.opened_at)
  const span = (kind: SpanKind, from_ms: number, to_ms: number, text = ''): Span => {
    return { call: call.id, lane, kind, from_ms, to_ms, text }
  }
  if (call.ended_at === null) return [span('open', opened_ms, now_ms)]
  const ended_ms = Date.parse(call.ended_at)
  const lease = call.leases.at(-1)
  const pauses = (lease?.pauses ?? []).map(({ from_s, to_s, moved }) =>
    span(moved ? 'swapped' : 'preempted', at(from_s), at(to_s)),
  )
  function at(s: number): number {
    return Math.min(ended_ms, opened_ms + s * 1000)
  }
  const paused_s = pauses.reduce((sum, { from_ms, to_ms }) => sum + (to_ms - from_ms) / 1000, 0)
  const waited_ms = at(Math.max(0, call.wait_s - paused_s))
  // TTFT counts from the call's arrival on the engine, so it has the wait before the first token in it.
  const first_s = lease?.first_token_s ?? null
  const first_ms = first_s === null ? ended_ms : Math.max(waited_ms, at(first_s))
  const names = call.tools.map(({ name }) => name).join(', ') || 'between calls'
  const toolText = call.kv === null ? names : `${names} (${handledText(call.kv.handling)})`
  const computing = [
    span('prefill', waited_ms, first_ms),
    span('decode', first_ms, ended_ms, interruptedText(call, pauses.length)),
  ]
  return [
    span('wait', opened_ms, waited_ms),
    ...computing.flatMap((whole) => without(whole, pauses)),
    ...pauses,
    ...(call.tool_s === null ? [] : [span(toolKind(call), ended_ms, ended_ms + call.tool_s * 1000, toolText)]),
  ]
}

const TOOL_KINDS: Readonly<Record<string, SpanKind>> = { swap: 'tool_moved', discard: 'tool_dropped' }

const toolKind = ({ kv }: ShownCall): SpanKind => TOOL_KINDS[kv?.handling ?? ''] ?? 'tool'

/** What a span is and how long it took. */
export function spanText({ kind, call, from_ms, to_ms, text }: Span): string {
  const took = seconds((to_ms - from_ms) / 1000)
  if (kind.startsWith('tool')) return `${text}: ${took}`
  return [`${WORDS[kind]}: ${took}`, text, call].filter((part) => part !== '').join(', ')
}

/** What is left of a span, in order. `pauses` are in order and do not overlap. */
function without(whole: Span, pauses: readonly Span[]): Span[] {
  const left: Span[] = []
  let from_ms = whole.from_ms
  for (const pause of pauses) {
    if (pause.to_ms <= from_ms || pause.from_ms >= whole.to_ms) continue
    left.push({ ...whole, from_ms, to_ms: Math.max(from_ms, pause.from_ms) })
    from_ms = Math.min(pause.to_ms, whole.to_ms)
  }
  return [...left, { ...whole, from_ms }]
}

/** `told`: pauses that are drawn. The others are within decode. */
function interruptedText({ preemptions, swap_s }: ShownCall, told: number): string {
  if (preemptions === 0) return ''
  const moved = swap_s === 0 ? '' : `, its context was moved for ${seconds(swap_s)}`
  const hidden = told === preemptions ? '' : told === 0 ? ', at times that are not known' : `, ${told} of them drawn`
  return `preempted ${preemptions === 1 ? 'once' : `${preemptions} times`}${hidden}${moved}`
}
