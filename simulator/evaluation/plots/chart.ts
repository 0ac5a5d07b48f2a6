/**
 * Charts as SVG text. A panel is narrow enough for a phone and takes its ink from the text colour around it (`currentColor`),
 * so that one file fits light and dark pages. Series have middle tones that stand out on both.
 */
import { createHash } from 'node:crypto'
import * as echarts from 'echarts'

export const PANEL_WIDTH = 400
const PLOT_HEIGHT = 225
const LEGEND_ROW_HEIGHT = 19
/** From row to row: an entry and the gap below it. */
const LEGEND_ROW_STEP = 26
/** Of a legend's entry: the swatch with its gaps, and a character. */
const SWATCH_WIDTH = 44
const CHAR_WIDTH = 6.6

export const INK = 'currentColor'
const FAINT = { color: INK, opacity: 0.18 }
/** Of every text that is not a title. */
export const FONT = { color: INK, fontSize: 11, fontFamily: 'system-ui, sans-serif' }

export interface Frame {
  title: string
  legend: readonly string[]
}

/** Height that all legend rows need, for names laid out in order. */
export function legendHeight(names: readonly string[]): number {
  let rows = names.length === 0 ? 0 : 1
  let used = 0
  for (const name of names) {
    const width = SWATCH_WIDTH + name.length * CHAR_WIDTH
    if (used > 0 && used + width > PANEL_WIDTH - 8) {
      rows += 1
      used = 0
    }
    used += width
  }
  return rows === 0 ? 0 : LEGEND_ROW_HEIGHT + (rows - 1) * LEGEND_ROW_STEP
}

/** 1, 2 and 5 times the powers of ten between two bounds, finer ones if that leaves fewer than three. */
export function logTicks(from: number, to: number): number[] {
  const ticks = (digits: readonly number[]) => {
    const powers = Array.from({ length: 24 }, (_, at) => 10 ** (at - 9))
    return powers
      .flatMap((power) => digits.map((digit) => Number((digit * power).toPrecision(3))))
      .filter((tick) => tick >= from * 0.999 && tick <= to * 1.001)
  }
  const coarse = ticks([1, 2, 5])
  if (coarse.length >= 3) return coarse
  const fine = ticks([1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9])
  if (fine.length >= 3) return fine
  return [0, 0.25, 0.5, 0.75, 1].map((share) => Number((from + share * (to - from)).toPrecision(3)))
}

/** A logarithmic axis says so in its name. */
export function axis(name: string, kind: 'value' | 'log' | 'category', more: object = {}): object {
  return {
    type: kind,
    name: kind === 'log' ? `${name} (log)` : name,
    nameTextStyle: FONT,
    axisLabel: { ...FONT, hideOverlap: true },
    axisLine: { show: true, lineStyle: { color: INK, opacity: 0.5 } },
    axisTick: { lineStyle: { color: INK, opacity: 0.5 } },
    splitLine: { show: kind !== 'category', lineStyle: FAINT },
    minorTick: { show: false },
    ...more,
  }
}

/** `xAxis`, `yAxis` and `series` of ECharts; the frame adds the rest. */
export function drawPanel(
  { title, legend }: Frame,
  option: { xAxis: object; yAxis: object; series: object[] },
): string {
  const legend_height = legendHeight(legend)
  const height = PLOT_HEIGHT + 70 + legend_height
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: PANEL_WIDTH, height })
  chart.setOption({
    animation: false,
    backgroundColor: 'transparent',
    title: { text: title, left: 'center', top: 2, textStyle: { ...FONT, fontSize: 13, fontWeight: 600 } },
    legend: {
      ...{ bottom: 2, left: 'center', width: PANEL_WIDTH - 8, itemWidth: 20, itemHeight: 9, itemGap: 16 },
      ...{ data: legend, textStyle: FONT, inactiveColor: INK },
    },
    grid: { left: 52, right: 16, top: 44, bottom: legend_height + 46, containLabel: false },
    ...option,
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  return labelled(asPanel(svg, height), title)
}

/** A chart in a file has no scripts, so what ECharts writes for scripts and hovering is removed, and names of parts come from the content. */
function asPanel(svg: string, height: number): string {
  const still = svg
    .replace(
      /^<svg [^>]*>/,
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${PANEL_WIDTH} ${height}" role="img">`,
    )
    .replace(/<style ?>[\s\S]*?<\/style>/g, '')
    .replace(/ (ecmeta_\w+|class|pointer-events)="[^"]*"/g, '')
    .replace(/zr\d+-/g, 'part-')
  const name = createHash('sha256').update(still).digest('hex').slice(0, 8)
  return withDashedSwatches(still.replace(/part-/g, `p${name}-`))
}

/** The dot of a dashed line's entry in the legend would cover the gap between its dashes. */
export function withDashedSwatches(svg: string): string {
  return svg.replace(
    /(<path d="M0 [\d.]+L20 [\d.]+"[^>]*transform="([^"]+)"[^>]*stroke-dasharray="[^"]+"[^>]*><\/path>)\n<path [^>]*transform="\2"[^>]*><\/path>/g,
    '$1',
  )
}

/** With what it shows in words, for readers who do not see it. */
export function labelled(svg: string, alt: string): string {
  const words = alt.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  return svg
    .replace(/<title>[\s\S]*?<\/title>\n?/, '')
    .replace(/^<svg (?![^>]*\brole=)/, '<svg role="img" ')
    .replace(/(<svg [^>]*>(?:<style>[^<]*<\/style>)?)/, `$1<title>${words}</title>`)
}

/** As a file by itself: with colours for light and dark. */
export function standalone(svg: string): string {
  return `${svg.replace(/(<svg [^>]*)>/, `$1${STANDALONE}`)}\n`
}

/** Undoes `standalone`: a page brings its own colours and widths. */
export function embedded(file: string): string {
  return file.replace(STANDALONE, '>').trimEnd()
}

const STANDALONE = ` width="${PANEL_WIDTH}"><style>svg{color:#1f2937;background:#ffffff}@media(prefers-color-scheme:dark){svg{color:#e5e7eb;background:#0f172a}}</style>`
