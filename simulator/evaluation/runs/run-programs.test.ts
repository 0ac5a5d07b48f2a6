/** Who presents which programs how. */
import { expect, test } from 'vitest'
import type { WorkloadProgram } from '../../workloads/index.ts'
import { historyOf, programsOf } from './run-programs.ts'
import { type RunChange, runSpec } from './run-spec.ts'

const spec = (change: RunChange) =>
  runSpec({ ...{ workload: 'toolbench', programs: 40, seed: 3, rate: 1, system: 'learned' }, ...change })
const MORE = { workload: 'sharegpt', programs: 20, order: 'among' } as const

const workloads = (programs: readonly WorkloadProgram[]) => programs.map(({ workload }) => workload)
const labels = (programs: readonly WorkloadProgram[]) => programs.map(({ client }) => client?.label)

test('a second workload comes after the first or among it, with the same programs', () => {
  const after = programsOf(spec({ more: { ...MORE, order: 'after' } }))
  expect(workloads(after)).toEqual([...Array(40).fill('toolbench'), ...Array(20).fill('sharegpt')])
  const among = programsOf(spec({ more: MORE }))
  expect(among.map(({ id }) => id).toSorted()).toEqual(after.map(({ id }) => id).toSorted())
  expect(new Set(workloads(among.slice(0, 12)))).toEqual(new Set(['toolbench', 'sharegpt']))
})

test('what ended before is in the proportion of the run, of other programs', () => {
  const change = { more: MORE, history: 10 }
  const history = historyOf(spec(change))
  expect(workloads(history).toSorted()).toEqual([...Array(5).fill('sharegpt'), ...Array(10).fill('toolbench')])
  expect(historyOf(spec({ ...change, more: { ...MORE, order: 'after' } }))).toHaveLength(20)
  expect(JSON.stringify(history)).not.toContain(programsOf(spec(change))[0]?.id ?? '')
  expect(new Set(workloads(historyOf(spec({ ...change, history_of: ['sharegpt'] }))))).toEqual(new Set(['sharegpt']))
  expect(historyOf(spec({ more: MORE }))).toEqual([])
})

test('the first rule for a program counts', () => {
  const programs = programsOf(
    spec({
      clients: [{ share: { of: 4, take: 1 }, client: { label: 'one' } }, { client: { label: 'other' } }],
    }),
  )
  expect(labels(programs).slice(0, 8)).toEqual(['one', 'other', 'other', 'other', 'one', 'other', 'other', 'other'])
})

test('a rule of one workload leaves the others alone; one for the run leaves what was before alone', () => {
  const change = { more: MORE, history: 5 }
  const clients = [{ workload: 'sharegpt', client: { label: 'short' } }] as const
  const labelled = (programs: readonly WorkloadProgram[]) =>
    new Set(programs.filter(({ client }) => client?.label === 'short').map(({ workload }) => workload))
  expect(labelled(programsOf(spec({ ...change, clients })))).toEqual(new Set(['sharegpt']))
  expect(labelled(historyOf(spec({ ...change, clients })))).toEqual(new Set(['sharegpt']))
  const in_run = clients.map((rule) => ({ ...rule, in_run: true as const }))
  expect(labelled(programsOf(spec({ ...change, clients: in_run })))).toEqual(new Set(['sharegpt']))
  expect(labelled(historyOf(spec({ ...change, clients: in_run })))).toEqual(new Set())
})

test('a fresh label is one for each program', () => {
  expect(new Set(labels(programsOf(spec({ clients: [{ client: { fresh: true } }] })))).size).toBe(40)
})
