import { expect, it } from 'vitest'
import { RESULT_BYTES_MAX } from '../batch/line-result.ts'
import { checkedGraph, type GraphNode } from './graph.ts'
import { Nodes } from './graph-schema.ts'
import { failedBySource, outputLine, readOutput } from './output-line.ts'

function nodeOf(more: object): GraphNode {
  const checked = checkedGraph(Nodes.parse([{ id: 'a', model: 'm', body: { prompt: '{{chunk}}' }, ...more }]))
  if (!checked.ok) throw new Error(checked.message)
  return checked.graph[0] as GraphNode
}

const LINES = nodeOf({ requests: 'lines', body: { prompt: 'x' } })
const LINE = { number: 4, id: 'q4', fields: { text: ['one', 'two'] } }
const answer = (body: object, http_status = 200) => ({ http_status, call: 'call-1', body: JSON.stringify(body) })
const read = (bytes: Uint8Array) => JSON.parse(new TextDecoder().decode(bytes))
const USAGE = { prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 2 } }

it('has the text of every API, with its tokens', () => {
  const choice = { choices: [{ message: { content: 'yes' }, finish_reason: 'stop' }], usage: USAGE }
  const { ok, bytes, tokens } = outputLine({ node: LINES, line: LINE, unit: 0 }, answer(choice))
  expect([ok, tokens]).toEqual([true, { input: 9, cached: 2, output: 4, reasoning: 0 }])
  expect(read(bytes)).toEqual({
    ...{ line: 4, id: 'q4', node: 'a', output: 'yes', finish_reason: 'stop', error: null, call: 'call-1' },
    usage: { input_tokens: 9, cached_tokens: 2, output_tokens: 4 },
  })
  const texts = [
    ['/v1/completions', { choices: [{ text: 'yes' }] }],
    [
      '/v1/messages',
      {
        content: [
          { type: 'thinking', text: 'hm' },
          { type: 'text', text: 'yes' },
        ],
      },
    ],
    [
      '/v1/responses',
      { output: [{ type: 'reasoning' }, { type: 'message', content: [{ type: 'output_text', text: 'yes' }] }] },
    ],
  ] as const
  for (const [endpoint, body] of texts) {
    const node = nodeOf({ requests: 'lines', body: { prompt: 'x' }, endpoint })
    expect(read(outputLine({ node, line: LINE, unit: 0 }, answer(body)).bytes).output).toBe('yes')
  }
})

it('is an error where the call failed, has no text or too much of it', () => {
  const name = { node: LINES, line: LINE, unit: 0 }
  const refused = outputLine(name, answer({ error: { message: 'bad', code: 'invalid_value' } }, 400))
  expect(refused.ok).toBe(false)
  expect(read(refused.bytes)).toMatchObject({ output: null, error: { code: 'invalid_value', message: 'bad' } })
  const tool = outputLine(name, answer({ choices: [{ message: { content: null } }] }))
  expect(read(tool.bytes).error.code).toBe('no_text')
  const around = outputLine(name, answer({ choices: [{ text: '' }] })).bytes.length
  const long = (chars: number) => outputLine(name, answer({ choices: [{ text: 'x'.repeat(chars) }] }))
  expect(long(RESULT_BYTES_MAX - around).ok).toBe(true)
  expect(read(long(RESULT_BYTES_MAX - around + 1).bytes).error.code).toBe('result_too_large')
  const judge = { ...LINES, id: 'judge' }
  expect(read(failedBySource({ node: judge, line: LINE, unit: 0 }, LINES).bytes).error).toEqual({
    ...{ code: 'input_failed', message: 'It needs the output of node a for this line, which failed.' },
  })
})

it('is read back by the nodes that take it', () => {
  const chain = nodeOf({ documents: { field: 'text' } })
  const { bytes } = outputLine({ node: chain, line: LINE, unit: 1 }, answer({ choices: [{ text: 'so far' }] }))
  expect(read(bytes)).toMatchObject({ chunk: 2, chunks: 2 })
  expect(readOutput(bytes)).toEqual({ line: 4, unit: 1, output: 'so far' })
  const failed = failedBySource({ node: { ...LINES, copies: 3 }, line: LINE, unit: 2 }, chain)
  expect(read(failed.bytes)).toMatchObject({ copy: 3 })
  expect(readOutput(failed.bytes)).toEqual({ line: 4, unit: 2, output: null })
})
