import { expect, test } from 'vitest'
import { StatedPrograms, toldClasses } from './told-classes.ts'

function program(kind: string, output_tokens: number, calls: number) {
  const call = (index: number) => ({
    parents: index > 0 ? [index - 1] : [],
    added_prompt_tokens: 100,
    output_tokens,
    tool_us: 1000,
  })
  return { kind, calls: Array.from({ length: calls }, (_, index) => call(index)) }
}

test('each kind has a table of what its programs need', () => {
  const long = Array.from({ length: 60 }, () => program('long', 900, 2))
  const short = Array.from({ length: 60 }, () => program('short', 40, 3))
  const told = toldClasses(StatedPrograms.parse(JSON.parse(JSON.stringify([...long, ...short]))))
  expect(told.map((one) => [one.tenant, one.class, one.objective])).toEqual([
    ['t', 'long', 'token_latency'],
    ['t', 'short', 'token_latency'],
  ])
  const [of_long, of_short] = told.map(({ table }) => table)
  expect(of_long?.call_tokens).toBeCloseTo(900)
  expect(of_short?.call_tokens).toBeCloseTo(40)
  expect(of_long?.steps[0]?.median_tokens).toBeGreaterThan(1000)
  expect(of_short?.steps[0]?.median_tokens).toBeLessThan(200)
})

test('what is no list of programs is refused', () => {
  expect(StatedPrograms.safeParse([{ kind: 'a', calls: [{ parents: [-1] }] }]).success).toBe(false)
})
