/** A line of a JSONL file → its object, or what is wrong with the line. */
import { NESTING_MAX, nestsDeeperThan } from '../wire/nesting.ts'
import type { FileLine } from './line-splitter.ts'

/** Of one line, without its line break. */
export const LINE_BYTES_MAX = 1024 * 1024

/** As an item of a batch's `errors`. */
export interface LineFault {
  code: string
  /** Null: of no line in particular. */
  line: number | null
  message: string
  param: string | null
}

type ReadLine =
  | { status: 'object'; json: Readonly<Record<string, unknown>> }
  /** It has white space alone, and counts for nothing. */
  | { status: 'blank' }
  | { status: 'fault'; fault: LineFault }

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

export function lineFault(line: number, code: string, message: string, param: string | null = null): LineFault {
  return { code, line, message: `Line ${line}: ${message}`, param }
}

export function readJsonLine({ number, bytes }: FileLine): ReadLine {
  const fault = (code: string, message: string): ReadLine => ({
    status: 'fault',
    fault: lineFault(number, code, message),
  })
  if (bytes === null) return fault('line_too_long', `it has more than ${LINE_BYTES_MAX} bytes.`)
  let text: string
  try {
    text = decoder.decode(bytes)
  } catch {
    // The decoder throws for nothing else.
    return fault('invalid_utf8', 'it is not valid UTF-8.')
  }
  if (text.trim() === '') return { status: 'blank' }
  if (nestsDeeperThan(text, NESTING_MAX)) {
    return fault('invalid_json_line', `it is nested deeper than ${NESTING_MAX} levels.`)
  }
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return fault('invalid_json_line', `it is not valid JSON: ${(error as SyntaxError).message}.`)
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    return fault('invalid_json_line', 'it is not a JSON object.')
  }
  return { status: 'object', json: json as Record<string, unknown> }
}
