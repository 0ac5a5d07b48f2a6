/**
 * One line of a batch's input: `{"custom_id", "method", "url", "body"}`, as OpenAI's Batch API has it. A fault names the
 * line and the field. What an engine thinks of the body is found out when the line runs.
 */
import { z } from 'zod'
import { type LineFault, lineFault, readJsonLine } from './json-line.ts'
import type { FileLine } from './line-splitter.ts'

export const CUSTOM_ID_CHARS_MAX = 512

export interface BatchLine {
  custom_id: string
  /** Of the body. */
  model: string
  body: Readonly<Record<string, unknown>>
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

/** `endpoint`: of the batch. */
export function checkLine(line: FileLine, endpoint: string): CheckedLine {
  const found = readJsonLine(line)
  if (found.status !== 'object') return found
  const { json } = found
  const fault = (code: string, message: string, param: string): CheckedLine => ({
    status: 'fault',
    fault: lineFault(line.number, code, message, param),
  })
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
