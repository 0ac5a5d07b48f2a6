/**
 * Cells with inputs as the data at hand have them, beside the same cells with the marginals that the paper publishes. The data differ from the paper's:
 * prompts of 36 tokens in the mean against 21 (ensembling) and 59 against 310 (routing), documents of 75 chunks in the median against 3.
 */
import type { Drawing } from '../../planner/paper/applications.ts'
import type { Table } from '../figure.ts'
import { withInterval } from '../statistics/words.ts'
import { CELLS, type Cell } from './cells.ts'
import { playCell } from './play-cell.ts'
import { type CellRuns, endToEnd, over, ratio } from './summaries.ts'

/** The first cell of each of the paper's three applications. */
export const RAW_CELLS: readonly Cell[] = (['ensembling', 'routing', 'chain summary'] as const).flatMap(
  (kind) => CELLS.find((cell) => cell.kind === kind) ?? [],
)

/** `published`: what was played of the same cells with the paper's marginals. */
export function rawTable(cells: readonly Cell[], published: readonly CellRuns[], seeds: readonly number[]): Table {
  const columns = ['cell', 'inputs', 'ours s', 'greedy', 'Max', 'Min']
  const rows = cells.flatMap((cell) => {
    const raw: CellRuns = { cell, seeds: seeds.map((seed) => playCell(rawly(cell), seed)) }
    const runs = published.find((one) => one.cell === cell)
    return [...(runs === undefined ? [] : [rowOf('as published', runs)]), rowOf('raw', raw)]
  })
  return { title: 'Raw inputs beside those with the published marginals', columns, rows }
}

function rawly(cell: Cell): Cell {
  return { ...cell, application: (drawing: Drawing) => cell.application({ ...drawing, raw: true }) }
}

function rowOf(inputs: string, runs: CellRuns): string[] {
  const ours = over(runs, (by) => {
    const played = by('ours')
    return played === undefined ? undefined : endToEnd(played)
  })
  const others = (['greedy', 'max', 'min'] as const).map((name) => ratio(runs, name))
  const name = `${runs.cell.kind}, ${runs.cell.name}`
  return [name, inputs, ...[ours, ...others].map((value) => (value === null ? '–' : withInterval(value)))]
}
