import { expect, it } from 'vitest'
import { drawWorkload } from '../../../gpu-agent/planner/application.ts'
import { tableOfLengths } from '../../../gpu-agent/planner/lengths/length-table.ts'
import { ApplicationTokens } from '../../protocol/application-tokens.ts'
import { newApplication } from './application-state.ts'
import { checkedGraph } from './graph.ts'
import { Nodes } from './graph-schema.ts'
import { plannerForm } from './planner-form.ts'

const says = (content: string) => ({ messages: [{ role: 'user', content }], max_tokens: 50 })
const NODES = Nodes.parse([
  { id: 'a', model: 'm', requests: 'lines', body: says('Answer: {{q}}') },
  { id: 'sum', model: 'm', documents: { field: 'text' }, body: says('{{previous}}{{chunk}}') },
  { id: 'judge', model: 'big', from: { nodes: ['a'], each: 2 }, body: says('{{q}} {{a.output}}') },
  { id: 'none', model: 'm', requests: 'lines', where: { x: 1 }, body: says('{{q}}') },
  { id: 'some', model: 'm', from: { nodes: ['a'] }, where: { x: 2 }, body: says('{{a.output}}') },
])

const always = (tokens: number) => ({ quantiles: new Array<number>(101).fill(tokens), mean_tokens: tokens })

it('is what the planner takes, with tokens by bytes and lengths as they were', () => {
  const checked = checkedGraph(NODES)
  if (!checked.ok) throw new Error(checked.message)
  const given = {
    ...{ id: 'a', tenant: 't', key: 'k', name: 'n', digest: 'd', input: { file: 'f', parts: [] }, start: true },
    ...{ limits: { calls: null, tokens: null }, completion_window: '24h', metadata: null, regions: null },
    ...{ created_at_ms: 1000, expires_at_ms: 5000 },
  }
  const state = newApplication(given, ['1', '2', '3', '4', '5'])
  const [a, sum, judge, , some] = state.nodes
  Object.assign(some ?? {}, { requests: 3 })
  Object.assign(a ?? {}, { requests: 10, inputs: { field_bytes: 400, chunk_bytes: 0, chunks: {} } })
  Object.assign(sum ?? {}, { requests: 7, inputs: { field_bytes: 0, chunk_bytes: 7 * 800, chunks: { 2: 2, 3: 1 } } })
  Object.assign(judge ?? {}, { requests: 20, inputs: { field_bytes: 800, chunk_bytes: 0, chunks: {} } })
  const form = plannerForm(state, checked.graph, ({ model }) => ({
    bytes_per_token: 4,
    lengths: model === 'm' ? always(80) : null,
  }))
  expect(form).toEqual({
    name: 'n',
    nodes: [
      {
        ...{ id: 'a', model: 'm', max_output_tokens: 50, template_tokens: 3, requests: { count: 10, tokens: 10 } },
        output_lengths: always(80),
      },
      {
        ...{ id: 'sum', model: 'm', max_output_tokens: 50, template_tokens: 1 },
        ...{ documents: { chunk_tokens: 200, chunks: [2, 2, 3] }, output_lengths: always(80) },
      },
      {
        ...{ id: 'judge', model: 'big', max_output_tokens: 50, template_tokens: 12, from: { nodes: ['a'], each: 2 } },
      },
      // It takes 3 of 10 outputs, of 50 tokens each.
      {
        ...{ id: 'some', model: 'm', max_output_tokens: 50, template_tokens: 1, requests: { count: 3, tokens: 50 } },
        output_lengths: always(80),
      },
    ],
  })
  const drawn = drawWorkload(
    ApplicationTokens.parse(form),
    (_model, { output_lengths }) => tableOfLengths(output_lengths ?? always(12), 4096),
    () => 0.5,
  )
  expect(drawn.ok && drawn.workload.nodes.length).toBe(4)
})
