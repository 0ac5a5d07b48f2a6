import { expect, test } from 'vitest'
import { mean } from '../statistics.ts'
import { drawWorkload, type WorkloadName } from './draw.ts'

const programsOf = (name: WorkloadName) => drawWorkload(name, 400, 1).map(({ calls }) => calls)
const outputs = (name: WorkloadName) =>
  programsOf(name).map((calls) => calls.reduce((sum, { output_tokens }) => sum + output_tokens, 0))
const share = <T>(of: readonly T[], holds: (one: T) => boolean) => of.filter(holds).length / of.length

test('equal chains are equal', () => {
  expect(new Set(outputs('equal-chains'))).toEqual(new Set([1200]))
  expect(new Set(programsOf('equal-chains').map((calls) => JSON.stringify(calls))).size).toBe(1)
})

test('parallel waves wait for the wave before, and share its first call’s text', () => {
  for (const calls of programsOf('parallel-waves')) {
    const waves = Map.groupBy(calls, ({ parents }) => (parents.length === 0 ? -1 : (parents[0] as number)))
    expect(waves.size).toBeGreaterThanOrEqual(2)
    expect(waves.size).toBeLessThanOrEqual(5)
    for (const wave of [...waves.values()].slice(1)) {
      expect(wave.length).toBeGreaterThanOrEqual(2)
      expect(wave.every(({ shared_prefix_tokens }) => shared_prefix_tokens === wave[0]?.shared_prefix_tokens)).toBe(
        true,
      )
    }
  }
})

test('long contexts begin long', () => {
  const first = programsOf('long-contexts').map(([call]) => call?.prompt_tokens ?? 0)
  expect(mean(first)).toBeGreaterThan(10_000)
})

test('one in ten of questions and agents is an agent, and agents have nearly all output', () => {
  const of = outputs('questions-and-agents')
  const agents = of.filter((tokens) => tokens > 1000)
  expect(agents.length / of.length).toBeCloseTo(0.1, 1)
  expect(agents.reduce((a, b) => a + b, 0) / of.reduce((a, b) => a + b, 0)).toBeGreaterThan(0.9)
})

test('half of the heavy tails have one or two calls, and a few have dozens', () => {
  const calls = programsOf('heavy-tails').map(({ length }) => length)
  expect(share(calls, (n) => n <= 3)).toBeGreaterThan(0.5)
  expect(share(calls, (n) => n >= 20)).toBeGreaterThan(0.01)
  expect(Math.max(...calls)).toBeLessThanOrEqual(51)
})
