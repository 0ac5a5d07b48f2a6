import { expect, it } from 'vitest'
import { groups } from '../../gpu-agent/src/fronts/local/emulated-text-model.ts'
import { parseTraceLine } from '../../simulator/workloads/trace-line.ts'
import { promptTexts } from './prompt-texts.ts'
import { drawTrace, TRACES, traceLine, withoutAnswers } from './traces.ts'
import { ERROR_SHARE_MAX, failuresOf, type PlayedFleet } from './verdict.ts'

it.each(TRACES)('$name: prompts have the tokens that the trace says, and repeat what it says', (spec) => {
  let repeated = 0
  for (const drawn of drawTrace(spec).map(withoutAnswers)) {
    const line = parseTraceLine(traceLine(drawn))
    if (!line.ok) throw new Error(`${line.field}: ${line.reason}`)
    const { program } = line
    const tokens = promptTexts(program).map(groups)
    for (const [index, call] of program.calls.entries()) {
      const own = tokens[index] as number[]
      expect(own).toHaveLength(call.prompt_tokens)
      const before = call.prefix_of == null ? [] : (tokens[call.prefix_of] as number[])
      const shared = call.shared_prefix_tokens
      expect(own.slice(0, shared)).toEqual(before.slice(0, shared))
      if (before.length > shared) expect(own[shared]).not.toBe(before[shared])
      repeated += shared
    }
  }
  expect(repeated).toBeGreaterThan(0)
})

it('refuses a prompt that repeats an answer', () => {
  const call = { thread: 0, tool: null, tool_seconds: null, output_tokens: 10 }
  const calls = [
    { ...call, parents: [], prompt_tokens: 20, shared_prefix_tokens: 0, prefix_of: null },
    { ...call, parents: [0], prompt_tokens: 40, shared_prefix_tokens: 30, prefix_of: 0 },
  ]
  const program = { id: 'p', workload: 'w', calls }
  expect(() => promptTexts(program)).toThrow('repeats an answer')
  expect(promptTexts(withoutAnswers(program))).toHaveLength(2)
})

it('says what of a plan did not hold', () => {
  const held: PlayedFleet = {
    ...{ trace: 't', engines: 3, fleet: 'named', target_ms: 100, predicted_p95_ms: 90, achieved_p95_ms: 95 },
    ...{ programs: 1, calls: 1, makespan_s: 1, cached_prompt_share: 0, retries: 0, load: 0 },
  }
  const fewer: PlayedFleet = { ...held, engines: 2, fleet: 'fewer', predicted_p95_ms: 200, achieved_p95_ms: 400 }
  // The size that the plan rules out may be worse than foreseen.
  expect(failuresOf([held, fewer])).toEqual([])
  expect(failuresOf([{ ...held, achieved_p95_ms: 101 }])).toEqual([expect.stringContaining('miss 100')])
  expect(failuresOf([{ ...fewer, achieved_p95_ms: 99 }])).toEqual([expect.stringContaining('meet 100')])
  const off = (share: number) => failuresOf([{ ...held, predicted_p95_ms: 95 * (1 + share) }])
  expect(off(ERROR_SHARE_MAX - 0.001)).toEqual([])
  expect(off(-ERROR_SHARE_MAX - 0.001)).toEqual([expect.stringContaining('off by -15.1 %')])
})
