/** `apps`: several models over fixed inputs, with one of the tenant's own keys. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import type { Column } from '../../cli/table.ts'
import { at, CommandFailure, type Row, type TenantClient } from './client.ts'
import { type Answer, bodyOf, field, figure, type TenantAsked, type TenantCommand } from './command.ts'
import { OUT, timeOf, uploadFile, writeContent } from './file-commands.ts'
import { waitUntilEnded } from './wait-until-ended.ts'

const ENDED = ['completed', 'failed', 'expired', 'cancelled', 'limit_reached', 'planned']
/** A larger input is stored as a file. */
const INLINE_BYTES_MAX = 1024 * 1024
const BAR_CHARS = 24

interface Counts {
  total: number
  completed: number
  failed: number
}

const count = (name: keyof Counts, title: string = name): Column<Row> => ({
  ...{ title, align: 'right' },
  cell: (row) => String(countsOf(row)[name]),
})

const COLUMNS: readonly Column<Row>[] = [
  ...[field('id'), field('name'), field('status'), count('total', 'calls'), count('completed'), count('failed')],
  { title: 'created', cell: ({ created_at }) => timeOf(created_at) },
]

const NODE_COLUMNS: readonly Column<Row>[] = [
  ...[field('id', 'node'), field('model'), figure('requests'), figure('waiting'), figure('running')],
  ...[figure('completed'), figure('failed')],
  { title: 'tokens', align: 'right', cell: ({ usage }) => String((usage as Row).total_tokens) },
]

const PLAN_COLUMNS: readonly Column<Row>[] = [
  ...[figure('step'), field('id', 'node'), field('model'), field('after'), figure('requests')],
  ...[figure('prompt_tokens_estimate', 'prompt tokens'), figure('output_tokens_estimate', 'output tokens')],
  { title: 'engines now', cell: ({ engines }) => enginesOf(engines as readonly Row[]) },
  field('stages', 'on lent hosts'),
]

export const APPLICATION_COMMANDS: readonly TenantCommand[] = [
  {
    words: ['apps', 'list'],
    lists: true,
    as: 'tenant',
    ...{ args: [], flags: {}, purpose: 'the tenant’s applications, newest first' },
    run: async ({ client, limit }) => {
      const rows = await client.list('/applications', limit)
      return { kind: 'list', rows, columns: COLUMNS, empty: 'There is no application.' }
    },
  },
  {
    words: ['apps', 'get'],
    as: 'tenant',
    ...{ args: ['APP_ID'], flags: {}, purpose: 'one application: its status, nodes and errors' },
    run: async ({ client, args: [id = ''] }) => one(await applicationOf(client, id)),
  },
  {
    words: ['apps', 'create'],
    as: 'tenant',
    args: ['FILE'],
    flags: {
      input: {
        type: 'string',
        value: 'PATH|ID',
        help: 'lines to work on, as a file here or one that is stored (else as FILE says)',
      },
      id: { type: 'string', value: 'ID', help: 'with the same id, nodes and input it goes on (else as FILE says)' },
      window: { type: 'string', value: 'TIME', help: 'after which it expires, as 24h or 90m (default 24h)' },
      'plan-only': { type: 'boolean', help: 'checks and plans it, and does not run it' },
      wait: { type: 'boolean', help: 'waits until it has ended, and shows its progress' },
    },
    purpose: 'runs the application of a JSON file, or resumes it',
    run: async (asked) => {
      const { client, args, text, flag } = asked
      const described = readApplication(args[0] ?? '')
      const body = bodyOf({
        ...described,
        ...bodyOf({ id: text('id'), completion_window: text('window') }),
        input: await inputOf(asked, described.input, path.dirname(args[0] ?? '')),
        start: flag('plan-only') ? false : described.start,
      })
      const made = await client.one('POST', '/applications', body)
      return one(flag('wait') ? await waited(client, String(made.id)) : made)
    },
  },
  {
    words: ['apps', 'wait'],
    as: 'tenant',
    ...{ args: ['APP_ID'], flags: {}, purpose: 'waits until an application has ended, and shows its progress' },
    run: async ({ client, args: [id = ''] }) => one(await waited(client, id)),
  },
  {
    words: ['apps', 'plan'],
    as: 'tenant',
    args: ['APP_ID'],
    flags: {},
    purpose: 'the order of its nodes, their sizes, and which engines serve them now',
    run: async ({ client, args: [id = ''] }) => {
      const plan = await client.one('GET', `/applications/${at(id)}/plan`)
      const steps = plan.steps as string[][]
      const rows = (plan.nodes as Row[]).map((node) => ({
        ...node,
        step: 1 + steps.findIndex((step) => step.includes(String(node.id))),
        stages: stagesOf(plan.hosts as PlannedHosts | null, String(node.id)),
      }))
      return { kind: 'list', rows, columns: PLAN_COLUMNS, empty: 'The application has no node.' }
    },
  },
  {
    words: ['apps', 'cancel'],
    as: 'tenant',
    ...{ args: ['APP_ID'], flags: {}, purpose: 'stops an application; `apps create` resumes it' },
    run: async ({ client, args: [id = ''] }) => {
      return one(await client.one('POST', `/applications/${at(id)}/cancel`))
    },
  },
  {
    words: ['apps', 'output'],
    as: 'tenant',
    args: ['APP_ID'],
    flags: {
      node: { type: 'string', value: 'NODE', help: 'whose output (default: the last node of the file)' },
      out: OUT,
    },
    purpose: 'the answers of a node so far, one line per request',
    run: async (asked) => {
      const [id = ''] = asked.args
      const node = asked.text('node') ?? String((await nodesOf(asked.client, id)).at(-1)?.id)
      return writeContent(asked, `/applications/${at(id)}/nodes/${at(node)}/output`)
    },
  },
]

