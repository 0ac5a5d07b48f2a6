/** Fig. 5's graphs as files, and what is refused. */
import { describe, expect, it } from 'vitest'
import { ApplicationTokens } from '../../src/protocol/application-tokens.ts'
import { drawWorkload } from './application.ts'
import { lengthTable } from './lengths/length-table.ts'
import { inputsOf, type Workload } from './workload.ts'

/** Every output has 10 tokens. */
const ten = lengthTable(Array(101).fill(10), 10, 1000)

function drawn(nodes: readonly object[]): Workload {
  const outcome = drawWorkload(
    ApplicationTokens.parse({ name: 'test', nodes }),
    () => ten,
    () => 0.5,
  )
  if (!outcome.ok) throw new Error(outcome.reason)
  return outcome.workload
}

function refused(nodes: readonly object[], lengths = ten): string {
  const outcome = drawWorkload(
    ApplicationTokens.parse({ name: 'test', nodes }),
    (model) => (model === 'unknown' ? undefined : lengths),
    () => 0.5,
  )
  return outcome.ok ? 'not refused' : outcome.reason
}

const requests = { count: 3, tokens: 5 }

describe('Fig. 5', () => {
  it('(a) ensembling: the same requests for every model, no data flow', () => {
    const { nodes } = drawn(['a', 'b', 'c'].map((id) => ({ id, model: id, requests })))
    expect(nodes.map(({ input_tokens }) => [...input_tokens])).toEqual(Array(3).fill([5, 5, 5]))
    expect(nodes.map(inputsOf)).toEqual([[], [], []])
  })

  it('(b) routing: each model has its share', () => {
    const { nodes } = drawn([
      { id: 'a', model: 'a', requests: [5, 6] },
      { id: 'b', model: 'b', requests: [7] },
    ])
    expect(nodes.map(({ input_tokens }) => [...input_tokens])).toEqual([[5, 6], [7]])
  })

  const evaluate = { id: 'evaluate', model: 'judge', template_tokens: 3, from: { nodes: ['summarize'], each: 2 } }

  it('(c) chain summary: a self-loop over the chunks of a document, and an evaluator of the last summaries', () => {
    const { nodes } = drawn([
      evaluate,
      { id: 'summarize', model: 'writer', template_tokens: 1, documents: { chunks: [1, 3], chunk_tokens: 100 } },
    ])
    const [summarize, evaluator] = nodes
    expect([...(summarize?.input_tokens ?? [])]).toEqual([101, 101, 111, 111])
    expect([...(summarize?.next ?? [])]).toEqual([-1, 2, 3, -1])
    expect([...(evaluator?.input_tokens ?? [])]).toEqual([13, 13, 13, 13])
    expect(evaluator?.parents).toEqual([[[0, 0]], [[0, 0]], [[0, 3]], [[0, 3]]])
  })

  it('(d) the loop expanded into a node for each position is fused into the same node', () => {
    const expanded = drawn([
      { id: 's1', model: 'writer', requests: [101, 101] },
      { id: 's2', model: 'writer', template_tokens: 101, from: { nodes: ['s1'] } },
      { id: 's3', model: 'writer', template_tokens: 101, from: { nodes: ['s2'] } },
      { id: 'evaluate', model: 'judge', template_tokens: 3, from: { nodes: ['s3'] } },
    ])
    expect(expanded.nodes.map(({ id }) => id)).toEqual(['s1', 'evaluate'])
    expect([...(expanded.nodes[0]?.next ?? [])]).toEqual([2, 3, 4, 5, -1, -1])
    expect([...(expanded.nodes[0]?.input_tokens ?? [])]).toEqual([101, 101, 111, 111, 111, 111])
    expect(expanded.nodes[1]?.parents).toEqual([[[0, 4]], [[0, 5]]])
  })

  it('does not fuse other models, outputs that are taken twice, or several inputs', () => {
    const source = { id: 'a', model: 'm', requests }
    expect(drawn([source, { id: 'b', model: 'other', from: { nodes: ['a'] } }]).nodes).toHaveLength(2)
    expect(drawn([source, { id: 'b', model: 'm', from: { nodes: ['a'], each: 2 } }]).nodes).toHaveLength(2)
    const joined = drawn([source, { ...source, id: 'b' }, { id: 'c', model: 'm', from: { nodes: ['a', 'b'] } }])
    expect(joined.nodes).toHaveLength(3)
    expect([...(joined.nodes[2]?.input_tokens ?? [])]).toEqual([20, 20, 20])
  })
})

describe('an application that cannot be planned', () => {
  it.each([
    [[{ id: 'a', model: 'm' }], 'node a: it has one of requests, documents and from'],
    [[{ id: 'a', model: 'm', from: { nodes: ['b'] } }], 'there is no node b'],
    [
      [
        { id: 'a', model: 'm', from: { nodes: ['b'] } },
        { id: 'b', model: 'n', from: { nodes: ['a'] } },
      ],
      'nodes a, b take outputs from each other in a circle',
    ],
    [
      [
        { id: 'a', model: 'm', requests },
        { id: 'a', model: 'm', requests },
      ],
      'node a is there twice',
    ],
    [[{ id: 'a', model: 'unknown', requests }], 'no output lengths are known of the model unknown'],
    [[{ id: 'a', model: 'm', requests: [1000] }], 'request 1 has 1000 tokens, and m takes 1000 with its output'],
    [[{ id: 'a', model: 'm', requests, output_tokens: [1] }], 'it has 3 requests and 1 output_tokens'],
  ])('%#: says which node and why', (nodes, reason) => {
    expect(refused(nodes)).toContain(reason)
  })

  it('takes lengths that are known, up to the limits', () => {
    const { nodes } = drawn([{ id: 'a', model: 'm', max_output_tokens: 50, requests, output_tokens: [1, 40, 90] }])
    expect([...(nodes[0]?.output_tokens ?? [])]).toEqual([1, 40, 50])
  })

  it('bounds ids and requests', () => {
    expect(ApplicationTokens.safeParse({ name: 'x', nodes: [{ id: 'a b', model: 'm', requests }] }).success).toBe(false)
    const many = (count: number) => ({ name: 'x', nodes: [{ id: 'a', model: 'm', requests: { count, tokens: 1 } }] })
    expect(ApplicationTokens.safeParse(many(1_000_000)).success).toBe(true)
    expect(ApplicationTokens.safeParse(many(1_000_001)).success).toBe(false)
  })
})
