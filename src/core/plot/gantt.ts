/**
 * What works when, as SVG text: a row for each GPU or node, and bars in the colour of their node, pale where a model loads or
 * where the time is only expected. The chart takes its ink from the text around it.
 */
export interface GanttBar {
  row: number
  /** Index of the node in the legend. */
  node: number
  start_s: number
  end_s: number
  /** The first part of it is pale. */
  pale_s: number
}

export interface Gantt {
  title: string
  rows: readonly string[]
  nodes: readonly string[]
  bars: readonly GanttBar[]
  end_s: number
  /** Time at the right edge, where several charts are to be compared. */
  axis_s?: number
  /** Left of the rows, for their names. */
  label_width?: number
}

const WIDTH = 400
const LABEL_WIDTH = 44
const RIGHT = 12
const TOP = 30
const ROW = 18
const BAR = 14
const AXIS = 34
const LEGEND_ROW = 17
const LEGEND_CHAR = 6.4
const LEGEND_SWATCH = 24
const TICKS = 5
/** Of a chart in which nothing has happened yet. */
const AXIS_MIN_S = 0.001
/** More than an application's nodes, as a rule; then they repeat, and the numbers in the bars tell them apart. */
const COLORS = [
  ...['#3b82f6', '#10b981', '#f59e0b', '#a855f7', '#ef4444', '#14b8a6'],
  ...['#64748b', '#ec4899', '#84a312', '#b45309', '#1d4ed8', '#7e22ce'],
] as const

function colorOf(node: number): string {
  return COLORS[node % COLORS.length] as string
}

export function ganttChart(chart: Gantt): string {
  const axis_s = Math.max(chart.axis_s ?? 0, chart.end_s, AXIS_MIN_S)
  const left = chart.label_width ?? LABEL_WIDTH
  const x = (at_s: number) => left + ((WIDTH - left - RIGHT) * at_s) / axis_s
  const y = (row: number) => TOP + row * ROW
  const bottom = y(chart.rows.length)
  const legend = legendOf(chart.nodes, bottom + AXIS)
  const parts = [
    text(WIDTH / 2, 16, escaped(chart.title), 'text-anchor="middle" font-size="13" font-weight="600"'),
    ...chart.rows.map((label, row) => text(left - 6, y(row) + 11, escaped(label), 'text-anchor="end" font-size="10"')),
    ...chart.bars.flatMap((bar) => barOf(bar, x, y(bar.row))),
    ...ticksOf(axis_s).flatMap((at_s) => [
      `<line x1="${num(x(at_s))}" x2="${num(x(at_s))}" y1="${TOP - 4}" y2="${bottom}" stroke="currentColor" stroke-opacity="0.18"/>`,
      text(x(at_s), bottom + 14, `${at_s}`, 'text-anchor="middle" font-size="10"'),
    ]),
    text(WIDTH / 2, bottom + 28, 'seconds', 'text-anchor="middle" font-size="10"'),
    ...legend.parts,
  ]
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${num(legend.bottom)}" role="img">${parts.join('')}</svg>`
}

function barOf({ node, start_s, end_s, pale_s }: GanttBar, x: (at_s: number) => number, top: number): string[] {
  const solid_s = Math.min(end_s, start_s + pale_s)
  const rect = (from_s: number, to_s: number, opacity: number) =>
    `<rect x="${num(x(from_s))}" y="${top}" width="${num(Math.max(0, x(to_s) - x(from_s) - 0.5))}" height="${BAR}" fill="${colorOf(node)}" fill-opacity="${opacity}"/>`
  const bars = solid_s > start_s ? [rect(start_s, solid_s, 0.35)] : []
  if (end_s > solid_s) bars.push(rect(solid_s, end_s, 1))
  const label = String(node + 1)
  const width = x(end_s) - x(start_s)
  if (width > label.length * 7)
    bars.push(text(x(start_s) + width / 2, top + 11, label, 'text-anchor="middle" font-size="10"', '#ffffff'))
  return bars
}

function legendOf(nodes: readonly string[], top: number): { parts: string[]; bottom: number } {
  const parts: string[] = []
  let [x, y] = [8, top + 12]
  for (const [at, name] of nodes.entries()) {
    const label = `${at + 1} ${name}`
    const width = LEGEND_SWATCH + label.length * LEGEND_CHAR
    if (x > 8 && x + width > WIDTH - 4) {
      x = 8
      y += LEGEND_ROW
    }
    parts.push(`<rect x="${num(x)}" y="${y - 9}" width="14" height="9" fill="${colorOf(at)}"/>`)
    parts.push(text(x + 18, y, escaped(label), 'font-size="11"'))
    x += width
  }
  return { parts, bottom: y + 10 }
}

/** Whole steps of 1, 2 or 5 times a power of ten, about TICKS of them. */
function ticksOf(axis_s: number): number[] {
  const rough = axis_s / TICKS
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10) * power
  return Array.from({ length: Math.floor(axis_s / step) + 1 }, (_, at) => Number((at * step).toPrecision(6)))
}

/** No style attribute: the page that shows a chart allows none. */
function text(x: number, y: number, content: string, more: string, fill = 'currentColor'): string {
  return `<text x="${num(x)}" y="${num(y)}" fill="${fill}" font-family="system-ui, sans-serif" ${more}>${content}</text>`
}

function num(value: number): string {
  return Number(value.toFixed(2)).toString()
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
