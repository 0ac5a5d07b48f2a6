/**
 * The four schedules of SamuLLM's Fig. 1, worked out by hand: 4 GPUs and 6 models. Model 1 takes 8 on one GPU and scales linearly, as in the paper. The
 * other times are ours: on 1 GPU 2, 2, 2, 4 and 2 for models 2 to 6, and on g GPUs that divided by √g, which is less than linear. Nothing loads.
 */
import { describe, expect, it } from 'vitest'
import { gpusOf, type Plan, type Stage } from '../plan.ts'
import { type TableNode, TableWorld } from '../testing/table-world.ts'
import type { State } from '../world.ts'
import { type ChooseStage, completePlan } from './complete-plan.ts'
import { exhaustivePlan } from './exhaustive.ts'
import { greedy } from './greedy.ts'
import { maxHeuristic, minHeuristic } from './heuristics.ts'
import { improvedPlan } from './improved.ts'

const ONE_GPU_S = [8, 2, 2, 2, 4, 2]
const plans: readonly Plan[] = [1, 2, 3, 4].map((dp) => ({ dp, tp: 1 }))

const figure1: TableNode[] = ONE_GPU_S.map((takes_s, at) => ({
  id: `model ${at + 1}`,
  inputs: [],
  work: takes_s,
  loading_s: 0,
  times: plans.map((plan) => ({
    plan,
    takes_s: at === 0 ? takes_s / gpusOf(plan) : takes_s / Math.sqrt(gpusOf(plan)),
  })),
}))
const world = new TableWorld(figure1, [{ gpus: 4 }])

function total(choose: ChooseStage): number {
  const outcome = completePlan(world, choose)
  if (!outcome.ok) throw new Error(outcome.reason)
  return outcome.plan.total_s
}

/** Stages by hand: model (from 1) and GPUs. */
function byHand(...stages: readonly (readonly (readonly [model: number, gpus: number])[])[]): ChooseStage {
  return (_world, _state, at): Stage =>
    new Map((stages[at] ?? []).map(([model, gpus]) => [model - 1, { dp: gpus, tp: 1 }] as const))
}

describe('Fig. 1', () => {
  it('(a) one model after the other on all GPUs: 8/4 + (2 + 2 + 2 + 4 + 2)/2 = 8', () => {
    expect(total(maxHeuristic)).toBeCloseTo(8, 9)
    expect(total(byHand([[1, 4]], [[2, 4]], [[3, 4]], [[4, 4]], [[5, 4]], [[6, 4]]))).toBeCloseTo(8, 9)
  })

  it('(b) as many as possible, and none changes: model 1 on one GPU takes 8 while the others idle', () => {
    expect(total(minHeuristic({ preempt: false }))).toBeCloseTo(8, 9)
    const running: [number, number][] = [[1, 1]]
    const stages = byHand(
      [...running, [2, 1], [3, 1], [4, 1]],
      [...running, [5, 1], [6, 1]],
      [...running, [5, 1]],
      running,
    )
    expect(total(stages)).toBeCloseTo(8, 9)
  })

  it('(c) the same with preemption: the GPUs stay occupied', () => {
    // 0-2: 1, 2, 3, 4 on one GPU each; 2-?: 1, 5 on one, 6 on two: 2/√2; then 1 and 5 evenly on two each; then 1 on four.
    const first_s = 2
    const second_s = 2 / Math.SQRT2
    const five_left = 1 - second_s / 4
    const third_s = five_left * (4 / Math.SQRT2)
    const one_left = 1 - (first_s + second_s) / 8 - third_s / 4
    const expected_s = first_s + second_s + third_s + one_left * 2
    const stages = byHand(
      [
        [1, 1],
        [2, 1],
        [3, 1],
        [4, 1],
      ],
      [
        [1, 1],
        [5, 1],
        [6, 2],
      ],
      [
        [1, 2],
        [5, 2],
      ],
      [[1, 4]],
    )
    expect(total(stages)).toBeCloseTo(expected_s, 9)
    expect(expected_s).toBeLessThan(8)
  })

  it('(d) model 1, which scales, gets three GPUs beside model 5: 2 + 8/3 + 2/3 = 5.33', () => {
    // 0-2: 2, 3, 4 and 6 on one GPU each. Then 1 on three GPUs takes 8/3, in which 5 does 2/3 of its work on one. The rest takes 2/3 on four.
    const stages = byHand(
      [
        [2, 1],
        [3, 1],
        [4, 1],
        [6, 1],
      ],
      [
        [1, 3],
        [5, 1],
      ],
      [[5, 4]],
    )
    expect(total(stages)).toBeCloseTo(2 + 8 / 3 + 2 / 3, 9)
  })

  it('stages are valid: GPUs suffice, and each ends when its first model does', () => {
    const outcome = completePlan(world, greedy())
    if (!outcome.ok) throw new Error(outcome.reason)
    for (const { nodes } of outcome.plan.stages) {
      expect(nodes.reduce((sum, { plan }) => sum + gpusOf(plan), 0)).toBeLessThanOrEqual(4)
      expect(nodes.some(({ finishes }) => finishes)).toBe(true)
      const gpus = nodes.flatMap((node) => node.gpus.flat())
      expect(new Set(gpus).size).toBe(gpus.length)
    }
  })
})

