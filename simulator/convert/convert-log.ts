/**
 * Programs from a request log. A session is a program; its calls are ordered by their start. What the log does not say is estimated:
 *
 * - Parents: a call waits for the latest call of its session that had ended when it started. A call that starts while others are open and
 *   after none has ended is ready when the program starts. It goes on in its parent's thread if no call before it did.
 * - Tool time: from the parent's end to the earliest start of a child, user's thinking included. A log without ends gives null: a gap between
 *   starts has the model's time in it.
 * - Shared prefix: with messages, the share of the parent's messages that this prompt starts with, by characters, and the parent's
 *   answer if the next message stands where it would. Without them, the whole of the parent's prompt and answer where the prompt
 *   is long enough to hold it, else nothing.
 */
import { parentByTime } from '../../src/core/program/parent-by-time.ts'
import type { WorkloadCall, WorkloadProgram } from '../workloads/program.ts'
import { lines, TraceError } from '../workloads/read-trace.ts'
import { resolvePrefixes } from '../workloads/resolve-prefixes.ts'
import { ARRIVAL_SECONDS_MAX, CALLS_PER_PROGRAM_MAX, TOOL_SECONDS_MAX } from '../workloads/trace-line.ts'
import { type LoggedCall, parseLogLine } from './log-line.ts'

export const LINE_CHARS_MAX = 16 * 1024 * 1024
export const CALLS_PER_LOG_MAX = 2_000_000

export interface Conversion {
  programs: WorkloadProgram[]
  calls: number
  /** Calls whose end the log does not tell. */
  without_end: number
  /** Calls whose prefix was estimated without messages. */
  without_messages: number
}

/** Throws TraceError, by file, line and field. */
export function convertLog(path: string, workload: string, calls_max: number = CALLS_PER_LOG_MAX): Conversion {
  const sessions = new Map<string, LoggedCall[]>()
  let calls = 0
  for (const { number, text } of lines(path, LINE_CHARS_MAX)) {
    if (text.trim() === '') continue
    const parsed = parseLogLine(text)
    if (!parsed.ok) throw new TraceError(path, number, parsed.field, parsed.reason)
    calls += 1
    if (calls > calls_max) throw new TraceError(path, number, '(file)', `has more than ${calls_max} calls; split it`)
    const session = sessions.get(parsed.call.session) ?? []
    if (session.length >= CALLS_PER_PROGRAM_MAX) {
      throw new TraceError(path, number, 'session_id', `has more than ${CALLS_PER_PROGRAM_MAX} calls`)
    }
    session.push(parsed.call)
    sessions.set(parsed.call.session, session)
  }
  if (calls === 0) throw new TraceError(path, 1, '(file)', 'has no call')
  const all = [...sessions.values()]
  const first_ms = all.flat().reduce((least, call) => Math.min(least, call.started_ms), Number.POSITIVE_INFINITY)
  return {
    programs: all
      .map((session) => programOf(session, workload, first_ms))
      .sort((a, b) => (a.arrival_seconds ?? 0) - (b.arrival_seconds ?? 0)),
    calls,
    without_end: all.flat().filter((call) => call.ended_ms === null).length,
    without_messages: all.flat().filter((call) => call.messages === null).length,
  }
}

function programOf(session: readonly LoggedCall[], workload: string, first_ms: number): WorkloadProgram {
  const logged = [...session].sort((a, b) => a.started_ms - b.started_ms)
  const parents = logged.map((_, index) => parentByTime(logged, index))
  const threads: number[] = []
  const continued = new Set<number>()
  let next_thread = 0
  const calls: WorkloadCall[] = logged.map((call, index) => {
    const parent = parents[index] ?? null
    const goes_on = parent !== null && !continued.has(parent)
    const thread = goes_on ? (threads[parent] ?? 0) : next_thread++
    if (goes_on) continued.add(parent)
    threads.push(thread)
    return {
      thread,
      parents: parent === null ? [] : [parent],
      prompt_tokens: call.prompt_tokens,
      shared_prefix_tokens: parent === null ? 0 : sharedTokens(logged[parent] as LoggedCall, call),
      output_tokens: call.output_tokens,
      tool: call.tool,
      tool_seconds: gapSeconds(logged, parents, index),
    }
  })
  const { session: id, started_ms } = logged[0] as LoggedCall
  const arrival_seconds = Math.min(ARRIVAL_SECONDS_MAX, (started_ms - first_ms) / 1000)
  return { id, workload, arrival_seconds, calls: resolvePrefixes(calls) }
}

function gapSeconds(logged: readonly LoggedCall[], parents: readonly (number | null)[], index: number): number | null {
  const ended_ms = logged[index]?.ended_ms ?? null
  const child = parents.indexOf(index)
  if (ended_ms === null || child < 0) return null
  return Math.min(TOOL_SECONDS_MAX, ((logged[child]?.started_ms ?? ended_ms) - ended_ms) / 1000)
}

function sharedTokens(parent: LoggedCall, call: LoggedCall): number {
  const whole = parent.prompt_tokens + parent.output_tokens
  if (parent.messages === null || call.messages === null) return call.prompt_tokens >= whole ? whole : 0
  let same = 0
  while (same < parent.messages.length && parent.messages[same]?.text === call.messages[same]?.text) same += 1
  const answered = same === parent.messages.length && call.messages.length > same
  if (answered && isAssistant(call.messages[same]?.text)) return Math.min(call.prompt_tokens, whole)
  const chars = parent.messages.reduce((sum, { text }) => sum + text.length, 0)
  const same_chars = parent.messages.slice(0, same).reduce((sum, { text }) => sum + text.length, 0)
  return chars === 0 ? 0 : Math.min(call.prompt_tokens, Math.floor((same_chars / chars) * parent.prompt_tokens))
}

function isAssistant(message: string | undefined): boolean {
  return message !== undefined && (JSON.parse(message) as { role?: unknown }).role === 'assistant'
}
