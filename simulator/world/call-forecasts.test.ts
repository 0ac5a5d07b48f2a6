import { describe, expect, it } from 'vitest'
import { forecastCall, type KnownTools } from '../../src/core/tools/forecast.ts'
import type { WorkloadProgram } from '../workloads/program.ts'
import { forecastOf } from './call-forecasts.ts'
import { ClassKnowledge } from './class-knowledge.ts'

const call = { thread: 0, tool: null, tool_seconds: null, shared_prefix_tokens: 0 }
const PROGRAM: WorkloadProgram = {
  id: 'p',
  workload: 'w',
  calls: [
    { ...call, parents: [], prompt_tokens: 100, output_tokens: 20, tool: 'search', tool_seconds: 2 },
    { ...call, parents: [0], prompt_tokens: 150, shared_prefix_tokens: 120, output_tokens: 50, prefix_of: 0 },
  ],
}
const RUN = { program: PROGRAM, name: 'a' }
const nothing = (): KnownTools => ({ of_class: null, of_tenant: () => null })

describe('the oracle', () => {
  it('tells the output, the tool with its time, and where the program ends', () => {
    const source = { kind: 'oracle', error: 0 } as const
    expect(forecastOf(source, RUN, 0, nothing)).toMatchObject({
      ...{ output_tokens: 20, ends: 0, confidence: 1 },
      tool: { name: 'search', probability: 1, duration_us: 2_000_000, answer_tokens: 30 },
    })
    expect(forecastOf(source, RUN, 1, nothing)).toEqual({ output_tokens: 50, ends: 1, tool: null, confidence: 1 })
  })

  it('errs by so much as it is told, the same way each time, and never below 0', () => {
    const source = { kind: 'oracle', error: 0.3 } as const
    const told = Array.from({ length: 2_000 }, (_, at) => forecastOf(source, { ...RUN, name: `${at}` }, 0, nothing))
    const outputs = told.map((forecast) => forecast?.output_tokens ?? -1)
    const mean = outputs.reduce((sum, one) => sum + one, 0) / outputs.length
    const deviation = Math.sqrt(outputs.reduce((sum, one) => sum + (one - mean) ** 2, 0) / outputs.length)
    expect(Math.abs(mean - 20)).toBeLessThan(1)
    expect(Math.abs(deviation - 6)).toBeLessThan(0.5)
    expect(Math.min(...outputs)).toBeGreaterThanOrEqual(0)
    expect(forecastOf(source, RUN, 0, nothing)).toEqual(forecastOf(source, RUN, 0, nothing))
  })
})

describe('what is learned', () => {
  it('is nothing before a program has ended, and then what the code that serves says', () => {
    expect(forecastOf({ kind: 'learned' }, RUN, 0, nothing)).toBeNull()
    const known = new ClassKnowledge(null, true)
    for (let ended = 0; ended < 40; ended++)
      known.ended('tenant', 'class', `${ended}`, { ...PROGRAM, id: `${ended}` }, 0)
    const tools = known.toolsOf('tenant', 'class')
    const forecast = forecastOf({ kind: 'learned' }, RUN, 0, () => tools)
    expect(forecast).toEqual(forecastCall({ position: 0, last: null, offered: null, expect_tool_us: null }, tools))
    expect(forecast?.tool?.name).toBe('search')
    expect(forecast?.tool?.duration_us).toBeGreaterThan(1_800_000)
    expect(forecastOf({ kind: 'none' }, RUN, 0, () => tools)).toBeNull()
  })
})
