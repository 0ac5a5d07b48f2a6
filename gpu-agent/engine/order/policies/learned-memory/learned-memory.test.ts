import { describe, expect, it } from 'vitest'
import type { CallForecast } from '../../../../../src/core/call/forecast.ts'
import { ClassSketch } from '../../../../../src/core/classes/class-sketch.ts'
import { type IndexTable, indexTable } from '../../../../../src/core/classes/index-table.ts'
import { policyCall } from '../../../testing/policy-calls.ts'
import { policyContract } from '../../policy.contract.ts'
import { type ClassTables, REFERENCE_MEMORY } from '../../policy.ts'
import { LAMPS, Lamps } from '../lamps/lamps.ts'
import { LearnedMemory } from './learned-memory.ts'

const TABLES: Record<string, IndexTable> = { short: classOf(100), long: classOf(2_000) }
const CLASSES: ClassTables = { tableOf: (_, program_class) => TABLES[program_class] ?? null }

const create = (classes: ClassTables | null = CLASSES) => new LearnedMemory(LAMPS, REFERENCE_MEMORY, classes)

/** Programs of this class end with so much output, in two calls. */
function classOf(output_tokens: number): IndexTable {
  const sketch = new ClassSketch()
  for (let ended = 0; ended < 400; ended++) {
    sketch.add({ output_tokens, calls: 2, path_us: 0, service_us: 0, tool_us: 0, later_prompt_tokens: 0, turns: [] })
  }
  return indexTable(sketch, 'response')
}

function forecast(tool_us: number | null): CallForecast {
  const times = tool_us === null ? null : { duration_us: tool_us, duration_p90_us: tool_us, answer_tokens: 0 }
  const tool = times === null ? null : { name: 'tool', probability: 1, ...times }
  return { output_tokens: 50, ends: tool === null ? 1 : 0, tool, confidence: 1 }
}

policyContract('learned-memory', () => create())
policyContract('learned-memory, of classes that are not known', () => create(null))

describe('learned-memory', () => {
  const rankOf = (program_class: string, given: Parameters<typeof policyCall>[0] = {}, policy: Lamps = create()) =>
    policy.arrive(
      policyCall({
        ...{ class: program_class, prompt_tokens: 1_000, resident_tokens: 1_000, forecast: forecast(1e6) },
        ...given,
      }),
      0,
    ).rank

  it('runs equal calls in the order of what their programs have left', () => {
    expect(rankOf('short')).toBeLessThan(rankOf('long'))
    const lamps = () => new Lamps(LAMPS, REFERENCE_MEMORY)
    expect(rankOf('short', {}, lamps())).toBe(rankOf('long', {}, lamps()))
  })

  it('runs a large context before a small one if its program has far less left, and otherwise after it', () => {
    const large = { prompt_tokens: 2_000, resident_tokens: 2_000 }
    expect(rankOf('short', large)).toBeLessThan(rankOf('long'))
    expect(rankOf('long', large)).toBeGreaterThan(rankOf('long'))
  })

  it('counts less for a program that has had more of its output', () => {
    expect(rankOf('long', { program_output_tokens: 1_800 })).toBeLessThan(rankOf('long'))
  })

  it('counts nothing after a call that is expected to be the last', () => {
    const last = { forecast: forecast(null) }
    expect(rankOf('long', last)).toBe(rankOf('short', last))
    expect(rankOf('long', last)).toBe(rankOf('long', last, new Lamps(LAMPS, REFERENCE_MEMORY)))
  })
})
