/** The report as one HTML page: no scripts, no other files, light and dark, from a phone's width up. */
import type { Table } from '../figure.ts'
import { type Headline, headline } from './headline.ts'
import { INTRODUCTIONS } from './introduction.ts'
import { GOAL_COLUMNS, heading, NO_LOSS } from './markdown.ts'
import { PAGE_STYLE } from './page-style.ts'
import { seedsText } from './provenance.ts'
import { comparedRows, unfinishedText } from './report.ts'
import type { FigureData, ReportData } from './report-data.ts'
import { tidied } from './tidy.ts'

/** Another report's page. `href` null: the page itself. */
export interface ReportLink {
  name: string
  href: string | null
}

/** `svgOf`: a panel's file as an element of the page. `reports`: pages of reports, in the order in which they are linked. */
export function page(given: ReportData, svgOf: (file: string) => string, reports: readonly ReportLink[] = []): string {
  const data = tidied(given)
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
${contents(data)}
<main>
<section id="headline">
<h1>Evaluation</h1>
${reportLinks(reports)}
${provenance.quick ? '<p class="warning">A quick evaluation: few programs, one seed, no confidence intervals.</p>' : ''}
${unfinished === null ? '' : `<p class="warning">${escaped(unfinishedText(unfinished))}</p>`}
${headlineHtml(headline(data), svgOf)}
</section>
<section id="method">
<h2>How it was measured</h2>
${INTRODUCTIONS[provenance.paper].map((text) => `<p>${escaped(text)}</p>`).join('\n')}
<p class="provenance"><code>${escaped(provenance.command)}</code><br>
${seedsText(provenance)} · ${provenance.date} · ${escaped(provenance.machine)} · code ${provenance.code_version}</p>
</section>
${goalSection(data)}
<section id="paper">
<h2>The paper beside ours</h2>
${comparisonTable(data)}
</section>
<section id="losses">
<h2>Where we lose</h2>
${lossList(figures)}
</section>
${figures.map((figure) => section(figure, svgOf)).join('\n')}
</main>
</body>
</html>
`
}

function reportLinks(reports: readonly ReportLink[]): string {
  if (reports.length === 0) return ''
  const links = reports.map(({ name, href }) =>
    href === null ? `<b>${escaped(name)}</b>` : `<a href="${escaped(href)}">${escaped(name)}</a>`,
  )
  return `<p>${links.join(' · ')}</p>`
}

function headlineHtml({ numbers, plot, losses }: Headline, svgOf: (file: string) => string): string {
  const facts = numbers.map(
    ({ value, of, note, figure }) =>
      `<a class="number" href="#f-${figure}"><b>${escaped(value)}</b><span>${escaped(of)}</span><small>${escaped(note)}</small></a>`,
  )
  const items = losses.map(
    ({ text, figure }) => `<li>${escaped(text)} <a href="#f-${figure}">${escaped(figure)}</a></li>`,
  )
  const shown =
    plot === null
      ? ''
      : `<figure><figcaption><a href="#f-${plot.figure}">${escaped(heading(plot.figure, plot.title))}</a></figcaption>${svgOf(plot.file)}</figure>`
  return `<div class="numbers">${facts.join('')}</div>
<div class="headline">${shown}<div><h3>Who loses where</h3>${items.length === 0 ? `<p>${NO_LOSS}</p>` : `<ul>${items.join('')}</ul>`}<p><a href="#losses">All losses</a></p></div></div>`
}

/** It stays in sight: at the side on a wide screen, above on a narrow one. */
function contents({ goals, figures }: ReportData): string {
  const parts: [string, string][] = [
    ['headline', 'In short'],
    ['method', 'How it was measured'],
    ...(goals.length === 0 ? [] : [['goals', 'Goals'] as [string, string]]),
    ['paper', 'The paper beside ours'],
    ['losses', 'Where we lose'],
    ...figures.map(({ id, title }): [string, string] => [`f-${id}`, heading(id, title)]),
  ]
  return `<nav aria-label="Contents">${parts.map(([id, text]) => `<a href="#${id}">${escaped(text)}</a>`).join('')}</nav>`
}

function goalSection({ goals }: ReportData): string {
  const rows = goals.map(({ figure, goal, target, ours, verdict }) => [
    `<a href="#f-${figure}">${escaped(goal)}</a>`,
    ...[target, ours, verdict].map(escaped),
  ])
  return rows.length === 0
    ? ''
    : `<section id="goals">\n<h2>Goals</h2>\n${tableOfCells(GOAL_COLUMNS, rows)}\n</section>`
}

/** The note stands under the claim, so that a phone shows the figures beside it. */
function comparisonTable(data: ReportData): string {
  const rows = comparedRows(data).map(({ figure, claim, note, paper, ours, ratio }) => [
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
  return `<section id="f-${id}" class="figure">
<h2>${escaped(heading(id, title))}</h2>
${paper === null ? '' : `<p class="paper"><b>The paper.</b> ${escaped(paper)}</p>`}
<div class="shown n${columnsOf(panels.length)}">
${panels.length === 0 ? '' : '<div class="panels">'}
${panels.map(({ alt, file }) => `<figure aria-label="${escaped(alt)}">${svgOf(file)}</figure>`).join('\n')}
${panels.length === 0 ? '' : '</div>'}
<div class="findings">
${sentences('What it shows', shows)}
${sentences('Where we lose', losses.length > 0 ? losses : [NO_LOSS])}
</div>
</div>
<details><summary>What was played</summary><p>${escaped(setup)}</p><p class="command"><code>${escaped(command)}</code></p></details>
${tables.map((table) => `<details><summary>${escaped(table.title)}</summary>${tableHtml(table)}</details>`).join('\n')}
</section>`
}

/** On a wide screen, where up to two leave room for the findings. Four panels, and four for each setting, stand in a square that fills a screen. */
function columnsOf(panels: number): number {
  return panels > 0 && panels % 4 === 0 && panels !== 12 ? 2 : Math.min(3, panels)
}

function sentences(title: string, items: readonly string[]): string {
  if (items.length === 0) return ''
  return `<div><h3>${title}</h3><ul>${items.map((item) => `<li>${escaped(item)}</li>`).join('')}</ul></div>`
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
