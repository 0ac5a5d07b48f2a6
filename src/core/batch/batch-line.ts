/**
 * One line of a batch's input: `{"custom_id", "method", "url", "body"}`, as OpenAI's Batch API has it. A fault names the
 * line and the field. What an engine thinks of the body is found out when the line runs.
 */
import { z } from 'zod'
import { NESTING_MAX, nestsDeeperThan } from '../wire/nesting.ts'
import type { FileLine } from './line-splitter.ts'

/** Of one line, without its line break. */
export const LINE_BYTES_MAX = 1024 * 1024
export const CUSTOM_ID_CHARS_MAX = 512

export interface BatchLine {
  custom_id: string
  /** Of the body. */
  model: string
  body: Readonly<Record<string, unknown>>
}

/** As an item of a batch's `errors`. */
export interface LineFault {
  code: string
  /** Null: of no line in particular. */
  line: number | null
  message: string
  param: string | null
}

type CheckedLine =
  | { status: 'line'; line: BatchLine }
  /** It has white space alone, and counts for nothing. */
  | { status: 'blank' }
  | { status: 'fault'; fault: LineFault }

const Line = z.object({
  custom_id: z.string().min(1, 'it is empty').max(CUSTOM_ID_CHARS_MAX, `it has over ${CUSTOM_ID_CHARS_MAX} characters`),
  method: z.literal('POST', { error: 'it must be "POST"' }),
  url: z.string(),
  body: z.looseObject({ model: z.string().min(1, 'it is empty'), stream: z.boolean().nullish() }),
})

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })

/** `endpoint`: of the batch. */
export function checkLine({ number, bytes }: FileLine, endpoint: string): CheckedLine {
  const fault = (code: string, message: string, param: string | null = null): CheckedLine => ({
    status: 'fault',
    fault: { code, line: number, message: `Line ${number}: ${message}`, param },
  })
  if (bytes === null) {
    return fault('line_too_long', `it has more than ${LINE_BYTES_MAX} bytes. Send such a call by itself.`)
  }
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
  const read = Line.safeParse(json)
  if (!read.success) {
    const [issue] = read.error.issues
    const param = issue?.path.map(String).join('.') ?? ''
    if (valueAt(json, issue?.path ?? []) === undefined) {
      return fault('missing_required_parameter', `\`${param}\` is missing.`, param)
    }
    return fault('invalid_value', `\`${param}\` is not valid: ${issue?.message ?? ''}.`, param)
  }
  const { custom_id, url, body } = read.data
  if (url !== endpoint) {
    return fault('mismatched_endpoint', `\`url\` is ${JSON.stringify(url)}, but the batch is for ${endpoint}.`, 'url')
  }
  if (body.stream === true) {
    return fault('stream_unsupported', 'a line of a batch has no stream. Leave `body.stream` out.', 'body.stream')
  }
  return { status: 'line', line: { custom_id, model: body.model, body } }
}

function valueAt(json: unknown, path: readonly PropertyKey[]): unknown {
  let value = json
  for (const key of path) value = (value as Record<PropertyKey, unknown> | null | undefined)?.[key]
  return value
}
