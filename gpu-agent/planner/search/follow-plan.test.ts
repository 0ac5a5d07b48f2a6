/** The three cases of SamuLLM §4.3, by hand: two GPUs, one for each node, nothing loads. */
import { describe, expect, it } from 'vitest'
import type { ApplicationPlan, Plan } from '../plan.ts'
import { TableWorld } from '../testing/table-world.ts'
import { type ChooseStage, completePlan } from './complete-plan.ts'
import { followPlan } from './follow-plan.ts'

const one: Plan = { dp: 1, tp: 1 }

function world(times: readonly number[], inputs: readonly (readonly number[])[] = []): TableWorld {
  const nodes = times.map((takes_s, at) => ({
    ...{ id: `${at}`, inputs: inputs[at] ?? [], work: takes_s, loading_s: 0 },
    times: [
      { plan: one, takes_s },
      { plan: { dp: 2, tp: 1 }, takes_s: takes_s / 2 },
    ],
  }))
  return new TableWorld(nodes, [{ gpus: 2 }])
}

/** The nodes of each stage, one GPU each. */
const stages =
  (...list: readonly (readonly number[])[]): ChooseStage =>
  (_world, _state, at) =>
    new Map((list[at] ?? []).map((node) => [node, one]))

function planned(of: TableWorld, choose: ChooseStage): ApplicationPlan {
  const outcome = completePlan(of, choose)
  if (!outcome.ok) throw new Error(outcome.reason)
  return outcome.plan
}

describe('following a plan', () => {
  // 0 ends at 10, then 2 beside 1, both until 20.
  const plan = planned(world([10, 20, 10.5]), stages([0, 1], [1, 2], [2]))
  const ends = (times: readonly number[]) => planned(world(times), followPlan(plan))

  it('takes what is planned if all goes as planned', () => {
    expect(ends([10, 20, 10.5]).total_s).toBeCloseTo(20.5, 9)
  })

  it('a node ends earlier: the next stage begins then', () => {
    const real = ends([5, 20, 10.5])
    expect(real.stages.map(({ end_s }) => end_s)).toEqual([5, 15.5, 20])
  })

  it('another node ends before the one that was to: its GPU goes to the next stage, and the late one keeps running', () => {
    const real = ends([15, 12, 10.5])
    expect(real.stages.map(({ nodes }) => nodes.map(({ node }) => node))).toEqual([[0, 1], [0, 2], [2]])
    expect(real.stages.map(({ end_s }) => end_s)).toEqual([12, 15, 22.5])
    expect(real.stages[1]?.nodes.map(({ loading_s }) => loading_s)).toEqual([null, 0])
  })

  it('a node of the next stage whose input is late starts beside it, and never before it runs', () => {
    const inputs = [[], [], [0]]
    const chain = planned(world([10, 20, 10.5], inputs), stages([0, 1], [1, 2], [2]))
    const real = planned(world([15, 12, 10.5], inputs), followPlan(chain))
    expect(real.stages.map(({ nodes }) => nodes.map(({ node }) => node))).toEqual([[0, 1], [0, 2], [2]])
    const late = planned(world([30, 12, 10.5], [[], [], [1]]), followPlan(chain))
    expect(late.stages.map(({ nodes }) => nodes.map(({ node }) => node))).toEqual([[0, 1], [0, 2], [0]])
  })

  it('a node that changes its plan in the next stage does so, although it runs', () => {
    const change = planned(
      world([10, 20]),
      (_world, _state, at) =>
        new Map(
          at === 0
            ? [
                [0, one],
                [1, one],
              ]
            : [[1, { dp: 2, tp: 1 }]],
        ),
    )
    const real = planned(world([12, 20]), followPlan(change))
    expect(real.stages.map(({ nodes }) => nodes.at(-1)?.plan.dp)).toEqual([1, 2])
    expect(real.total_s).toBeCloseTo(12 + (20 - 12) / 2, 9)
  })
})
