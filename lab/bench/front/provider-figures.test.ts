import { expect, test } from 'vitest'
import { parseTraceLine } from '../../../simulator/workloads/trace-line.ts'
import { agentPrograms, agentTrace } from './agents.ts'
import { providerFigures, quotaShare } from './provider-figures.ts'

const LIMITS = { requests: 60, tokens: 200_000, per_s: 60 }
const call = (at_s: number, prompt_tokens = 10) => ({ at_s, prompt_tokens, body: { max_tokens: 10 } })

test('all of a quota is used by who takes its first filling at once, and each refill as it comes', () => {
  const calls = [...Array.from({ length: 60 }, () => call(0)), ...Array.from({ length: 240 }, (_, at) => call(at + 1))]
  expect(quotaShare(calls, LIMITS)).toBeCloseTo(1, 2)
  expect(
    quotaShare(
      calls.map((one) => ({ ...one, at_s: one.at_s * 2 })),
      LIMITS,
    ),
  ).toBeLessThan(0.6)
})

test('the limit that is used most counts', () => {
  const calls = Array.from({ length: 100 }, (_, at) => call(at * 2, 6000))
  expect(quotaShare(calls, LIMITS)).toBeGreaterThan(0.68)
})

test('tokens of programs that did not finish are wasted', () => {
  const run = { calls: 2, completion_s: 1, error: null }
  const runs = [
    { ...run, id: 'a', finished: true, tokens: 7 },
    { ...run, id: 'b', finished: false, tokens: 5, error: '429' },
  ]
  expect(providerFigures({ arm: 'x', seed: 1 }, runs, [], LIMITS)).toMatchObject({
    ...{ finished: 1, programs: 2, wasted_tokens: 5, errors: ['429'] },
  })
})

test('equal seeds draw equal agents, most of them short', () => {
  const programs = agentPrograms(3, 60)
  expect(agentPrograms(3, 60)).toEqual(programs)
  expect(programs.filter(({ app }) => app === 'lookup')).toHaveLength(36)
})

test('the agents are a trace that the simulator reads', () => {
  const lines = agentTrace(agentPrograms(1, 10)).trimEnd().split('\n')
  const programs = lines.map((line) => {
    const parsed = parseTraceLine(line)
    return parsed.ok ? parsed.program : expect.fail(`${parsed.field} ${parsed.reason}`)
  })
  expect(programs).toHaveLength(10)
  for (const { calls } of programs) {
    for (const [index, call] of calls.entries()) {
      if (index > 0) expect(call.prompt_tokens).toBeGreaterThan(calls[index - 1]?.prompt_tokens ?? 0)
    }
  }
})
