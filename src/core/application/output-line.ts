/**
 * The result of one request of a node, as a line of the node's output: the text that was answered, or an error. Nodes that
 * take the output read it from the same line.
 */
import { z } from 'zod'
import { Count } from '../../protocol/index.ts'
import { NO_TOKENS } from '../batch/batch-state.ts'
import type { LineFault } from '../batch/json-line.ts'
import { type LineAnswer, type LineResult, RESULT_BYTES_MAX, usageOf } from '../batch/line-result.ts'
import { copiesOut, type GraphNode } from './graph.ts'
import type { Endpoint } from './graph-schema.ts'
import { type InputLine, unitsOf } from './line-requests.ts'
import { type Answer, CUT_REASONS } from './output-lengths.ts'

/** Which request a result is of. */
interface RequestName {
  node: GraphNode
  line: InputLine
  unit: number
}

/** What nodes read of a result. Null: it failed. */
export interface StoredOutput {
  line: number
  unit: number
  output: string | null
}

const Counted = z.object({ finish_reason: z.string().nullable(), usage: z.object({ output_tokens: Count }).nullable() })

const Stored = z.object({ line: Count, copy: Count.optional(), chunk: Count.optional(), output: z.string().nullable() })

const Choices = z.object({
  choices: z
    .array(
      z.object({
        text: z.string().nullish(),
        message: z.object({ content: z.string().nullish() }).nullish(),
        finish_reason: z.string().nullish(),
      }),
    )
    .min(1),
})
const TextPart = z.object({ type: z.string(), text: z.string().nullish() })
const Messages = z.object({ content: z.array(TextPart), stop_reason: z.string().nullish() })
const Responses = z.object({
  output: z.array(z.object({ type: z.string(), content: z.array(TextPart).nullish() })),
  status: z.string().nullish(),
})
const Failed = z.object({
  error: z.object({ message: z.string().nullish(), code: z.string().nullish(), type: z.string().nullish() }),
})

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export function outputLine(name: RequestName, { http_status, call, body }: LineAnswer): LineResult {
  const json: unknown = JSON.parse(body)
  if (http_status !== 200) {
    const read = Failed.safeParse(json)
    const { message, code, type } = read.success ? read.data.error : {}
    return failedOutput(name, code ?? type ?? 'engine_failed', message ?? `status ${http_status}`, call)
  }
  const answered = textOf(name.node.endpoint, json)
  if (answered === null) {
    return failedOutput(name, 'no_text', 'The answer has no text. Only texts go from node to node.', call)
  }
  const tokens = usageOf(json)?.tokens ?? NO_TOKENS
  const { input, cached, output } = tokens
  const usage = { input_tokens: input, cached_tokens: cached, output_tokens: output }
  const bytes = lineOf(name, { output: answered.text, finish_reason: answered.finish_reason, usage, error: null, call })
  if (bytes.length <= RESULT_BYTES_MAX) return { ok: true, bytes, tokens }
  return failedOutput(
    name,
    'result_too_large',
    `The answer has more than ${RESULT_BYTES_MAX} bytes. Bound its tokens.`,
    call,
  )
}

/** `call`: its id; null: there was none. */
export function failedOutput(name: RequestName, code: string, message: string, call: string | null): LineResult {
  const bytes = lineOf(name, { output: null, finish_reason: null, usage: null, error: { code, message }, call })
  return { ok: false, bytes, tokens: NO_TOKENS }
}

/** A request whose source has failed. */
export function failedBySource(name: RequestName, source: GraphNode): LineResult {
  const is_chain = source.id === name.node.id
  const which = is_chain ? 'the chunk before' : `node ${source.id}`
  return failedOutput(name, 'input_failed', `It needs the output of ${which} for this line, which failed.`, null)
}

export function readOutput(bytes: Uint8Array): StoredOutput {
  const { line, copy, chunk, output } = Stored.parse(JSON.parse(decoder.decode(bytes)))
  return { line, unit: (copy ?? chunk ?? 1) - 1, output }
}

/** What a result says of how long answers are. Null: it is none. */
export function answerIn(bytes: Uint8Array): Answer | null {
  const { finish_reason, usage } = Counted.parse(JSON.parse(decoder.decode(bytes)))
  if (usage === null || usage.output_tokens === 0) return null
  return { output_tokens: usage.output_tokens, is_cut: CUT_REASONS.includes(finish_reason ?? '') }
}

/** Of a file that a node needs while it runs. */
export function inputGone(file: string): LineFault {
  const message = `The input file ${file} was deleted while the application needed it. What had finished can be read. Store the file again and send the application under another id.`
  return { code: 'input_file_deleted', line: null, message, param: 'input.file' }
}

function lineOf({ node, line, unit }: RequestName, result: object): Uint8Array {
  const { documents } = node
  const units = unitsOf(node, line)
  const place =
    documents === null ? (copiesOut(node) === 1 ? {} : { copy: unit + 1 }) : { chunk: unit + 1, chunks: units }
  const id = line.id === null ? {} : { id: line.id }
  return encoder.encode(`${JSON.stringify({ line: line.number, ...id, node: node.id, ...place, ...result })}\n`)
}

/** Null: the answer is of another form, or calls a tool. */
function textOf(endpoint: Endpoint, json: unknown): { text: string; finish_reason: string | null } | null {
  if (endpoint === '/v1/messages') {
    const read = Messages.safeParse(json)
    return read.success
      ? { text: textIn(read.data.content, 'text'), finish_reason: read.data.stop_reason ?? null }
      : null
  }
  if (endpoint === '/v1/responses') {
    const read = Responses.safeParse(json)
    if (!read.success) return null
    const parts = read.data.output.flatMap(({ content }) => content ?? [])
    return { text: textIn(parts, 'output_text'), finish_reason: read.data.status ?? null }
  }
  const read = Choices.safeParse(json)
  const [choice] = read.success ? read.data.choices : []
  const text = choice?.text ?? choice?.message?.content
  return text === undefined || text === null ? null : { text, finish_reason: choice?.finish_reason ?? null }
}

function textIn(parts: readonly z.infer<typeof TextPart>[], type: string): string {
  return parts.map((part) => (part.type === type ? (part.text ?? '') : '')).join('')
}
