/** Read from outcomes that are made up: what is missed is said, with the row that misses it. */
import { expect, test } from 'vitest'
import type { Scope } from '../figure.ts'
import { MissingRun, Runs } from '../runs/run-chains.ts'
import type { RunOutcome } from '../runs/run-outcome.ts'
import type { RunSpec } from '../runs/run-spec.ts'
import { LEARNED_KNOWLEDGE } from './learned-knowledge.ts'

const SCOPE: Scope = { seeds: [1], quick: true }

interface MadeUp {
  mean?: number
  p99?: number
  long?: number
  honest_tenant?: number
}

const MEANS: Partial<Record<RunSpec['system'], number>> = { wsrpt: 50, learned: 60 }

function read(given: (spec: RunSpec) => MadeUp) {
  return LEARNED_KNOWLEDGE.read(madeUp(given), SCOPE)
}

function madeUp(given: (spec: RunSpec) => MadeUp): Runs {
  const runs = new Runs()
  for (const spec of LEARNED_KNOWLEDGE.chains(SCOPE).flatMap(({ steps }) => steps.flat())) {
    const { mean = MEANS[spec.system] ?? 100, p99 = 200, long = 100, honest_tenant = 100 } = given(spec)
    const group = (value: number) => ({ token_latency_ms: { mean: value } })
    const each = Array.from({ length: 60 }, (_, at) => ({ arrived_s: at, response_s: 1, token_latency_ms: mean }))
    runs.add(spec, {
      ...{ token_latency_ms: { mean, p99 }, each_program: each.map((one) => ({ ...one, workload: 'w' })) },
      ...{ by_workload: { toolbench: group(100), sharegpt: group(long) }, by_tenant: { honest: group(honest_tenant) } },
    } as unknown as RunOutcome)
  }
  return runs
}

const missing = ({ clients = [] }: RunSpec) => clients.some(({ client }) => client.label === null)
const lies = ({ clients = [] }: RunSpec) => clients.some(({ client }) => client.fresh)

test('a run that closes enough of the gap everywhere misses nothing', () => {
  const { losses, tables } = read(() => ({}))
  expect(losses).toEqual([])
  const row = tables?.[0]?.rows.find(([load, knows]) => load === 'bfcl, load 2' && knows === 'as labelled, warm')
  expect(row).toEqual(['bfcl, load 2', 'as labelled, warm', 'vLLM-opt', '100', '0.5', '0.6', '80 %', '1'])
})

test('a row that closes little of the gap is named, and one that is worse than another order is besides', () => {
  const { losses } = read((spec) => (missing(spec) ? { mean: 90 } : {}))
  expect(losses).toEqual([
    expect.stringMatching(
      /gap.*: 1 of \d+ rows miss: toolbench and sharegpt, load 2, no labels, all of one class, warm \(20 %\)/,
    ),
  ])
  expect(read((spec) => (missing(spec) ? { mean: 110 } : {})).losses).toEqual([
    expect.stringContaining('no labels, all of one class, warm (-20 %)'),
    expect.stringContaining('no labels, all of one class, warm (1.1×)'),
  ])
})

test('without a gap there is nothing to close', () => {
  const { goals } = read((spec) => (spec.system === 'wsrpt' ? { mean: 90 } : {}))
  expect(goals?.[0]).toMatchObject({ met: null })
})

test('a liar that gains is told, and so is a tenant that is harmed', () => {
  const { losses } = read((spec) => (lies(spec) && spec.system === 'learned' ? { long: 80, honest_tenant: 120 } : {}))
  expect(losses).toEqual([
    expect.stringContaining('an honest tenant beside a lying one: 1.2× (a label of its own for each program)'),
    expect.stringContaining('what a liar has ÷ what it has under PLAS: 0.8× (a label of its own for each program)'),
  ])
})

test('a tail beyond that of vLLM-opt is told', () => {
  const { losses } = read(({ system }) => (system === 'learned' ? { p99: 400 } : {}))
  expect(losses.filter((text) => text.includes('p99'))).toHaveLength(2)
})

test('what an unfinished evaluation has not come to is left out, and the rest is read', () => {
  const runs = new Runs()
  for (const { spec, outcome } of madeUp(() => ({})).all()) if (spec.system === 'learned') runs.add(spec, outcome)
  const { tables, panels, goals } = LEARNED_KNOWLEDGE.read(runs, SCOPE)
  expect(tables?.map(({ title }) => title)).toEqual([expect.stringContaining('by how many programs had ended')])
  expect(panels.map(({ name }) => name)).toEqual(['recovery'])
  expect(goals?.some(({ goal }) => goal.includes('liar'))).toBe(false)
  expect(() => LEARNED_KNOWLEDGE.read(new Runs(), SCOPE)).toThrow(MissingRun)
})
