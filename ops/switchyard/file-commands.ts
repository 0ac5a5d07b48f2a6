/** `files`: a tenant's files, stored and read with one of its own keys. */
import { createWriteStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { megabytes, withProgress } from '../../cli/progress.ts'
import { at, CommandFailure, type Row, type TenantClient } from './client.ts'
import { type Answer, bodyOf, field, figure, type TenantAsked, type TenantCommand } from './command.ts'

/** A larger file is sent in parts of PART_BYTES. */
const ONE_REQUEST_BYTES_MAX = 32 * 1024 * 1024
const PART_BYTES = 32 * 1024 * 1024

export const OUT = { type: 'string', value: 'PATH', help: 'where to write it (default: standard output)' } as const

const COLUMNS = [
  ...[field('id'), field('filename'), field('purpose'), figure('bytes')],
  ...[{ title: 'created', cell: (row: Row) => timeOf(row.created_at) }],
  { title: 'expires', cell: (row: Row) => timeOf(row.expires_at) },
]

export const FILE_COMMANDS: readonly TenantCommand[] = [
  {
    words: ['files', 'list'],
    lists: true,
    as: 'tenant',
    ...{ args: [], flags: {}, purpose: 'the tenant’s files, newest first' },
    run: async ({ client, limit }) => {
      return { kind: 'list', rows: await client.list('/files', limit), columns: COLUMNS, empty: 'There is no file.' }
    },
  },
  {
    words: ['files', 'get'],
    as: 'tenant',
    ...{ args: ['FILE_ID'], flags: {}, purpose: 'one file' },
    run: async ({ client, args: [id = ''] }) => ({ kind: 'one', row: await client.one('GET', `/files/${at(id)}`) }),
  },
  {
    words: ['files', 'upload'],
    as: 'tenant',
    args: ['PATH'],
    flags: { purpose: { type: 'string', value: 'NAME', help: 'what it is for (default batch)' } },
    purpose: 'stores a file of up to 1 GiB; a large one is sent in parts',
    run: async ({ client, args: [file = ''], text }) => {
      return { kind: 'one', row: await uploadFile(client, file, text('purpose') ?? 'batch') }
    },
  },
  {
    words: ['files', 'download'],
    as: 'tenant',
    ...{ args: ['FILE_ID'], flags: { out: OUT }, purpose: 'the contents of a file' },
    run: async (asked) => writeContent(asked, `/files/${at(asked.args[0] ?? '')}/content`),
  },
  {
    words: ['files', 'delete'],
    as: 'tenant',
    ...{ args: ['FILE_ID'], flags: {}, purpose: 'deletes a file and its contents' },
    run: async ({ client, args: [id = ''] }) => ({ kind: 'one', row: await client.one('DELETE', `/files/${at(id)}`) }),
  },
]

/** The file as the API describes it. */
export async function uploadFile(client: TenantClient, file: string, purpose: string): Promise<Row> {
  const bytes = await sizeOf(file)
  let sent_bytes = 0
  const work = async (): Promise<Row> => {
    const handle = await open(file)
    try {
      const read = async (length: number): Promise<Blob> => {
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, sent_bytes)
        if (bytesRead < length) throw new CommandFailure('usage', `${file} has become shorter while it was read`)
        return new Blob([buffer])
      }
      const filename = path.basename(file)
      if (bytes <= ONE_REQUEST_BYTES_MAX) {
        const form = new FormData()
        form.append('purpose', purpose)
        form.append('file', await read(bytes), filename)
        return await client.one('POST', '/files', form)
      }
      const upload = await client.one('POST', '/uploads', { bytes, filename, purpose })
      const part_ids: unknown[] = []
      while (sent_bytes < bytes) {
        const length = Math.min(PART_BYTES, bytes - sent_bytes)
        const form = new FormData()
        form.append('data', await read(length))
        part_ids.push((await client.one('POST', `/uploads/${at(String(upload.id))}/parts`, form)).id)
        sent_bytes += length
      }
      const done = await client.one('POST', `/uploads/${at(String(upload.id))}/complete`, bodyOf({ part_ids }))
      return done.file as Row
    } finally {
      await handle.close()
    }
  }
  return withProgress(`Storing ${file}, ${megabytes(bytes)}`, work, () => megabytes(sent_bytes))
}

/** Writes what lies at the path where `--out` says. */
export async function writeContent({ client, text }: TenantAsked, from: string): Promise<Answer> {
  const content = await client.content(from)
  const out = text('out')
  const target = out === undefined ? process.stdout : createWriteStream(out)
  try {
    await pipeline(Readable.fromWeb(content as never), target, { end: out !== undefined })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // Its reader has seen enough, as `head` has.
    if (code === 'EPIPE') return { kind: 'done' }
    const place = out ?? 'standard output'
    throw new CommandFailure('unreachable', `${from} could not be written to ${place}: ${message}`)
  }
  return { kind: 'done' }
}

async function sizeOf(file: string): Promise<number> {
  try {
    const found = await stat(file)
    if (found.isFile()) return found.size
  } catch (error) {
    throw new CommandFailure('usage', `${file} cannot be read: ${(error as Error).message}`)
  }
  throw new CommandFailure('usage', `${file} is not a file`)
}

/** Seconds since 1970 as a date. */
export function timeOf(seconds: unknown): string {
  return typeof seconds === 'number' ? new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ') : '-'
}
