/** Read from outcomes that are made up. */
import { expect, test } from 'vitest'
import type { RunOutcome } from '../runs/run-outcome.ts'
import { readTrees, type TreeCell } from './learned-trees.ts'

const outcome = (means: Readonly<Record<string, number>>) =>
  ({
    by_workload: Object.fromEntries(
      Object.entries(means).map(([kind, mean]) => [kind, { token_latency_ms: { mean } }]),
    ),
  }) as unknown as RunOutcome

function cell(workload: string, warm_ms: number, cold_ms: number): TreeCell {
  const of = (lats: number) => [outcome({ lats, sharegpt: 500 })]
  return { name: `${workload}, load 1.5`, workload, warm: of(warm_ms), cold: of(cold_ms), clairvoyant: of(20) }
}

test('trees are compared with trees, also beside other programs', () => {
  const read = readTrees([cell('mixed', 22, 26), cell('sharegpt', 90, 90)])
  expect(read?.table.rows).toEqual([['mixed, load 1.5', 'lats', '20', '1.1', '1.3']])
  expect(read?.goal).toMatchObject({ met: true, ours: 'no miss in 1 cells' })
})

test('a cell beyond a tenth misses, and is named', () => {
  const read = readTrees([cell('lats', 20, 20), cell('mixed', 22.2, 20)])
  expect(read?.goal).toMatchObject({ met: false, ours: '1 of 2 cells miss: mixed, load 1.5 (11 % above)' })
})

test('without trees there is nothing to say', () => {
  expect(readTrees([cell('sharegpt', 90, 90)])).toBeNull()
})
