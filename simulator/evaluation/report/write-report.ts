/** Writes a report: evaluation.md, evaluation.json and one SVG for each panel; or writes it anew from its data. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { labelled, standalone, withDashedSwatches } from '../plots/chart.ts'
import type { Runs } from '../runs/run-chains.ts'
import { evaluationJson } from './data.ts'
import { markdown, panelFile } from './markdown.ts'
import type { Report } from './report.ts'
import { ReportData } from './report-data.ts'

export function writeReport(report: Report, runs: Runs, folder: string): { files: number } {
  mkdirSync(folder, { recursive: true })
  const json = evaluationJson(report, runs)
  const files = new Map([
    ['evaluation.md', markdownOf(ReportData.parse(JSON.parse(json)))],
    ['evaluation.json', json],
  ])
  for (const { figure, panels } of report.figures) {
    for (const { name, svg, alt } of panels) files.set(panelFile(figure.id, name), labelled(standalone(svg), alt))
  }
  for (const [name, text] of files) writeFileSync(path.join(folder, name), text)
  return { files: files.size }
}

/** `folder`: where `data` and its figures lie. What was measured stays as it is; how it is said and labelled is made anew. */
export function renderReport(data: ReportData, folder: string): { files: number } {
  writeFileSync(path.join(folder, 'evaluation.md'), markdownOf(data))
  const panels = data.figures.flatMap((figure) => figure.panels)
  for (const { file, alt } of panels) {
    const panel = path.join(folder, file)
    writeFileSync(panel, labelled(withDashedSwatches(readFileSync(panel, 'utf8')), alt))
  }
  return { files: panels.length + 1 }
}

function markdownOf(data: ReportData): string {
  return `${markdown(data).trimEnd()}\n`
}
