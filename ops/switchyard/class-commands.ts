/** `classes`: what is known about classes of programs, and how programs of one are ordered. */
import type { Column } from '../../cli/table.ts'
import { at, type Row } from './client.ts'
import { field, figure, type OperatorCommand, shown, weightOf } from './command.ts'
import { toldWeight } from './told-changes.ts'

const OBJECTIVE = {
  objective: { type: 'string', value: 'NAME', help: 'token_latency (the default) or response' },
} as const

export const CLASS_COMMANDS: readonly OperatorCommand[] = [
  {
    words: ['classes', 'list'],
    lists: true,
    args: [],
    flags: { tenant: { type: 'string', value: 'TENANT', help: 'whose classes' } },
    required: ['tenant'],
    purpose: 'a tenant’s classes of programs, with quantiles over ended programs',
    run: async ({ client, text, limit }) => {
      const rows = await client.list('/classes', { tenant: text('tenant') }, limit)
      const columns = [
        ...[field('class'), figure('ends'), field('updated_at', 'updated')],
        ...[quantile('output_tokens', 'p50'), quantile('output_tokens', 'p90'), quantile('output_tokens', 'p99')],
        ...[quantile('calls', 'p50'), quantile('service_s', 'p50'), quantile('service_s', 'p99')],
        figure('prompt_tokens_per_output_token', 'prompt per output token'),
      ]
      return { kind: 'list', rows, columns, empty: 'No program of this tenant has ended with an answer.' }
    },
  },
  {
    words: ['classes', 'get'],
    ...{ args: ['TENANT', 'CLASS'], flags: {}, purpose: 'what is known about one class' },
    run: async ({ client, args: [tenant = '', name = ''] }) => {
      const {
        index: _,
        objective: __,
        tools: ___,
        ...row
      } = await client.one('GET', `/classes/${at(tenant)}/${at(name)}`)
      return { kind: 'one', row }
    },
  },
  {
    words: ['classes', 'nice'],
    ...{ args: ['TENANT', 'CLASS', 'WEIGHT'], flags: {} },
    purpose: 'sets the weight of a class’s programs among the tenant’s own, within 10 s',
    run: async ({ client, args: [tenant = '', name = '', text = ''] }) =>
      toldWeight(await client.one('PATCH', `/classes/${at(tenant)}/${at(name)}`, { weight: weightOf(text) })),
  },
  {
    words: ['classes', 'tools'],
    lists: true,
    ...{
      args: ['TENANT', 'CLASS'],
      flags: {},
      purpose: 'tools that programs of the class call, and how long they take',
    },
    run: async ({ client, args: [tenant = '', name = ''], limit }) => {
      const { tools } = await client.one('GET', `/classes/${at(tenant)}/${at(name)}`)
      const rows = Array.isArray(tools) ? (tools as Row[]).slice(0, limit) : []
      const columns = [
        ...[TOOL, figure('uses'), quantile('duration_s', 'p50'), quantile('duration_s', 'p90')],
        ...[quantile('answer_tokens', 'p50'), quantile('answer_tokens', 'p90')],
      ]
      return { kind: 'list', rows, columns, empty: 'No program of the class that has ended had more than one call.' }
    },
  },
  {
    words: ['classes', 'index'],
    lists: true,
    args: ['TENANT', 'CLASS'],
    flags: OBJECTIVE,
    purpose: 'how a program of the class is ordered by its output so far',
    run: async ({ client, args: [tenant = '', name = ''], text, limit }) => {
      const objective = text('objective')
      const query = objective === undefined ? '' : `?${new URLSearchParams({ objective })}`
      const { index } = await client.one('GET', `/classes/${at(tenant)}/${at(name)}${query}`)
      const rows = Array.isArray(index) ? (index as Row[]).slice(0, limit) : []
      const columns = [figure('output_tokens'), figure('index'), figure('expected_remaining_tokens')]
      return { kind: 'list', rows, columns, empty: 'Nothing is known of the class.' }
    },
  },
]

/** The API has names in printable ASCII only. */
const TOOL: Column<Row> = {
  title: 'tool',
  cell: ({ name, kind }) => (typeof name === 'string' ? name : `(${String(kind)})`),
}

function quantile(of: string, name: string): Column<Row> {
  const cell = (row: Row): string => shown((row[of] as Row | undefined)?.[name])
  return { title: `${of.replaceAll('_', ' ')} ${name}`, align: 'right', cell }
}
