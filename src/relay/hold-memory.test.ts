import { expect, it } from 'vitest'
import { HOLD_REMEMBERED_MS } from '../core/program/program-state.ts'
import { HOLDS_REMEMBERED_MAX, HoldMemory } from './hold-memory.ts'

const held = (regions: string[] | null) => ({ regions, has_budget: false })

it('remembers what an actor said from the question on, and no longer', () => {
  const memory = new HoldMemory()
  memory.remember('t', 'p', held(['eu']), 100)
  expect(memory.recall('t', 'p', 99 + HOLD_REMEMBERED_MS)).toEqual(held(['eu']))
  expect(memory.recall('t', 'p', 100 + HOLD_REMEMBERED_MS)).toBeNull()
  expect(memory.recall('other', 'p', 101)).toBeNull()
  memory.remember('t', 'p', held(null), 200)
  memory.remember('t', 'p', held(['eu']), 150)
  expect(memory.recall('t', 'p', 201)).toEqual(held(null))
})

it('remembers as many programs as its bound, those heard of last', () => {
  const memory = new HoldMemory()
  for (let i = 0; i <= HOLDS_REMEMBERED_MAX; i++) memory.remember('t', `p${i}`, held(null), 0)
  expect(memory.size).toBe(HOLDS_REMEMBERED_MAX)
  expect([memory.recall('t', 'p0', 1), memory.recall('t', 'p1', 1)]).toEqual([null, held(null)])
})
