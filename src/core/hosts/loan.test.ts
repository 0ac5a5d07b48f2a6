import { expect, it } from 'vitest'
import {
  blockerOf,
  LOAN_IDLE_MS,
  loanEndsMs,
  nodesDone,
  PLAN_KEPT_MS,
  planFault,
  stageFault,
  wantedOf,
} from './loan.ts'
import { loanOf, PLAN } from './testing/loans.ts'

const other = (change: Parameters<typeof loanOf>[0]) => loanOf({ application: 'other', ...change })

it('a host is in one loan, and goes to the application that asked first', () => {
  const waiting = loanOf({ state: 'waiting', since_ms: 10 })
  expect(blockerOf(waiting, [waiting])).toBeNull()
  expect(blockerOf(waiting, [other({ state: 'lent' })])?.application).toBe('other')
  expect(blockerOf(waiting, [other({ state: 'waiting', since_ms: 9 })])?.application).toBe('other')
  expect(blockerOf(waiting, [other({ state: 'waiting', since_ms: 11 })])).toBeNull()
  expect(blockerOf(waiting, [other({ state: 'planned' })])).toBeNull()
  const elsewhere = [{ agent: 'host-3', region: 'here', gpus: 2 }]
  expect(blockerOf(waiting, [other({ state: 'lent', hosts: elsewhere })])).toBeNull()
  // One that has not asked before comes after all that wait.
  expect(blockerOf(loanOf({ state: 'planned' }), [other({ state: 'waiting', since_ms: 99 })])).not.toBeNull()
})

it('ends by itself: a plan after an hour, a loan when nobody asks for it', () => {
  expect(loanEndsMs(loanOf({ state: 'planned', since_ms: 5, asked_ms: 7 }))).toBe(5 + PLAN_KEPT_MS)
  for (const state of ['waiting', 'lent'] as const)
    expect(loanEndsMs(loanOf({ state, since_ms: 5, asked_ms: 7 }))).toBe(7 + LOAN_IDLE_MS)
})

it('a node of the plan has ended when all its nodes of the application have', () => {
  expect(nodesDone(PLAN, ['a'])).toEqual([])
  expect(nodesDone(PLAN, ['a2', 'a'])).toEqual([0])
  expect(nodesDone(PLAN, ['a', 'a2', 'b', 'unknown'])).toEqual([0, 1])
})

it('tells each host its engines, with its own GPU numbers', () => {
  const loan = loanOf({
    placed: [
      { node: 0, tp: 1, first_gpus: [0, 3] },
      { node: 1, tp: 1, first_gpus: [2] },
    ],
  })
  expect(wantedOf(loan, 0)).toEqual([{ model: 'small', gpus: [0] }])
  expect(wantedOf(loan, 1)).toEqual([
    { model: 'small', gpus: [1] },
    { model: 'large', gpus: [0] },
  ])
})

it.each([
  ['fits', [{ node: 0, tp: 2, first_gpus: [0, 2] }], [], null],
  ['a node that is not there', [{ node: 2, tp: 1, first_gpus: [0] }], [], 'there is no node 2'],
  ['a node that has ended', [{ node: 0, tp: 1, first_gpus: [0] }], [0], 'node 0 has ended'],
  ['an engine over two hosts', [{ node: 0, tp: 2, first_gpus: [1] }], [], 'GPUs 1 to 2 are not in one host'],
  ['GPUs that no host has', [{ node: 0, tp: 1, first_gpus: [4] }], [], 'GPUs 4 to 4 are not in one host'],
  [
    'a GPU twice',
    [
      { node: 0, tp: 2, first_gpus: [0] },
      { node: 1, tp: 1, first_gpus: [1] },
    ],
    [],
    'GPU 1 is in two engines',
  ],
  [
    'a node twice',
    [
      { node: 0, tp: 1, first_gpus: [0] },
      { node: 0, tp: 1, first_gpus: [1] },
    ],
    [],
    'node 0 is placed twice',
  ],
])('what a coordinator places is checked: %s', (_, placed, done, fault) => {
  expect(stageFault(placed, loanOf(), done)).toBe(fault)
})

it('what a coordinator plans is checked against the application and the hosts', () => {
  const application = {
    name: 'x',
    nodes: [
      ['a', 'small'],
      ['a2', 'small'],
      ['b', 'large'],
    ].map(([id = '', model = '']) => ({ id, model, template_tokens: 0 })),
  }
  const hosts = [{ gpus: 2 }]
  expect(planFault(PLAN, application, hosts)).toBeNull()
  expect(planFault(PLAN, application, [{ gpus: 1 }])).toBe('there are 1 GPUs')
  expect(planFault({ ...PLAN, nodes: PLAN.nodes.slice(0, 1) }, application, hosts)).toBe('it leaves out b')
  const [a, b] = PLAN.nodes as [(typeof PLAN.nodes)[0], (typeof PLAN.nodes)[0]]
  expect(planFault({ ...PLAN, nodes: [a, { ...b, ids: ['b', 'a'] }] }, application, hosts)).toMatch(
    'node a does not run',
  )
  expect(planFault({ ...PLAN, nodes: [a, { ...b, inputs: [7] }] }, application, hosts)).toMatch('not there')
})
