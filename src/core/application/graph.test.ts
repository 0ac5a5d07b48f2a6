import { expect, it } from 'vitest'
import { COPIES_MAX, checkedGraph, inOrder } from './graph.ts'
import { NODES_MAX, type NodeForm, Nodes } from './graph-schema.ts'

const says = (text: string) => ({ messages: [{ role: 'user', content: text }] })
const lines = (id: string, more: object = {}) => ({ id, model: 'm', requests: 'lines', body: says('{{q}}'), ...more })
const from = (id: string, nodes: string[], more: object = {}) => ({
  ...{ id, model: 'm', from: { nodes }, body: says(nodes.map((node) => `{{${node}.output}}`).join(' ')) },
  ...more,
})

function check(...nodes: object[]) {
  return checkedGraph(Nodes.parse(nodes) as NodeForm[])
}

function faultOf(...nodes: object[]): [string, string] {
  const checked = check(...nodes)
  return checked.ok ? ['none', ''] : [checked.param, checked.message]
}

it('reads nodes in any order, and knows which come after which', () => {
  const checked = check(from('judge', ['a', 'b']), lines('b'), lines('a'), from('best', ['judge', 'a']))
  expect(checked.ok && checked.graph.map(({ id, depth }) => [id, depth])).toEqual([
    ...[
      ['judge', 1],
      ['b', 0],
      ['a', 0],
      ['best', 2],
    ],
  ])
  expect(checked.ok && inOrder(checked.graph).map(({ id }) => id)).toEqual(['b', 'a', 'judge', 'best'])
})

it('refuses circles, unknown nodes and ids that are there twice', () => {
  expect(faultOf(from('a', ['b']), from('b', ['a']))).toEqual([
    'nodes.0.from.nodes',
    'Nodes a, b take outputs from each other in a circle. Only documents loop, within one node.',
  ])
  expect(faultOf(lines('x'), from('a', ['a']))[0]).toBe('nodes.1.from.nodes')
  expect(faultOf(lines('a'), from('b', ['c']))[1]).toBe('Node b: there is no node c to take outputs from.')
  expect(faultOf(lines('a'), lines('a'))[0]).toBe('nodes.1.id')
})

it('refuses a node with no input or two, and one that names what it does not take', () => {
  expect(faultOf({ id: 'a', model: 'm', body: says('x') })[1]).toContain('one of requests, documents and from')
  expect(faultOf(lines('a', { documents: { field: 'text' } }))[0]).toBe('nodes.0.requests')
  expect(faultOf(lines('a'), lines('b', { body: says('{{a.output}}') }))).toEqual([
    'nodes.1.body',
    'Node b: its template names {{a.output}}, and a is not among the nodes in `from`.',
  ])
  expect(faultOf(lines('a'), lines('b'), from('c', ['a', 'b'], { body: says('{{a.output}}') }))[1]).toContain(
    'takes outputs from b, and its template does not name {{b.output}}',
  )
  expect(faultOf({ id: 'a', model: 'm', documents: { field: 'text' }, body: says('x') })[1]).toContain('{{chunk}}')
  expect(faultOf(lines('a', { body: { ...says('x'), stream: true } }))[0]).toBe('nodes.0.body.stream')
  expect(faultOf(lines('a', { body: { ...says('x'), model: 'm' } }))[0]).toBe('nodes.0.body.model')
  expect(faultOf(lines('a', { body: { ...says('x'), n: 2 } }))[0]).toBe('nodes.0.body.n')
})

it('multiplies copies along the way, within a bound, and takes equally many together', () => {
  const each = (id: string, node: string, n: number) => from(id, [node], { from: { nodes: [node], each: n } })
  const checked = check(lines('a'), each('b', 'a', 4), each('c', 'b', 5))
  expect(checked.ok && checked.graph.map(({ copies }) => copies)).toEqual([1, 4, 20])
  expect(faultOf(lines('a'), each('b', 'a', 4), from('c', ['a', 'b']))[1]).toContain(
    'a has 1 outputs for a line and b 4',
  )
  expect(faultOf(lines('a'), each('b', 'a', 100), each('c', 'b', COPIES_MAX / 100))[0]).toBe('none')
  expect(faultOf(lines('a'), each('b', 'a', 100), each('c', 'b', COPIES_MAX / 100 + 1))[0]).toBe('nodes.2.from.each')
})

it('has at most NODES_MAX nodes, of known fields', () => {
  const many = (count: number) => Array.from({ length: count }, (_, at) => lines(`n${at}`))
  expect(Nodes.safeParse(many(NODES_MAX)).success).toBe(true)
  expect(Nodes.safeParse(many(NODES_MAX + 1)).success).toBe(false)
  expect(Nodes.safeParse([lines('a', { colour: 'red' })]).success).toBe(false)
  expect(Nodes.safeParse([lines('a', { endpoint: '/v1/embeddings' })]).success).toBe(false)
})
