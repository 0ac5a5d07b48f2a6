import { expect, it } from 'vitest'
import { LINE_BYTES_MAX } from '../batch/json-line.ts'
import { checkedGraph, type Graph } from './graph.ts'
import { CHUNKS_MAX, Nodes } from './graph-schema.ts'
import { bodyOf, faultsOf, inputBytes, needsOf, readInputLine, takesLine, unitsOf } from './line-requests.ts'

const says = (text: string) => ({ messages: [{ role: 'user', content: text }] })

function graphOf(...nodes: object[]): Graph {
  const checked = checkedGraph(Nodes.parse(nodes))
  if (!checked.ok) throw new Error(checked.message)
  return checked.graph
}

function lineOf(fields: Record<string, unknown>, number = 1) {
  return { number, id: null, fields }
}

function read(content: string | null) {
  const bytes = content === null ? null : new TextEncoder().encode(content)
  return readInputLine({ number: 3, bytes, end: { offset: 0, lines: 3 } })
}

const ROUTED = graphOf(
  { id: 'french', model: 'm', requests: 'lines', where: { lang: 'fr' }, body: says('{{q}}') },
  { id: 'german', model: 'm', requests: 'lines', where: { lang: 'de', hard: true }, body: says('{{q}}') },
  { id: 'judge', model: 'm', from: { nodes: ['french'], each: 2 }, body: says('{{q}} {{french.output}}') },
)
const CHAIN = graphOf(
  {
    ...{ id: 'sum', model: 'm', documents: { field: 'text', chunk_chars: 100 } },
    body: says('{{title}}: {{previous}} | {{chunk}}'),
  },
  { id: 'check', model: 'm', from: { nodes: ['sum'], each: 3 }, body: says('{{sum.output}}') },
)

it('reads a line with an id or without, and names the line of a fault', () => {
  expect(read('{"id": "a", "q": 1}')).toMatchObject({ status: 'line', line: { number: 3, id: 'a' } })
  expect(read('{"id": 7}')).toMatchObject({ line: { id: '7' } })
  expect(read('{"q": 1}')).toMatchObject({ line: { id: null } })
  expect(read(' ').status).toBe('blank')
  expect(read('{"id": ""}')).toMatchObject({ fault: { code: 'invalid_value', line: 3, param: 'id' } })
  expect(read('[]')).toMatchObject({ fault: { code: 'invalid_json_line', line: 3 } })
  expect(read(null)).toMatchObject({
    fault: { code: 'line_too_long', message: expect.stringContaining(String(LINE_BYTES_MAX)) },
  })
})

it('a node takes the lines that its fields and its sources say', () => {
  const takers = (fields: Record<string, unknown>) =>
    ROUTED.filter((node) => takesLine(node, lineOf(fields))).map(({ id }) => id)
  expect(takers({ lang: 'fr', q: 'x' })).toEqual(['french', 'judge'])
  expect(takers({ lang: 'de', hard: true })).toEqual(['german'])
  expect(takers({ lang: 'de', hard: 'true' })).toEqual([])
  expect(takers({})).toEqual([])
})

it('each copy needs the output of its line', () => {
  const [french, , judge] = ROUTED
  if (judge === undefined) throw new Error('no judge')
  const line = lineOf({ lang: 'fr', q: 'why' })
  expect(unitsOf(judge, line)).toBe(2)
  expect(needsOf(judge, line, 1)).toEqual([{ node: french, unit: 0, name: 'french.output' }])
  expect(bodyOf(judge, line, 1, new Map([['french.output', 'parce que']]))).toEqual({
    ...says('why parce que'),
    model: 'm',
  })
})

it('each chunk needs the output of the one before, and others the last', () => {
  const [sum, check] = CHAIN
  if (sum === undefined || check === undefined) throw new Error('no nodes')
  const line = lineOf({ title: 'T', text: `${'a'.repeat(99)} ${'b'.repeat(99)} c` })
  expect(unitsOf(sum, line)).toBe(3)
  expect(needsOf(sum, line, 0)).toEqual([])
  expect(needsOf(sum, line, 2)).toEqual([{ node: sum, unit: 1, name: 'previous' }])
  expect(needsOf(check, line, 2)).toEqual([{ node: sum, unit: 2, name: 'sum.output' }])
  expect(bodyOf(sum, line, 0, new Map())).toMatchObject(says(`T:  | ${'a'.repeat(99)} `))
  expect(bodyOf(sum, line, 2, new Map([['previous', 'so far']]))).toMatchObject(says('T: so far | c'))
  expect(inputBytes(sum, line)).toEqual({ fields: 1, chunks: 201 })
})

it('tells which node lacks which field of which line', () => {
  expect(faultsOf(ROUTED, lineOf({ lang: 'fr' }, 5))).toEqual([
    {
      ...{ code: 'missing_field', line: 5, param: 'q' },
      message: 'Line 5: node french: its template names {{q}}, and the line has no field `q`.',
    },
    expect.objectContaining({ message: expect.stringContaining('node judge') }),
  ])
  expect(faultsOf(ROUTED, lineOf({ lang: 'es' }))).toEqual([])
  expect(faultsOf(CHAIN, lineOf({ title: 'T', text: '' }))).toMatchObject([{ code: 'invalid_value', param: 'text' }])
  expect(faultsOf(CHAIN, lineOf({ title: 'T', text: ['a'] }))).toMatchObject([{ param: 'text' }])
  const chunks = graphOf({ id: 'sum', model: 'm', documents: { field: 'text' }, body: says('{{chunk}}') })
  expect(faultsOf(chunks, lineOf({ text: ['a', 'b'] }))).toEqual([])
  expect(faultsOf(chunks, lineOf({ text: ['a', 7] }))).toHaveLength(1)
  expect(faultsOf(chunks, lineOf({ text: new Array(CHUNKS_MAX).fill('a') }))).toEqual([])
  expect(faultsOf(chunks, lineOf({ text: new Array(CHUNKS_MAX + 1).fill('a') }))).toHaveLength(1)
})
