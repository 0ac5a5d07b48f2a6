/** The report as one HTML page: no scripts, no other files, light and dark, from a phone's width up. */
import type { Table } from '../figure.ts'
import { INTRODUCTIONS } from './introduction.ts'
import { GOAL_COLUMNS, heading, NO_LOSS } from './markdown.ts'
import { PAGE_STYLE } from './page-style.ts'
import { seedsText } from './provenance.ts'
import { comparedRow, unfinishedText } from './report.ts'
import type { FigureData, ReportData } from './report-data.ts'

/** `svgOf`: a panel's file as an element of the page. */
export function page(data: ReportData, svgOf: (file: string) => string): string {
  const { provenance, figures, unfinished } = data
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Switchyard: evaluation</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<main>
<h1>Evaluation</h1>
${INTRODUCTIONS[provenance.paper].map((text) => `<p>${escaped(text)}</p>`).join('\n')}
<p class="provenance"><code>${escaped(provenance.command)}</code><br>
${seedsText(provenance)} · ${provenance.date} · ${escaped(provenance.machine)} · code ${provenance.code_version}</p>
${provenance.quick ? '<p class="warning">A quick evaluation: few programs, one seed, no confidence intervals.</p>' : ''}
${unfinished === null ? '' : `<p class="warning">${escaped(unfinishedText(unfinished))}</p>`}
${contents(figures)}
${goalSection(data)}
<h2 id="paper">The paper beside ours</h2>
${comparisonTable(data)}
<h2 id="losses">Where we lose</h2>
${lossList(figures)}
${figures.map((figure) => section(figure, svgOf)).join('\n')}
</main>
</body>
</html>
`
}

function contents(figures: readonly FigureData[]): string {
  const links = figures.map(({ id, title }) => `<a href="#f-${id}">${escaped(heading(id, title))}</a>`)
  return `<nav><a href="#paper">The paper beside ours</a><a href="#losses">Where we lose</a>${links.join('')}</nav>`
}

function goalSection({ goals }: ReportData): string {
  const rows = goals.map(({ figure, goal, target, ours, verdict }) => [
    `<a href="#f-${figure}">${escaped(goal)}</a>`,
    ...[target, ours, verdict].map(escaped),
  ])
  return rows.length === 0 ? '' : `<h2 id="goals">Goals</h2>\n${tableOfCells(GOAL_COLUMNS, rows)}`
}

/** The note stands under the claim, so that a phone shows the figures beside it. */
function comparisonTable({ compared }: ReportData): string {
  const shown = compared.map(({ figure, ours, at_least, note, ...row }) =>
    comparedRow(figure, {
      ...row,
      ours: ours === null ? null : { mean: ours.mean, half_width: ours.half_width_95, samples: ours.seeds },
      ...(at_least === undefined ? {} : { at_least }),
      ...(note === undefined ? {} : { note }),
    }),
  )
  const rows = shown.map(({ figure, claim, note, paper, ours, ratio }) => [
    `<a href="#f-${figure}">${escaped(figure)}</a>`,
    `${escaped(claim)}${note === '' ? '' : `<small>${escaped(note)}</small>`}`,
    ...[paper, ours, ratio].map(escaped),
  ])
  return tableOfCells(['figure', 'claim', 'paper', 'ours', 'ours ÷ paper'], rows)
}

function lossList(figures: readonly FigureData[]): string {
  const losses = figures.flatMap(({ id, losses: own }) => own.map((text) => ({ figure: id, text })))
  if (losses.length === 0) return `<p>${NO_LOSS}</p>`
  const items = losses.map(
    ({ figure, text }) => `<li>${escaped(text)} <a href="#f-${figure}">${escaped(figure)}</a></li>`,
  )
  return `<ul class="losses">${items.join('\n')}</ul>`
}

function section(figure: FigureData, svgOf: (file: string) => string): string {
  const { id, title, paper, setup, command, panels, shows, losses, tables } = figure
  return `<section id="f-${id}">
<h2>${escaped(heading(id, title))}</h2>
${paper === null ? '' : `<p class="paper"><b>The paper.</b> ${escaped(paper)}</p>`}
<p>${escaped(setup)}</p>
<p class="command"><code>${escaped(command)}</code></p>
<div class="panels">
${panels.map(({ alt, file }) => `<figure aria-label="${escaped(alt)}">${svgOf(file)}</figure>`).join('\n')}
</div>
${sentences('What it shows', shows)}
${sentences('Where we lose', losses.length > 0 ? losses : [NO_LOSS])}
${tables.map((table) => `<h3>${escaped(table.title)}</h3>${tableHtml(table)}`).join('\n')}
</section>`
}

function sentences(title: string, items: readonly string[]): string {
  if (items.length === 0) return ''
  return `<h3>${title}</h3><ul>${items.map((item) => `<li>${escaped(item)}</li>`).join('')}</ul>`
}

function tableHtml({ columns, rows }: Table): string {
  return tableOfCells(
    columns,
    rows.map((row) => row.map(escaped)),
  )
}

/** Cells are HTML already. */
function tableOfCells(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const head = columns.map((cell) => `<th scope="col">${escaped(cell)}</th>`).join('')
  const body = rows.map((row) => `<tr>${row.map((cell) => `<td>${cell}</td>`).join('')}</tr>`)
  return `<div class="table"><table><thead><tr>${head}</tr></thead><tbody>${body.join('\n')}</tbody></table></div>`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
