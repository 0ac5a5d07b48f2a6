import { expect, test } from 'vitest'
import { FAULTS, makeSchedule } from './schedule.ts'

const PLACE = {
  regions: ['r', 's'],
  agents: ['r-1', 'r-2', 's-1', 's-2'].map((id) => ({ id, region: id.slice(0, 1) })),
  small_disks: true,
  workers: 2,
}

test('a seed is one plan, and another seed is another', () => {
  expect(makeSchedule(7, 120_000, PLACE)).toEqual(makeSchedule(7, 120_000, PLACE))
  expect(makeSchedule(7, 120_000, PLACE)).not.toEqual(makeSchedule(8, 120_000, PLACE))
})

test('faults are in order, healed before the end, and of many kinds', () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const plan = makeSchedule(seed, 120_000, PLACE)
    expect(plan.length).toBeGreaterThan(20)
    expect(new Set(plan.map(({ fault }) => fault)).size).toBeGreaterThan(8)
    expect(plan.map(({ at_ms }) => at_ms)).toEqual(plan.map(({ at_ms }) => at_ms).sort((a, b) => a - b))
    for (const { at_ms, for_ms } of plan) expect(at_ms + for_ms).toBeLessThan(120_000)
  }
})

test('an hour has every fault, and none fills a disk where that cannot be done', () => {
  const kinds = (small_disks: boolean, workers = 2): string[] => {
    const plan = makeSchedule(7, 3_600_000, { ...PLACE, small_disks, workers })
    return FAULTS.filter((fault) => !plan.some((planned) => planned.fault === fault))
  }
  expect(kinds(true)).toEqual([])
  expect(kinds(false)).toEqual(['disk_full', 'agent_disk_full', 'd1_full'])
  expect(kinds(true, 1)).toEqual(['kill_process'])
})

test('an agent is struck by one fault at a time', () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const plan = makeSchedule(seed, 120_000, PLACE)
    const strikes = ({ target }: { target: string }) =>
      PLACE.agents.filter(({ id, region }) => id === target || region === target).map(({ id }) => id)
    for (const [index, one] of plan.entries()) {
      for (const other of plan.slice(index + 1)) {
        if (one.for_ms === 0 || other.for_ms === 0) continue
        if (other.at_ms >= one.at_ms + one.for_ms) continue
        expect(strikes(one).filter((id) => strikes(other).includes(id))).toEqual([])
      }
    }
  }
})
