import { describe, expect, it } from 'vitest'
import { NOTHING_PLACED, type PlacedStage, type Placement, placeStage } from './placement.ts'
import type { Plan } from './plan.ts'

const stage = (...plans: readonly (readonly [node: number, dp: number, tp: number])[]) =>
  new Map(plans.map(([node, dp, tp]): [number, Plan] => [node, { dp, tp }]))
const first = (placed: PlacedStage | null, node: number) => placed?.placement.get(node)?.first_gpus
const cheap = () => 10

describe('placeStage', () => {
  it('puts tp 2 on a pair and tp 4 on two whole pairs, and keeps large blocks whole', () => {
    const placed = placeStage([{ gpus: 8 }], NOTHING_PLACED, stage([0, 1, 1], [1, 1, 2], [2, 1, 4]), cheap)
    expect(first(placed, 2)).toEqual([0])
    expect(first(placed, 1)).toEqual([4])
    expect(first(placed, 0)).toEqual([6])
    expect(placed?.moved.size).toBe(0)
  })

  it('leaves what runs on where it is', () => {
    const before: Placement = new Map([[0, { plan: { dp: 2, tp: 1 }, first_gpus: [5, 6] }]])
    const placed = placeStage([{ gpus: 8 }], before, stage([0, 2, 1], [1, 1, 4]), cheap)
    expect(first(placed, 0)).toEqual([5, 6])
    expect(first(placed, 1)).toEqual([0])
    expect(placed?.moved.size).toBe(0)
  })

  it('moves the nodes that load fastest where free GPUs lie in different pairs', () => {
    const before: Placement = new Map([
      [0, { plan: { dp: 1, tp: 1 }, first_gpus: [0] }],
      [1, { plan: { dp: 1, tp: 1 }, first_gpus: [2] }],
    ])
    const placed = placeStage([{ gpus: 4 }], before, stage([0, 1, 1], [1, 1, 1], [2, 1, 2]), (node) =>
      node === 0 ? 30 : 12,
    )
    expect([...(placed?.moved ?? [])]).toEqual([1])
    expect(first(placed, 2)).toEqual([2])
    expect(first(placed, 0)).toEqual([0])
    expect(first(placed, 1)).toEqual([1])
  })

  it('never splits a replica over hosts, and says when a stage does not fit', () => {
    const hosts = [{ gpus: 2 }, { gpus: 2 }]
    expect(first(placeStage(hosts, NOTHING_PLACED, stage([0, 2, 2]), cheap), 0)).toEqual([0, 2])
    expect(placeStage(hosts, NOTHING_PLACED, stage([0, 1, 4]), cheap)).toBeNull()
    expect(placeStage([{ gpus: 3 }], NOTHING_PLACED, stage([0, 1, 2], [1, 1, 1]), cheap)).not.toBeNull()
    expect(placeStage([{ gpus: 3 }], NOTHING_PLACED, stage([0, 2, 2]), cheap)).toBeNull()
  })
})
