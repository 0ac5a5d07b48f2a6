import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readTrace, TraceError } from '../workloads/read-trace.ts'
import { CALLS_PER_PROGRAM_MAX } from '../workloads/trace-line.ts'
import { convertLog } from './convert-log.ts'
import { MESSAGES_MAX } from './log-line.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'convert-'))
afterAll(() => rmSync(folder, { recursive: true }))

function file(...lines: object[]): string {
  const place = path.join(folder, 'log.jsonl')
  writeFileSync(place, lines.map((line) => JSON.stringify(line)).join('\n'))
  return place
}

const T = Date.parse('2026-01-01T00:00:00Z')
const call = (at_s: number, prompt_tokens: number, more: object = {}) => ({
  timestamp: T + at_s * 1000,
  session_id: 's',
  latency_ms: 2000,
  usage: { prompt_tokens, completion_tokens: 10 },
  ...more,
})
const user = { role: 'user', content: 'x'.repeat(80) }
const assistant = { role: 'assistant', content: 'y' }

test('a chat becomes a chain: gaps are tool times, prefixes grow, sessions arrive when they began', () => {
  const toolCall = { choices: [{ message: { tool_calls: [{ function: { name: 'search' } }] } }] }
  const { programs, without_end } = convertLog(
    file(call(5, 40, { session_id: 'late' }), call(0, 100, { response: toolCall }), call(4.5, 130), call(9, 50)),
    'chat',
  )
  expect(without_end).toBe(0)
  expect(programs.map(({ id, arrival_seconds }) => [id, arrival_seconds])).toEqual([
    ['s', 0],
    ['late', 5],
  ])
  expect(programs[0]?.calls).toMatchObject([
    {
      thread: 0,
      parents: [],
      prompt_tokens: 100,
      shared_prefix_tokens: 0,
      output_tokens: 10,
      tool: 'search',
      tool_seconds: 2.5,
    },
    { thread: 0, parents: [0], shared_prefix_tokens: 110, tool: null, tool_seconds: 2.5, prefix_of: 0 },
    { thread: 0, parents: [1], shared_prefix_tokens: 0, tool_seconds: null, prefix_of: null },
  ])
})

test('calls side by side wait for the call that had ended, in threads of their own', () => {
  const { programs } = convertLog(file(call(0, 10), call(3, 20), call(3.5, 20), call(8, 20)), 'tree')
  expect(programs[0]?.calls.map(({ parents, thread, tool_seconds }) => [parents, thread, tool_seconds])).toEqual([
    [[], 0, 1],
    [[0], 0, null],
    [[0], 1, 2.5],
    [[2], 1, null],
  ])
})

test('messages tell what is shared: all with the answer, a part by its characters, or nothing', () => {
  const system = { role: 'system', content: 'z'.repeat(80) }
  const shared = (before: object[], after: object[]) =>
    convertLog(file(call(0, 100, { messages: before }), call(5, 300, { request: { messages: after } })), 'w')
      .programs[0]?.calls[1]?.shared_prefix_tokens
  expect(shared([user], [user, assistant, user])).toBe(110)
  expect(shared([user], [user, user])).toBe(100)
  expect(shared([system, user], [system, assistant])).toBe(50)
  expect(shared([user], [assistant])).toBe(0)
})

test('without ends the call before is the parent and tool times are not known; times come in three forms', () => {
  const bare = { session_id: 's', usage: { prompt_tokens: 5, completion_tokens: 0 } }
  const { programs, without_end, without_messages } = convertLog(
    file(
      { ...bare, timestamp: T / 1000 },
      { ...bare, timestamp: '2026-01-01T00:00:03Z' },
      { ...bare, timestamp: T + 1000 },
    ),
    'w',
  )
  expect([without_end, without_messages]).toEqual([3, 3])
  expect(
    programs[0]?.calls.map(({ parents, tool_seconds, output_tokens }) => [parents, tool_seconds, output_tokens]),
  ).toEqual([
    [[], null, 1],
    [[0], null, 1],
    [[1], null, 1],
  ])
})

test('what is written is a trace', () => {
  const { programs } = convertLog(file(call(0, 100), call(3, 130), call(3.5, 20), call(9, 500)), 'w')
  const place = path.join(folder, 'trace.jsonl')
  writeFileSync(place, programs.map((program) => JSON.stringify(program)).join('\n'))
  expect(readTrace(place)).toEqual(programs)
})

test.each<[string, object, string, string]>([
  ['no session', { timestamp: T, usage: { prompt_tokens: 1, completion_tokens: 1 } }, 'session_id', ''],
  ['no usage', { timestamp: T, session_id: 's' }, 'usage', 'is missing, here and under response'],
  ['no tokens', call(0, 0), 'usage.prompt_tokens', ''],
  ['a time that is none', call(0, 1, { timestamp: 'noon' }), 'timestamp', 'is neither ISO 8601'],
  ['an end before the start', call(0, 1, { end_timestamp: T - 1 }), 'end_timestamp', 'is before timestamp'],
  ['too many messages', call(0, 1, { messages: new Array(MESSAGES_MAX + 1).fill({}) }), 'messages', ''],
])('%s is refused by line and field', (_, line, field, reason) => {
  const place = file(call(0, 5), line)
  expect(() => convertLog(place, 'w')).toThrow(TraceError)
  expect(() => convertLog(place, 'w')).toThrow(`${place}:2: ${field}: ${reason}`)
})

test('bounds: calls of a log, calls of a session, messages of a call', () => {
  const two = file(call(0, 5), call(9, 5))
  expect(convertLog(two, 'w', 2).calls).toBe(2)
  expect(() => convertLog(two, 'w', 1)).toThrow(':2: (file): has more than 1 calls')
  expect(convertLog(file(call(0, 5, { messages: new Array(MESSAGES_MAX).fill({}) })), 'w').calls).toBe(1)
  const many = (count: number) =>
    file(
      ...Array.from({ length: count }, () => ({
        timestamp: T,
        session_id: 's',
        end_timestamp: T + 1,
        usage: { prompt_tokens: 1, completion_tokens: 1 },
      })),
    )
  expect(() => convertLog(many(CALLS_PER_PROGRAM_MAX + 1), 'w')).toThrow(
    `session_id: has more than ${CALLS_PER_PROGRAM_MAX} calls`,
  )
})
