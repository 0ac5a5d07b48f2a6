import { describe, expect, it } from 'vitest'
import { engineCall, testConfig, tokens } from '../../../testing/calls.ts'
import { policyCall } from '../../../testing/policy-calls.ts'
import { virtualRun } from '../../../testing/virtual-run.ts'
import { policyContract } from '../../policy.contract.ts'
import { Infercept, SERVED_IN_ORDER } from './infercept.ts'

for (const name of SERVED_IN_ORDER) policyContract(name, () => new Infercept(name))

describe('infercept', () => {
  it('ranks a call by when its program opened, and a call without a program by when it came', () => {
    const policy = new Infercept('infercept')
    expect(policy.arrive(policyCall({ sequence: [7, 3] }), 90_000).rank).toBe(7)
    expect(policy.arrive(policyCall({ sequence: null }), 90_000).rank).toBe(90)
  })

  it('gives a program that comes back the seat of one that opened later', () => {
    const call = (lease: string, opened_ms: number) =>
      engineCall({ lease, sequence: [opened_ms, 0], prompt: tokens(4, opened_ms), max_output_tokens: 20 })
    const events = [
      { at_us: 0, do: 'submit' as const, call: call('later', 9) },
      { at_us: 2_500, do: 'submit' as const, call: call('earlier', 1) },
    ]
    const run = virtualRun(testConfig({ policy: new Infercept('infercept'), seats: 1 }), events)
    expect([...run.ended.keys()]).toEqual(['earlier', 'later'])
  })
})

describe('vllm-discard', () => {
  it('takes a call that comes back for a new one', () => {
    const policy = new Infercept('vllm-discard')
    expect(policy.arrive(policyCall({ sequence: [7, 3] }), 90_000).rank).toBe(90)
  })
})

describe('parts of infercept can be taken away', () => {
  it('one by one', () => {
    const rule = { allowed: ['preserve', 'discard'], hidden_swaps: false, revises: false, pins: 'firm' } as const
    expect(new Infercept('infercept', { handling: rule }).handling).toEqual(rule)
    expect(new Infercept('infercept', { handling: { hidden_swaps: false } }).handling).toEqual({
      allowed: ['preserve', 'discard', 'swap'],
      hidden_swaps: false,
      revises: true,
      pins: 'relieved',
    })
  })
})
