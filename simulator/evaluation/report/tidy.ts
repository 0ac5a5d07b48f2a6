/**
 * What a reader gets of stored figures and sentences. Evaluations keep what was read from runs as it was; this leaves out digits
 * that say nothing, ratios of figures with different signs, and comparisons that come to nothing.
 */
import type { FigureData, ReportData } from './report-data.ts'

/** An interval narrower than this part of the mean is not shown. */
const NARROW_SHARE = 0.005
/** Ratios closer to 1 than this are no finding. */
const SAME_SHARE = 0.02
const INTERVAL = /(-?[\d,]+(?:\.\d+)?(?:e[-+]?\d+)?) ± ([\d,]+(?:\.\d+)?(?:e[-+]?\d+)?)/g
const RATIO = /(?:^|[\s(])(\d+(?:\.\d+)?)×/g
/** What a knob does, as each figure says it, where it does nothing: what is said instead. */
const NO_EFFECT: readonly { says: RegExp; ratios: (found: RegExpExecArray) => number[]; instead: string }[] = [
  {
    says: /^(?<what>.*) becomes (?<under>(?:[\d.]+(?: ± [\d.]+)?× under [^,]+(?:, )?)+)\.$/,
    ratios: ({ groups }) =>
      [...(groups?.under ?? '').matchAll(/([\d.]+)(?: ± [\d.]+)?× under/g)].map(([, ratio]) => Number(ratio)),
    instead: '$<what> stays within 2 % under $<under>.',
  },
  {
    says: /^(?<what>.*) gives (?<ratio>[\d.]+)× the latency of (?<other>.*)$/,
    ratios: ({ groups }) => [Number(groups?.ratio)],
    instead: '$<what> gives the same latency, within 2 %, as $<other>',
  },
  {
    says: /^(?<what>.*): least at β = [\d,]+ \((?<least>[\d.]+)(?: ± [\d.]+)?\), (?<never>[\d.]+) without promotion\.$/,
    ratios: ({ groups }) => [Number(groups?.least) / Number(groups?.never)],
    instead: '$<what>: no β is better than none at all ($<never>) by more than 2 %.',
  },
]
const COMPARES = /\b(more|less|fewer|lower|higher|longer|shorter|as much as|the rate of)\b/
const UNDER = /[\d.]+(?: ± [\d.]+)?× under (?=\S)/g
/** Words between a comparison and its reason. */
const CLAUSE = /, (?=\d+(?:\.\d+)?× )/

export function tidied(data: ReportData): ReportData {
  return {
    ...data,
    goals: data.goals.map((goal) => ({ ...goal, ours: tidiedText(goal.ours) })),
    figures: data.figures.map(tidiedFigure),
  }
}

function tidiedFigure(figure: FigureData): FigureData {
  const sentences = (of: readonly string[]) =>
    of
      .map(withoutSame)
      .filter((one) => one !== null)
      .map(tidiedText)
      .map(saidPlainly)
  return {
    ...figure,
    shows: sentences(figure.shows),
    losses: sentences(figure.losses),
    tables: figure.tables.map((table) => ({ ...table, rows: table.rows.map((row) => row.map(tidiedText)) })),
  }
}

/** `12 ± 0.713` → `12 ± 0.71`, `1 ± 0.0000314` → `1`: two digits of the interval, and the mean to the same place. */
export function tidiedText(text: string): string {
  return text.replace(INTERVAL, (whole, mean: string, half: string) => {
    const [middle, width] = [mean, half].map((one) => Number(one.replaceAll(',', ''))) as [number, number]
    if (!Number.isFinite(middle) || !Number.isFinite(width)) return whole
    if (Math.abs(width) < NARROW_SHARE * Math.abs(middle) || width === 0) return mean
    const places = Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(width))))
    const shown = (value: number) =>
      value.toLocaleString('en-US', { minimumFractionDigits: 0, maximumFractionDigits: places })
    return `${shown(middle)} ± ${shown(width)}`
  })
}

/** Null: a comparison whose every ratio is 1, or nearly. Clauses of a list that say so are taken out of it. */
export function withoutSame(sentence: string): string | null {
  if (!COMPARES.test(sentence)) return sentence
  const ratios = ratiosOf(sentence)
  if (ratios.length > 0 && ratios.every(isSame)) return null
  const clauses = sentence.split(CLAUSE)
  if (clauses.length === 1) return sentence
  const [first = '', ...others] = clauses
  const left = others.filter((clause) => !ratiosOf(clause).every(isSame))
  const end = sentence.endsWith('.') && !(left.at(-1) ?? first).endsWith('.') ? '.' : ''
  return `${[first, ...left].join(', ')}${end}`
}

/** That a knob changes nothing is a finding, but its ratios of 1 are not. */
export function saidPlainly(sentence: string): string {
  const rule = NO_EFFECT.find(({ says, ratios }) => {
    const found = says.exec(sentence)
    return found !== null && ratios(found).every(isSame)
  })
  return rule === undefined ? sentence : sentence.replace(rule.says, rule.instead).replaceAll(UNDER, '')
}

function ratiosOf(text: string): number[] {
  return [...text.matchAll(RATIO)].map(([, ratio]) => Number(ratio))
}

function isSame(ratio: number): boolean {
  return Math.abs(ratio - 1) <= SAME_SHARE
}

/** Ours over the paper's. Null where one of them is below 0, or nothing: it would be no ratio. */
export function ratioOf(ours: number, paper: number): number | null {
  return ours >= 0 && paper > 0 ? ours / paper : null
}
