/** What the scheduler says of an open call to a person who asks why it waits: under each policy, in its own words. */
import { expect, it } from 'vitest'
import { createPolicy, type MemoryPolicyName, type PolicyName } from './order/policies/index.ts'
import { engineCall, testScheduler, tokens } from './testing/calls.ts'
import type { EngineCall } from './types.ts'

const OLD = { settled_service_us: 40_000, program_output_tokens: 80 }

/** Two calls of one tenant hold the seats or wait before a third one, and another tenant has calls too. */
function scheduler(name: PolicyName | MemoryPolicyName) {
  const of = testScheduler({ policy: createPolicy({ name }), seats: 2 })
  const calls: (Partial<EngineCall> & { lease: string })[] = [
    { lease: 'first', ...OLD, sequence: [1, 0] },
    { lease: 'second', ...OLD, sequence: [2, 0] },
    { lease: 'third', ...OLD, sequence: [3, 0], prompt: tokens(40, 3) },
  ]
  for (const [at, call] of calls.entries()) of.submit(engineCall(call), at)
  return of
}

it.each<[PolicyName | MemoryPolicyName, string]>([
  ['fcfs', 'in order of arrival'],
  ['fcfs-program', 'in order of its program’s first call'],
  ['mlfq', 'Q1 of 10, 25.0 ms of service left in it'],
  ['rr', 'in turn, 5.0 ms left of its turn of 5.0 ms'],
  ['plas', 'Q5 of 22: attained service 40.0 ms, 40 prompt tokens to compute'],
  ['atlas', 'Q5 of 22: service along its longest path 40.0 ms, 40 prompt tokens to compute'],
  ['infercept', 'in order of its program’s first call'],
  ['vllm-discard', 'in order of arrival'],
  ['vllm-preserve', 'in order of its program’s first call'],
])('%s: %s', (name, order) => {
  const of = scheduler(name)
  of.plan(10)
  expect(of.positions(['third', 'not open'], 1_000_010)).toEqual([
    { lease: 'third', waits: true, waited_us: 1_000_008, before: 2, order },
  ])
  expect(of.positions(['first'], 1_000_010)).toMatchObject([{ waits: false, before: 0 }])
})

it.each<[PolicyName | MemoryPolicyName, RegExp]>([
  ['learned', /^rank -?\d+, lower goes first: about \d+ output tokens of its program to come$/],
  ['lamps', /^\d+ token-seconds of memory expected, fewer go first \(256 output tokens foreseen\)$/],
  ['learned-memory', /^\d+ token-seconds of memory expected, fewer go first \(256 output tokens foreseen\)$/],
])('%s tells its score', (name, order) => {
  const of = scheduler(name)
  of.plan(10)
  expect(of.positions(['third'], 20)[0]?.order).toMatch(order)
})

it('counts no call of another tenant', () => {
  const of = testScheduler({ seats: 1 })
  of.submit(engineCall({ lease: 'other', tenant: 'other' }), 0)
  of.submit(engineCall({ lease: 'own' }), 1)
  of.submit(engineCall({ lease: 'last' }), 2)
  of.plan(3)
  expect(of.positions(['own', 'last'], 4).map(({ before }) => before)).toEqual([0, 1])
})
