/** `batches`: files of calls that run below all online work, with one of the tenant's own keys. */
import { existsSync } from 'node:fs'
import type { Column } from '../../cli/table.ts'
import { at, CommandFailure, type Row, type TenantClient } from './client.ts'
import { bodyOf, field, type TenantCommand } from './command.ts'
import { OUT, timeOf, uploadFile, writeContent } from './file-commands.ts'
import { waitUntilEnded } from './wait-until-ended.ts'

const ENDED = ['completed', 'failed', 'expired', 'cancelled']

interface Counts {
  total: number
  completed: number
  failed: number
}

const count = (name: keyof Counts): Column<Row> => ({
  ...{ title: name, align: 'right' },
  cell: (row) => String(countsOf(row)[name]),
})

const COLUMNS: readonly Column<Row>[] = [
  ...[field('id'), field('status'), field('endpoint'), count('total'), count('completed'), count('failed')],
  { title: 'created', cell: ({ created_at }) => timeOf(created_at) },
]

export const BATCH_COMMANDS: readonly TenantCommand[] = [
  {
    words: ['batches', 'list'],
    lists: true,
    as: 'tenant',
    ...{ args: [], flags: {}, purpose: 'the tenant’s batches, newest first' },
    run: async ({ client, limit }) => {
      const rows = await client.list('/batches', limit)
      return { kind: 'list', rows, columns: COLUMNS, empty: 'There is no batch.' }
    },
  },
  {
    words: ['batches', 'get'],
    as: 'tenant',
    ...{ args: ['BATCH_ID'], flags: {}, purpose: 'one batch: its status, counts, files and errors' },
    run: async ({ client, args: [id = ''] }) => ({ kind: 'one', row: await batchOf(client, id) }),
  },
  {
    words: ['batches', 'create'],
    as: 'tenant',
    args: ['PATH|FILE_ID'],
    flags: {
      endpoint: { type: 'string', value: 'PATH', help: 'of all its lines (default /v1/chat/completions)' },
      window: { type: 'string', value: 'TIME', help: 'after which it expires, as 24h or 90m (default 24h)' },
      wait: { type: 'boolean', help: 'waits until it has ended, and shows its progress' },
    },
    purpose: 'runs the lines of a file, which is stored first if it is a path here',
    run: async ({ client, args: [input = ''], text, flag }) => {
      const input_file_id = existsSync(input) ? (await uploadFile(client, input, 'batch')).id : input
      const body = bodyOf({
        input_file_id,
        endpoint: text('endpoint') ?? '/v1/chat/completions',
        completion_window: text('window') ?? '24h',
      })
      const batch = await client.one('POST', '/batches', body)
      return { kind: 'one', row: flag('wait') ? await waited(client, String(batch.id)) : batch }
    },
  },
  {
    words: ['batches', 'wait'],
    as: 'tenant',
    ...{ args: ['BATCH_ID'], flags: {}, purpose: 'waits until a batch has ended, and shows its progress' },
    run: async ({ client, args: [id = ''] }) => ({ kind: 'one', row: await waited(client, id) }),
  },
  {
    words: ['batches', 'cancel'],
    as: 'tenant',
    ...{ args: ['BATCH_ID'], flags: {}, purpose: 'cancels a batch; what has finished is delivered' },
    run: async ({ client, args: [id = ''] }) => {
      return { kind: 'one', row: await client.one('POST', `/batches/${at(id)}/cancel`) }
    },
  },
  {
    words: ['batches', 'output'],
    as: 'tenant',
    args: ['BATCH_ID'],
    flags: { out: OUT, errors: { type: 'boolean', help: 'the error file instead' } },
    purpose: 'the answers of a batch, one line per line of its input',
    run: async (asked) => {
      const [id = ''] = asked.args
      const batch = await batchOf(asked.client, id)
      const file = asked.flag('errors') ? batch.error_file_id : batch.output_file_id
      if (typeof file === 'string') return writeContent(asked, `/files/${at(file)}/content`)
      const which = asked.flag('errors') ? 'error file' : 'output file'
      const status = String(batch.status)
      const why = ENDED.includes(status)
        ? `${status}, and has none`
        : `${status}; \`switchyard batches wait ${id}\` waits`
      throw new CommandFailure('refused', `there is no ${which}: the batch is ${why}`)
    },
  },
]

function batchOf(client: TenantClient, id: string): Promise<Row> {
  return client.one('GET', `/batches/${at(id)}`)
}

async function waited(client: TenantClient, id: string): Promise<Row> {
  let began: { at_ms: number; done: number } | null = null
  const hasEnded = ({ status }: Row) => ENDED.includes(String(status))
  return waitUntilEnded(
    `Batch ${id}`,
    () => batchOf(client, id),
    hasEnded,
    (batch) => {
      began ??= { at_ms: performance.now(), done: doneOf(batch) }
      return progressOf(batch, began)
    },
  )
}

function progressOf(batch: Row, began: { at_ms: number; done: number }): string {
  const { total, failed } = countsOf(batch)
  const done = doneOf(batch)
  if (total === 0) return String(batch.status)
  const per_s = (done - began.done) / ((performance.now() - began.at_ms) / 1000)
  const left = per_s > 0 && done < total ? `, about ${Math.ceil((total - done) / per_s)} s left` : ''
  return `${batch.status}: ${done} of ${total} lines${failed > 0 ? `, ${failed} failed` : ''}${left}`
}

function doneOf(batch: Row): number {
  const { completed, failed } = countsOf(batch)
  return completed + failed
}

function countsOf({ request_counts }: Row): Counts {
  return request_counts as unknown as Counts
}
