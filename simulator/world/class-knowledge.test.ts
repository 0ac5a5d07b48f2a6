/** Which facts of classes reach engines, and when. */
import { expect, test } from 'vitest'
import type { ProgramClient, WorkloadProgram } from '../workloads/program.ts'
import { ClassKnowledge, classOf } from './class-knowledge.ts'

const S = 1e6

function program(output_tokens: number, presented: { client?: ProgramClient; app?: string } = {}): WorkloadProgram {
  const call = { thread: 0, parents: [], prompt_tokens: 8, shared_prefix_tokens: 0, tool: null, tool_seconds: null }
  return { id: 'p', workload: 'w', calls: [{ ...call, output_tokens }], ...presented }
}

const remaining = (knowledge: ClassKnowledge) => knowledge.tableOf('t', 'c', 'token_latency').steps[0]?.remaining_tokens

function endsAt(knowledge: ClassKnowledge, now_us: number): void {
  knowledge.ended('t', 'c', 'p', program(5000), now_us)
}

test('engines are told of ends at the interval that is asked for', () => {
  const knowledge = new ClassKnowledge(10 * S)
  const first = remaining(knowledge)
  endsAt(knowledge, 9 * S)
  expect(remaining(knowledge)).toBe(first)
  endsAt(knowledge, 10 * S)
  const second = remaining(knowledge)
  expect(second).toBeGreaterThan(first as number)
  endsAt(knowledge, 19 * S)
  expect(remaining(knowledge)).toBe(second)
  endsAt(knowledge, 20 * S)
  expect(remaining(knowledge)).not.toBe(second)
})

test('an interval of 0 tells of every end at once', () => {
  const knowledge = new ClassKnowledge(0)
  const seen = [1, 2, 3].map((us) => {
    endsAt(knowledge, us)
    return remaining(knowledge)
  })
  expect(new Set(seen).size).toBe(3)
})

test('a class is the label that the client gives, else the app, else the workload; without labels all are of one', () => {
  expect(classOf(program(1), true)).toEqual({ app: 'w', class: 'app:w' })
  expect(classOf(program(1, { app: 'w/a' }), true)).toEqual({ app: 'w/a', class: 'app:w/a' })
  const other = program(1, { client: { label: 'other' }, app: 'w/a' })
  expect(classOf(other, true)).toEqual({ app: 'other', class: 'app:other' })
  expect(classOf(program(1, { client: { label: null } }), true)).toEqual({ app: null, class: 'tenant' })
  expect(classOf(other, false)).toEqual({ app: null, class: 'tenant' })
})

test('a program that goes on tells of its class while it has an open call', () => {
  const knowledge = new ClassKnowledge(0)
  const at_first = remaining(knowledge)
  const called = () => knowledge.called('t', 'c', 'long')
  called()
  called()
  knowledge.wentOn('t', 'c', 'long', 5000, 1)
  expect(remaining(knowledge)).toBeGreaterThan(at_first as number)
  knowledge.wentOn('t', 'c', 'long', 5000, 2)
  expect(remaining(knowledge)).toBe(at_first)
})
