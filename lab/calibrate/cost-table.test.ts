import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { simpleCosts } from '../../gpu-agent/planner/testing/costs.ts'
import { readTable, withRow, writeTable } from './cost-table.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'costs-'))
afterAll(() => rmSync(folder, { recursive: true }))

const row = (model: string, tp: number, loading_s: number) => ({
  ...simpleCosts({ base_us: 1, per_sequence_us: 1, per_token_us: 1, per_prompt_token_us: 1 }),
  ...{ model, tp, loading_s },
})

test('a row takes the place of the one of the same model and GPUs, and the others stay', () => {
  const file = path.join(folder, 'costs.json')
  expect(readTable(file)).toEqual([])
  writeTable(file, [row('a', 1, 3)])
  writeTable(file, withRow(readTable(file), row('a', 2, 4)))
  writeTable(file, withRow(readTable(file), row('a', 1, 5)))
  expect(readTable(file).map(({ model, tp, loading_s }) => [model, tp, loading_s])).toEqual([
    ['a', 1, 5],
    ['a', 2, 4],
  ])
})

test('a file that is no table is not written over', () => {
  const file = path.join(folder, 'other.json')
  writeFileSync(file, '{"name":"x"}')
  expect(() => readTable(file)).toThrow(/is no table of costs/)
  writeFileSync(file, '{')
  expect(() => readTable(file)).toThrow(/is not JSON/)
})
