/**
 * What tools returned, from the messages of the call that brings their results. All dialects are chat bodies here. Only what
 * stands behind the last answer is new, so the work does not grow with the conversation.
 *
 * A result names its tool by the id of the tool call in the answer before it. A result of an id that the answer does not
 * have answers nothing and is left out.
 */
import { TOOLS_PER_CALL_MAX } from '../../protocol/index.ts'
import { utf8Bytes } from '../call/prompt-estimate.ts'
import { toolName } from './tool-name.ts'

/** Messages from the end among which results and their answer are looked for. */
export const RESULT_MESSAGES_MAX = 256

export interface SizedResult {
  name: string
  bytes: number
}

type Json = Readonly<Record<string, unknown>>

/**
 * In the order of the answer's tool calls, at most TOOLS_PER_CALL_MAX. Empty: the call brings none. `textBytes`: of the text of a
 * message, where that is known without reading it.
 */
export function toolResults(
  { messages }: Json,
  textBytes: (message: Json) => number = ({ content }) => contentBytes(content),
): SizedResult[] {
  if (!Array.isArray(messages)) return []
  const bytes_of = new Map<string, number>()
  const first = Math.max(0, messages.length - RESULT_MESSAGES_MAX)
  let at = messages.length - 1
  for (; at >= first; at -= 1) {
    const message = asRecord(messages[at])
    if (message.role === 'assistant') break
    if (message.role !== 'tool') continue
    const { tool_call_id } = message
    if (typeof tool_call_id !== 'string') continue
    bytes_of.set(tool_call_id, (bytes_of.get(tool_call_id) ?? 0) + textBytes(message))
  }
  if (bytes_of.size === 0) return []
  const results: SizedResult[] = []
  for (const { id, name } of answerCalls(messages, at, first)) {
    if (results.length === TOOLS_PER_CALL_MAX) break
    const bytes = bytes_of.get(id)
    if (bytes === undefined) continue
    bytes_of.delete(id)
    results.push({ name, bytes })
  }
  return results
}

/** Tool calls of the answer that ends at `last`. Some clients send each tool call in a message of its own. */
function answerCalls(messages: readonly unknown[], last: number, first: number): { id: string; name: string }[] {
  const calls: { id: string; name: string }[][] = []
  for (let at = last; at >= first; at -= 1) {
    const { role, tool_calls } = asRecord(messages[at])
    if (role !== 'assistant') break
    if (Array.isArray(tool_calls)) calls.push(tool_calls.flatMap(named))
  }
  return calls.reverse().flat()
}

function named(call: unknown): { id: string; name: string }[] {
  const { id, function: called } = asRecord(call)
  const name = toolName(asRecord(called).name)
  return typeof id === 'string' && name !== null ? [{ id, name }] : []
}

function contentBytes(content: unknown): number {
  if (typeof content === 'string') return utf8Bytes(content)
  if (!Array.isArray(content)) return 0
  let bytes = 0
  for (const part of content) {
    const { text } = asRecord(part)
    if (typeof text === 'string') bytes += utf8Bytes(text)
  }
  return bytes
}

function asRecord(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {}
}
