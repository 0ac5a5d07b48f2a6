/** The example that docs/applications.md runs. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { FILE_START, LineSplitter } from '../batch/line-splitter.ts'
import { checkedGraph } from './graph.ts'
import { Nodes } from './graph-schema.ts'
import { faultsOf, readInputLine, unitsOf } from './line-requests.ts'

const FOLDER = 'examples/applications'

it('is valid, with 20 calls', () => {
  const file = JSON.parse(readFileSync(`${FOLDER}/answer-and-judge.json`, 'utf8'))
  const checked = checkedGraph(Nodes.parse(file.nodes))
  if (!checked.ok) throw new Error(checked.message)
  const splitter = new LineSplitter(FILE_START, 1_000_000)
  const lines = [...splitter.push(readFileSync(`${FOLDER}/${file.input.path}`))].map(readInputLine)
  let calls = 0
  for (const read of lines) {
    if (read.status !== 'line') throw new Error(read.status)
    expect(faultsOf(checked.graph, read.line)).toEqual([])
    for (const node of checked.graph) calls += unitsOf(node, read.line)
  }
  expect(calls).toBe(20)
})
