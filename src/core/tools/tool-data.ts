/** A tool book as it is stored and travels (protocol/tools.ts). Names are written once, and places in the list stand for them. */
import { SITUATION_BINS_MAX, TOOL_CODES, type ToolsData } from '../../protocol/index.ts'
import { LogSketch, rounded } from '../classes/log-sketch.ts'
import { ANY, ENDS, FIRST, named, nameOf, OTHER, SAME, Situation, UNNAMED } from './situation.ts'
import { ToolBook } from './tool-book.ts'
import { ToolSketch } from './tool-sketch.ts'

const SIGNS: Readonly<Record<string, number>> = {
  [ANY]: TOOL_CODES.any,
  [FIRST]: TOOL_CODES.first,
  [ENDS]: TOOL_CODES.ends,
  [SAME]: TOOL_CODES.same,
  [UNNAMED]: TOOL_CODES.unnamed,
  [OTHER]: TOOL_CODES.other,
}
const SIGN_OF = new Map(Object.entries(SIGNS).map(([sign, code]) => [code, sign]))

export function toolsData(book: ToolBook): ToolsData {
  const names = book.names()
  const places = new Map(names.map((name, at) => [name, at]))
  const codeOf = (key: string): number => {
    const name = nameOf(key)
    const code = name === null ? SIGNS[key] : places.get(name)
    return code ?? TOOL_CODES.other
  }
  return {
    tools: names.map((name) => ({ name, ...(book.tool(name) ?? new ToolSketch()).data() })),
    ...(book.unnamed.uses === 0 ? {} : { unnamed: book.unnamed.data() }),
    ...(book.other.uses === 0 ? {} : { other: book.other.data() }),
    all: book.all.data(),
    situations: book.situations().map(({ last, place, next, output_tokens }) => ({
      ...{ last: codeOf(last), position: place },
      next: [...next].map(([key, count]): [number, number] => [codeOf(key), rounded(count)]),
      output_tokens: output_tokens.coarseBins(SITUATION_BINS_MAX),
    })),
  }
}

export function toolBookOf({ tools, unnamed, other, all, situations }: ToolsData): ToolBook {
  const book = new ToolBook()
  book.all.merge(ToolSketch.from(all))
  if (unnamed !== undefined) book.unnamed = ToolSketch.from(unnamed)
  if (other !== undefined) book.other = ToolSketch.from(other)
  for (const tool of tools) book.mergeTool(tool.name, ToolSketch.from(tool))
  const keyOf = (code: number): string => {
    const tool = tools[code]
    return tool === undefined ? (SIGN_OF.get(code) ?? OTHER) : named(tool.name)
  }
  for (const { last, position, next, output_tokens } of situations) {
    const situation = new Situation(keyOf(last), position)
    for (const [code, count] of next) situation.count(keyOf(code), count)
    situation.output_tokens.merge(LogSketch.of(output_tokens))
    book.mergeSituation(situation)
  }
  return book
}
