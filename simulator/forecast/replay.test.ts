import { describe, expect, it } from 'vitest'
import type { WorkloadCall, WorkloadProgram } from '../workloads/program.ts'
import { programTurns } from '../workloads/program-turns.ts'
import { replay } from './replay.ts'
import { scoreOf, scoresOf } from './score.ts'

function call(of: Partial<WorkloadCall>): WorkloadCall {
  const plain = { thread: 0, parents: [], prompt_tokens: 100, shared_prefix_tokens: 0, output_tokens: 20 }
  return { ...plain, tool: null, tool_seconds: null, ...of }
}

/** One tool of so many seconds, which returns 30 tokens, then an answer. */
function program(id: number, tool: string, seconds: number): WorkloadProgram {
  const calls = [
    call({ tool, tool_seconds: seconds, output_tokens: 20 }),
    call({ parents: [0], prompt_tokens: 150, shared_prefix_tokens: 120, output_tokens: 90 }),
  ]
  return { id: `${tool}-${id}`, workload: 'test', app: tool, calls }
}

const many = Array.from({ length: 60 }, (_, at) => [program(at, 'search', 2), program(at, 'deploy', 40)]).flat()

describe('the turns of a program', () => {
  it('are what its calls would have shown: tools with time and answer, and where its chain ends', () => {
    expect(programTurns(program(0, 'search', 2))).toEqual([
      {
        ...{ position: 0, last: null, output_tokens: 20 },
        tools: [{ name: 'search', duration_us: 2_000_000, answer_tokens: 30 }],
      },
      { position: 1, last: 'search', output_tokens: 90, tools: [] },
    ])
  })

  it('have no time where the trace has none, and a fork goes on from nothing', () => {
    const calls = [call({ tool: 'search' }), call({ parents: [0], thread: 1 })]
    const turns = programTurns({ id: 'x', workload: 'test', calls })
    expect(turns.map(({ last, tools }) => [last, tools])).toEqual([
      [null, [{ name: 'search', duration_us: null, answer_tokens: null }]],
      [null, []],
    ])
  })
})

describe('a replay', () => {
  it('foresees what programs of a class always do, once it has seen some', () => {
    const late = replay(many, ({ app }) => app ?? '').slice(-40)
    const [deploy, search, all] = scoresOf(late)
    expect([deploy?.class, search?.class, all?.class]).toEqual(['deploy', 'search', 'all'])
    expect(all).toMatchObject({ calls: 40, forecast_share: 1, top1_share: 1, unsure_share: 0 })
    expect(all?.output_mae_tokens).toBeCloseTo(0)
    expect(all?.log_loss).toBeLessThan(0.05)
    expect(all?.tool_ratio_p90).toBeCloseTo(1, 2)
    expect(all?.answer_error_p50_tokens).toBeCloseTo(0)
  })

  it('knows nothing before the first program has ended', () => {
    const first = scoreOf(
      'first',
      replay(many.slice(0, 1), () => 'x'),
    )
    expect(first).toMatchObject({ calls: 2, forecast_share: 0, tool_ratio_p50: null })
  })

  it('of one class for all is sure of the time only once the tool is named', () => {
    const mixed = scoreOf('mixed', replay(many, () => 'x').slice(-40))
    expect(mixed.tool_ratio_p90).toBeGreaterThan(5)
    expect(mixed.named_ratio_p90).toBeCloseTo(1, 1)
    expect(mixed.top1_share).toBeLessThan(0.8)
  })
})
