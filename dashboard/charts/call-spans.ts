/**
 * A call's time as the timeline draws it: waiting, prefill, decode, and the tool after it. The start is the Worker's clock, the
 * durations are the engine's (docs: Server-Timing), so a span may end a little before or after `ended_at`. Pure.
 */
import type { ShownCall } from '../../src/protocol/shown-program.ts'
import { handledText, seconds } from '../format.ts'

export type SpanKind = 'wait' | 'prefill' | 'decode' | 'open' | 'tool'

export interface Span {
  call: string
  lane: number
  kind: SpanKind
  from_ms: number
  to_ms: number
  /** For the tool its name and what became of the context, for decode what interrupted it. */
  text: string
}

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
  const waited_ms = Math.min(ended_ms, opened_ms + call.wait_s * 1000)
  const first_s = call.leases.at(-1)?.first_token_s ?? null
  // TTFT counts from the call's arrival on the engine, so it has the wait before the first token in it.
  const first_ms = first_s === null ? ended_ms : Math.min(ended_ms, Math.max(waited_ms, opened_ms + first_s * 1000))
  const names = call.tools.map(({ name }) => name).join(', ') || 'between calls'
  const toolText = call.kv === null ? names : `${names} (${handledText(call.kv.handling)})`
  return [
    span('wait', opened_ms, waited_ms),
    span('prefill', waited_ms, first_ms),
    span('decode', first_ms, ended_ms, interruptedText(call)),
    ...(call.tool_s === null ? [] : [span('tool', ended_ms, ended_ms + call.tool_s * 1000, toolText)]),
  ]
}

/** When exactly it was preempted is not recorded: its wait after the first token is within decode. */
function interruptedText({ preemptions, swap_s }: ShownCall): string {
  if (preemptions === 0) return ''
  const moved = swap_s === 0 ? '' : `, its context was moved for ${seconds(swap_s)}`
  return `preempted ${preemptions === 1 ? 'once' : `${preemptions} times`}${moved}`
}