describe('against the optimum of small instances', () => {
  /** Four models on 3 GPUs, times by hand; loading 1. */
  const small = (of: readonly (readonly [one: number, exponent: number])[]) =>
    new TableWorld(
      of.map(([one, exponent], at) => ({
        id: `m${at}`,
        inputs: [],
        work: one,
        loading_s: 1,
        times: [1, 2, 3].map((dp) => ({ plan: { dp, tp: 1 }, takes_s: one / dp ** exponent })),
      })),
      [{ gpus: 3 }],
    )
  const instances = [
    small([
      [8, 1],
      [2, 0.5],
      [4, 0.5],
    ]),
    small([
      [9, 0.7],
      [9, 0.7],
      [3, 0.2],
    ]),
    small([
      [5, 0.9],
      [5, 0.3],
      [20, 0.95],
    ]),
    small([
      [6, 0.5],
      [7, 0.8],
      [8, 0.6],
      [2, 0.1],
    ]),
  ]

  it.each(instances.entries().toArray())('instance %i: optimum <= ours <= greedy', (_at, instance) => {
    const [best, ours, paper] = [
      exhaustivePlan(instance),
      improvedPlan(instance),
      completePlan(instance, greedy()),
    ].map((outcome) => (outcome.ok ? outcome.plan.total_s : Number.NaN)) as [number, number, number]
    expect(best).toBeLessThanOrEqual(ours + 1e-9)
    expect(ours).toBeLessThanOrEqual(paper + 1e-9)
    expect(ours / best).toBeLessThan(1.05)
  })

  it('refuses to try all plans of a large instance, and says why when nothing fits', () => {
    const unfit = new TableWorld([{ id: 'big', inputs: [], work: 1, loading_s: 0, times: [] }], [{ gpus: 1 }])
    expect(completePlan(unfit, greedy())).toEqual({
      ok: false,
      reason: 'big: the model does not fit one GPU, or has no costs for them',
    })
  })
})

describe('preemption', () => {
  it('without it a model keeps its plan from its start to its end', () => {
    const outcome = completePlan(world, greedy({ preempt: false }))
    if (!outcome.ok) throw new Error(outcome.reason)
    const seen = new Map<number, string>()
    let before = new Set<number>()
    for (const { nodes } of outcome.plan.stages) {
      const running = new Set(nodes.map(({ node }) => node))
      for (const { node, plan } of nodes) {
        const text = `${plan.dp} ${plan.tp}`
        expect(seen.get(node) ?? text).toBe(text)
        if (seen.has(node)) expect(before.has(node)).toBe(true)
        seen.set(node, text)
      }
      before = running
    }
  })

  it('does not run a model before its inputs', () => {
    const chain = new TableWorld(
      figure1.slice(0, 3).map((node, at) => ({ ...node, inputs: at === 0 ? [] : [at - 1] })),
      [{ gpus: 1 }],
    )
    const outcome = completePlan(chain, (some, state: State) => {
      const node = state.nodes.findIndex(({ done }) => !done)
      return new Map([[node, some.plans(node)[0] as Plan]])
    })
    expect(outcome.ok && outcome.plan.total_s).toBeCloseTo(12, 9)
    expect(completePlan(chain, () => new Map([[1, { dp: 1, tp: 1 }]])).ok).toBe(false)
  })
})
