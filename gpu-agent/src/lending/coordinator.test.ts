/** Plans in a worker thread, and stages that follow them as nodes end. */
import { expect, onTestFinished, test } from 'vitest'
import { type ChooseQuestion, HostPlan, type PlanQuestion } from '../../../src/protocol/host.ts'
import { TINY } from '../../engine/backends/emulated/profiles/index.ts'
import { profileCosts } from '../../planner/costs/profile-costs.ts'
import { Coordinator, PLANS_AT_ONCE_MAX } from './coordinator.ts'

const COSTS = ['small', 'large'].flatMap((model) => [1, 2].map((tp) => profileCosts(model, tp, TINY, 5)))

function coordinator(): Coordinator {
  const made = new Coordinator(COSTS)
  onTestFinished(() => made.stop())
  return made
}

function question(change: Partial<PlanQuestion> = {}): PlanQuestion {
  const node = { template_tokens: 0, max_output_tokens: 64 }
  return {
    ...{ type: 'plan', id: 7, hosts: [{ gpus: 2 }], seed: 1 },
    application: {
      name: 'chain',
      nodes: [
        { ...node, id: 'a', model: 'small', requests: { count: 200, tokens: 30 } },
        { ...node, id: 'again', model: 'small', from: { nodes: ['a'], each: 1 } },
        { ...node, id: 'b', model: 'large', from: { nodes: ['again'], each: 1 } },
      ],
    },
    ...change,
  }
}

async function planned(change: Partial<PlanQuestion> = {}): Promise<HostPlan> {
  const { outcome } = await coordinator().plan(question(change))
  if (!outcome.ok) throw new Error(outcome.reason)
  return outcome.plan
}

test('plans, the same for the same seed, with nodes of one model fused', async () => {
  const plan = await planned()
  expect(HostPlan.parse(plan)).toEqual(plan)
  expect(plan.nodes).toEqual([
    { ids: ['a', 'again'], model: 'small', inputs: [] },
    { ids: ['b'], model: 'large', inputs: [0] },
  ])
  expect(plan.guessed_lengths.sort()).toEqual(['large', 'small'])
  expect(await planned()).toMatchObject({ stages: plan.stages, total_s: plan.total_s })
})

test('takes the lengths that it is given', async () => {
  const output_lengths = { quantiles: new Array<number>(101).fill(8), mean_tokens: 8 }
  const { application } = question()
  const nodes = application.nodes.map((node) => ({ ...node, output_lengths }))
  const short = await planned({ application: { ...application, nodes } })
  expect(short.guessed_lengths).toEqual([])
  expect(short.total_s).toBeLessThan((await planned()).total_s)
})

test('says why there is no plan, and makes no more than some at a time', async () => {
  const made = coordinator()
  const { application } = question()
  const nodes = application.nodes.map((node) => ({ ...node, model: 'unknown' }))
  expect((await made.plan(question({ application: { name: 'x', nodes } }))).outcome).toEqual({
    ...{ ok: false, reason: 'node a: this host has no costs for the model unknown' },
  })
  const asked = Array.from({ length: PLANS_AT_ONCE_MAX + 1 }, () => made.plan(question()))
  const outcomes = (await Promise.all(asked)).map(({ outcome }) => outcome.ok)
  expect(outcomes).toEqual([...new Array(PLANS_AT_ONCE_MAX).fill(true), false])
})

const ONE = { dp: 1, tp: 1 }
const PLAN: HostPlan = {
  nodes: [0, 1, 2].map((node) => ({ ids: [`${node}`], model: 'small', inputs: [] })),
  stages: [[0, 1], [1, 2], [2]].map((nodes, at) => ({
    ...{ start_s: at, end_s: at + 1 },
    nodes: nodes.map((node, slot) => ({
      ...{ node, plan: ONE, loading_s: null, gpus: [[slot]], finishes: slot === 0, busy_gpu_s: 0 },
    })),
  })),
  ...{ total_s: 3, planning_ms: 0, guessed_lengths: [] },
}

function chosen(done: number[], placed: ChooseQuestion['placed']) {
  const { outcome } = coordinator().choose({
    ...{ type: 'choose', id: 1, epoch: 4, plan: PLAN, hosts: [{ gpus: 1 }, { gpus: 1 }], done, placed },
  })
  return outcome.ok ? outcome.placed : outcome.reason
}

const at = (node: number, ...first_gpus: number[]) => ({ node, tp: 1, first_gpus })

test('follows the plan, and what runs stays where it is', () => {
  expect(chosen([], [])).toEqual([at(0, 0), at(1, 1)])
  expect(chosen([0], [at(0, 0), at(1, 1)])).toEqual([at(1, 1), at(2, 0)])
  expect(chosen([0, 1], [at(1, 1), at(2, 0)])).toEqual([at(2, 0)])
})

test('a node that ends before the one that was to: its GPU goes to the next stage', () => {
  expect(chosen([1], [at(0, 0), at(1, 1)])).toEqual([at(0, 0), at(2, 1)])
})

test('says that nothing is left, and answers with the epoch of the question', () => {
  expect(chosen([0, 1, 2], [])).toBe('no node is left that can run')
  const answer = coordinator().choose({
    ...{ type: 'choose', id: 1, epoch: 4, plan: PLAN, hosts: [{ gpus: 2 }], done: [], placed: [] },
  })
  expect(answer).toMatchObject({ type: 'chosen', id: 1, epoch: 4 })
})
