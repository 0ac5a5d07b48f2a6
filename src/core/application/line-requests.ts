/**
 * What one line of the input means for a node: whether the node takes it, in how many requests, and what each of them needs.
 * Requests of a node are numbered over all lines, in the order of the input; `unit` is the place among those of one line:
 * the number of the copy, or of the chunk of a document.
 */
import { type LineFault, lineFault, readJsonLine } from '../batch/json-line.ts'
import type { FileLine } from '../batch/line-splitter.ts'
import { chunksOf } from './document.ts'
import type { Graph, GraphNode } from './graph.ts'
import { CHUNKS_MAX } from './graph-schema.ts'
import { filled, textOf, utf8Bytes } from './template.ts'

/** Optional in a line: a name by which its results are found. */
const ID_FIELD = 'id'
const LINE_ID_CHARS_MAX = 512

export interface InputLine {
  number: number
  /** Null: it has none. */
  id: string | null
  fields: Readonly<Record<string, unknown>>
}

type ReadInput = { status: 'line'; line: InputLine } | { status: 'blank' } | { status: 'fault'; fault: LineFault }

export function readInputLine(file_line: FileLine): ReadInput {
  const read = readJsonLine(file_line)
  if (read.status !== 'object') return read
  const { number } = file_line
  const id = read.json[ID_FIELD]
  if (id === undefined || id === null) return { status: 'line', line: { number, id: null, fields: read.json } }
  const text = typeof id === 'number' ? String(id) : id
  if (typeof text !== 'string' || text === '' || text.length > LINE_ID_CHARS_MAX) {
    const message = `\`id\` is a text of 1 to ${LINE_ID_CHARS_MAX} characters, or a number.`
    return { status: 'fault', fault: lineFault(number, 'invalid_value', message, ID_FIELD) }
  }
  return { status: 'line', line: { number, id: text, fields: read.json } }
}

/** A node that takes outputs takes the lines that all its sources take. */
export function takesLine(node: GraphNode, { fields }: InputLine): boolean {
  return (
    node.where.every(([field, value]) => fields[field] === value) &&
    node.sources.every((source) => takesLine(source, { number: 0, id: null, fields }))
  )
}

/** Requests of a line that the node takes. */
export function unitsOf(node: GraphNode, line: InputLine): number {
  return node.documents === null ? node.copies : documentOf(node, line).length
}

/** Empty where the field is no document. */
function documentOf({ documents }: GraphNode, { fields }: InputLine): readonly string[] {
  const value = documents === null ? undefined : fields[documents.field]
  const chunk_chars = documents?.chunk_chars ?? null
  if (chunk_chars !== null) return typeof value === 'string' ? chunksOf(value, chunk_chars) : []
  return Array.isArray(value) && value.every((chunk) => typeof chunk === 'string') ? value : []
}

/** What the line lacks for the nodes that take it. */
export function faultsOf(graph: Graph, line: InputLine): LineFault[] {
  const faults: LineFault[] = []
  for (const node of graph) {
    if (!takesLine(node, line)) continue
    const fault = (message: string, field: string) =>
      faults.push(lineFault(line.number, 'invalid_value', `node ${node.id}: ${message}`, field))
    for (const slot of node.slots.values()) {
      if (slot.kind !== 'field' || textOf(line.fields[slot.field]) !== null) continue
      faults.push(
        lineFault(
          line.number,
          'missing_field',
          `node ${node.id}: its template names {{${slot.field}}}, and the line has no field \`${slot.field}\`.`,
          slot.field,
        ),
      )
    }
    const { documents } = node
    if (documents === null) continue
    const chunks = documentOf(node, line).length
    const is_text = documents.chunk_chars !== null
    if (chunks === 0) {
      const form = is_text ? 'a text that is not empty' : 'an array of texts that is not empty, or `chunk_chars` set'
      fault(`it works on documents, and the field \`${documents.field}\` of the line must be ${form}.`, documents.field)
    }
    if (chunks > CHUNKS_MAX) fault(`the document has ${chunks} chunks. At most ${CHUNKS_MAX}.`, documents.field)
  }
  return faults
}

/** An output that a request needs, by its node and unit. It is of the same line. */
export interface Need {
  node: GraphNode
  unit: number
  /** By this name the template asks for it. */
  name: string
}

export function needsOf(node: GraphNode, line: InputLine, unit: number): Need[] {
  const needs: Need[] = []
  for (const [name, slot] of node.slots) {
    if (slot.kind === 'previous' && unit > 0) needs.push({ node, unit: unit - 1, name })
    if (slot.kind !== 'output') continue
    const source = node.sources.find(({ id }) => id === slot.node) as GraphNode
    const of = source.documents === null ? Math.floor(unit / node.each) : unitsOf(source, line) - 1
    needs.push({ node: source, unit: of, name })
  }
  return needs
}

/** The body of the call. `outputs`: of the needs, by name. The first chunk has nothing before it. */
export function bodyOf(
  node: GraphNode,
  line: InputLine,
  unit: number,
  outputs: ReadonlyMap<string, string>,
): Readonly<Record<string, unknown>> {
  const valueNamed = (name: string): string => {
    const slot = node.slots.get(name)
    if (slot?.kind === 'chunk') return documentOf(node, line)[unit] ?? ''
    if (slot?.kind === 'field') return textOf(line.fields[slot.field]) ?? ''
    return outputs.get(name) ?? ''
  }
  return { ...(filled(node.body, valueNamed) as Record<string, unknown>), model: node.model }
}

/** Bytes of UTF-8 that the line puts into the node's prompts: its fields into each, and chunks into one each. */
export function inputBytes(node: GraphNode, line: InputLine): { fields: number; chunks: number } {
  let fields = 0
  for (const slot of node.slots.values()) {
    if (slot.kind === 'field') fields += utf8Bytes(textOf(line.fields[slot.field]) ?? '')
  }
  return { fields, chunks: documentOf(node, line).reduce((sum, chunk) => sum + utf8Bytes(chunk), 0) }
}
