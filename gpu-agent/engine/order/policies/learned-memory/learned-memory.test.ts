import { describe, expect, it } from 'vitest'
import { DEFAULT_SERVICE_RATES } from '../../../../../src/core/call/service.ts'
import { ClassSketch } from '../../../../../src/core/classes/class-sketch.ts'
import { type IndexTable, indexTable, RANKS_PER_OCTAVE } from '../../../../../src/core/classes/index-table.ts'
import { policyCall } from '../../../testing/policy-calls.ts'
import { policyContract } from '../../policy.contract.ts'
import type { ClassTables } from '../../policy.ts'
import { LEARNED_MEMORY, LearnedMemory } from './learned-memory.ts'

const create = (classes: ClassTables | null = null) =>
  new LearnedMemory(LEARNED_MEMORY.modelled, DEFAULT_SERVICE_RATES, classes)

/** Programs of this class end with so much output. */
function classOf(output_tokens: number): IndexTable {
  const sketch = new ClassSketch()
  for (let ended = 0; ended < 400; ended++) {
    sketch.add({ output_tokens, calls: 2, path_us: 0, service_us: 0, tool_us: 0, later_prompt_tokens: 0 })
  }
  return indexTable(sketch, 'response')
}

policyContract('learned-memory', () => create())

describe('learned-memory', () => {
  it('ranks a program with twice the context an octave behind one with the same work left', () => {
    const policy = create()
    const ranks = [1_000, 2_000, 4_000].map(
      (tokens) => policy.arrive(policyCall({ prompt_tokens: tokens, resident_tokens: tokens }), 0).rank,
    )
    const [short, middle, long] = ranks as [number, number, number]
    expect(middle - short).toBe(RANKS_PER_OCTAVE)
    expect(long - middle).toBe(RANKS_PER_OCTAVE)
  })

  it('runs a large context before a small one if its program has far less left', () => {
    const short = classOf(20)
    const long = classOf(2_000)
    const policy = create({ tableOf: (_, program_class) => (program_class === 'short' ? short : long) })
    const rankOf = (name: string, tokens: number) =>
      policy.arrive(policyCall({ class: name, prompt_tokens: tokens, resident_tokens: tokens }), 0).rank
    expect(rankOf('short', 3_000)).toBeLessThan(rankOf('long', 1_000))
    expect(rankOf('short', 3_000)).toBeGreaterThan(rankOf('short', 1_000))
  })
})