function one(row: Row): Answer {
  return { kind: 'one', row, tables: { nodes: NODE_COLUMNS } }
}

function readApplication(file: string): Row {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Row
  } catch (error) {
    throw new CommandFailure('usage', `${file} cannot be read as JSON: ${(error as Error).message}`)
  }
}

/** `described`: of the file, where `{"path": …}` is relative to it. */
async function inputOf({ client, text }: TenantAsked, described: unknown, folder: string): Promise<unknown> {
  const given = text('input')
  const named = (described as { path?: unknown } | undefined)?.path
  const file = given ?? (typeof named === 'string' ? path.resolve(folder, named) : undefined)
  if (file === undefined) return described
  if (!existsSync(file)) {
    if (given !== undefined && !given.includes('/')) return { file: given }
    throw new CommandFailure('usage', `there is no file ${file} to read lines from`)
  }
  if (statSync(file).size > INLINE_BYTES_MAX) return { file: (await uploadFile(client, file, 'user_data')).id }
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '')
  return { lines: lines.map((line, index) => readLine(line, `${file}, line ${index + 1}`)) }
}

function readLine(line: string, place: string): unknown {
  try {
    return JSON.parse(line)
  } catch (error) {
    throw new CommandFailure('usage', `${place} is not JSON: ${(error as Error).message}`)
  }
}

function applicationOf(client: TenantClient, id: string): Promise<Row> {
  return client.one('GET', `/applications/${at(id)}`)
}

async function nodesOf(client: TenantClient, id: string): Promise<Row[]> {
  return (await applicationOf(client, id)).nodes as Row[]
}

function waited(client: TenantClient, id: string): Promise<Row> {
  const hasEnded = ({ status }: Row) => ENDED.includes(String(status))
  return waitUntilEnded(`Application ${id}`, () => applicationOf(client, id), hasEnded, progressOf)
}

function progressOf(application: Row): string {
  const { total, completed, failed } = countsOf(application)
  if (total === 0) return String(application.status)
  const done = completed + failed
  const filled = Math.round((BAR_CHARS * done) / total)
  const bar = `[${'#'.repeat(filled)}${'-'.repeat(BAR_CHARS - filled)}]`
  const { estimated_end_at } = application
  const left_s =
    typeof estimated_end_at === 'number' ? Math.max(0, Math.round(estimated_end_at - Date.now() / 1000)) : null
  const left = left_s === null ? '' : `, about ${left_s} s left`
  return `${bar} ${done} of ${total} calls${failed > 0 ? `, ${failed} failed` : ''}${left}`
}

function countsOf({ request_counts }: Row): Counts {
  return request_counts as unknown as Counts
}

interface PlannedHosts {
  stages: { start_s: number; end_s: number; nodes: { ids: string[]; dp: number; tp: number }[] }[]
}

/** `0-12 s on 2 x 1 GPU`, for each stage in which the node runs. Null: it borrows none. */
function stagesOf(hosts: PlannedHosts | null, id: string): string | null {
  const planned = (hosts?.stages ?? []).flatMap(({ start_s, end_s, nodes }) =>
    nodes
      .filter(({ ids }) => ids.includes(id))
      .map(({ dp, tp }) => `${start_s.toFixed(0)}-${end_s.toFixed(0)} s on ${dp} x ${tp} GPU`),
  )
  return planned.length === 0 ? null : planned.join(', ')
}

function enginesOf(engines: readonly Row[]): string {
  if (engines.length === 0) return 'none: it waits'
  return engines.map(({ region, ready, seats }) => `${region}: ${ready} (${seats} seats)`).join(', ')
}
