/** `logs`: what the processes of a self-hosted system have written, in order of time, and what they go on to write. */
import { once } from 'node:events'
import { type FileHandle, open, readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DATA_DIR_DEFAULT, dataDir } from '../system/data-dir.ts'
import { CommandFailure } from './client.ts'
import type { LocalAsked, LocalCommand } from './command.ts'
import { fits, LOG_LEVELS, type LogFilter, type LogLine, readLogLine, shownLine } from './log-lines.ts'

const LOOK_MS = 250
const READ_BYTES = 256 * 1024
const LOG_FILE = /^(.+)\.log(\.1)?$/

export const LOG_COMMANDS: readonly LocalCommand[] = [
  {
    words: ['logs'],
    lists: true,
    as: 'local',
    args: [],
    flags: {
      follow: { type: 'boolean', short: 'f', help: 'keeps printing new lines until Ctrl-C' },
      program: { type: 'string', value: 'ID', help: 'only lines about this program' },
      tenant: { type: 'string', value: 'ID', help: 'only lines about this tenant' },
      level: { type: 'string', value: LOG_LEVELS.join('|'), help: 'this level and worse (default debug)' },
      source: { type: 'string', value: 'PROCESS', help: 'only of control-plane, up, or an agent by its id' },
    },
    purpose: 'logs of the control plane and agents on this machine, latest last',
    run: async (asked) => {
      const folder = dataDir(asked.text('data-dir') ?? DATA_DIR_DEFAULT).logs
      const filter = filterOf(asked)
      const show = (line: LogLine): void => {
        console.log(asked.json ? JSON.stringify(line) : shownLine(line))
      }
      const logs = await openLogs(folder)
      try {
        if (asked.flag('follow')) {
          await follow(folder, logs, asked.limit, filter, show)
          return { kind: 'done' }
        }
        const lines = await latest(logs, asked.limit, filter)
        if (asked.json) return { kind: 'list', rows: lines.map((line) => ({ ...line })), columns: [], empty: '' }
        for (const line of lines) show(line)
        if (lines.length === 0) console.log(noneText(filter, logs))
        return { kind: 'done' }
      } finally {
        await Promise.all([...logs.values()].map((log) => log.close()))
      }
    },
  },
]

function filterOf({ text }: LocalAsked): LogFilter {
  const level = LOG_LEVELS.find((known) => known === (text('level') ?? 'debug'))
  if (level === undefined) {
    throw new CommandFailure('usage', `--level takes one of ${LOG_LEVELS.join(', ')}, not "${text('level')}"`)
  }
  return { level, source: text('source') ?? null, tenant: text('tenant') ?? null, program: text('program') ?? null }
}

function noneText({ program, tenant }: LogFilter, logs: OpenLogs): string {
  const about = program !== null || tenant !== null
  return about
    ? 'No line is about that. The control plane writes a line per call only where it was started with LOG_LEVEL=info.'
    : `No line fits. There are logs of ${sourcesOf(logs).join(', ')}.`
}

/** A log that is read on from where it was left, also past its rotation (log-file.ts). */
class OpenLog {
  readonly #source: string
  readonly #file: string
  #handle: FileHandle
  #at_bytes = 0
  #rest: Buffer = Buffer.alloc(0)
  #before = new Date(0).toISOString()

  private constructor(source: string, file: string, handle: FileHandle) {
    this.#source = source
    this.#file = file
    this.#handle = handle
  }

  static async open(source: string, file: string): Promise<OpenLog | null> {
    const handle = await openIfAny(file)
    return handle === null ? null : new OpenLog(source, file, handle)
  }

  /** What was written since the last look. */
  async read(): Promise<LogLine[]> {
    const lines = await this.#readOn()
    const present = await stat(this.#file).catch(() => null)
    if (present === null || present.ino === (await this.#handle.stat()).ino) return lines
    // The file was renamed between two reads: its end first, then the one that took its place.
    lines.push(...(await this.#readOn()))
    const next = await openIfAny(this.#file)
    if (next === null) return lines
    await this.#handle.close()
    this.#handle = next
    this.#at_bytes = 0
    return [...lines, ...(await this.#readOn())]
  }

  close(): Promise<void> {
    return this.#handle.close()
  }

  async #readOn(): Promise<LogLine[]> {
    const chunks = [this.#rest]
    for (;;) {
      const { buffer, bytesRead } = await this.#handle.read(Buffer.alloc(READ_BYTES), 0, READ_BYTES, this.#at_bytes)
      if (bytesRead === 0) break
      this.#at_bytes += bytesRead
      chunks.push(buffer.subarray(0, bytesRead))
    }
    const bytes = Buffer.concat(chunks)
    const end = bytes.lastIndexOf('\n') + 1
    this.#rest = bytes.subarray(end)
    const texts = bytes.subarray(0, end).toString('utf8').split('\n')
    return texts.flatMap((text) => {
      const line = readLogLine(this.#source, text, this.#before)
      if (line === null) return []
      this.#before = line.at
      return [line]
    })
  }
}

type OpenLogs = Map<string, OpenLog>

async function openLogs(folder: string): Promise<OpenLogs> {
  const logs: OpenLogs = new Map()
  await openNew(folder, logs)
  if (logs.size > 0) return logs
  const why = `there are no logs in ${folder}. They are there where \`npm run up\` runs; --data-dir names another folder`
  throw new CommandFailure('refused', why)
}

/** Of agents that came meanwhile, too. */
async function openNew(folder: string, logs: OpenLogs): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  for (const name of names.sort()) {
    const source = LOG_FILE.exec(name)?.[1]
    if (source === undefined || logs.has(name)) continue
    const log = await OpenLog.open(source, path.join(folder, name))
    if (log !== null) logs.set(name, log)
  }
}

function sourcesOf(logs: OpenLogs): string[] {
  return [...new Set([...logs.keys()].map((name) => LOG_FILE.exec(name)?.[1] ?? name))].sort()
}

async function latest(logs: OpenLogs, limit: number, filter: LogFilter): Promise<LogLine[]> {
  const all = (await Promise.all([...logs.values()].map((log) => log.read()))).flat()
  return inOrder(all.filter((line) => fits(line, filter))).slice(-limit)
}

/** Stable: lines of one process stay in order. */
function inOrder(lines: LogLine[]): LogLine[] {
  return lines.sort((a, b) => a.at.localeCompare(b.at))
}

async function follow(
  folder: string,
  logs: OpenLogs,
  limit: number,
  filter: LogFilter,
  show: (line: LogLine) => void,
): Promise<void> {
  const stopped = new AbortController()
  const stop = (): void => stopped.abort()
  process.once('SIGINT', stop).once('SIGTERM', stop)
  // A reader that has seen enough, as `head` has.
  process.stdout.once('error', stop)
  for (const line of await latest(logs, limit, filter)) show(line)
  while (!stopped.signal.aborted) {
    await sleep(LOOK_MS, undefined, { signal: stopped.signal }).catch(() => undefined)
    await openNew(folder, logs)
    for (const line of await latest(logs, Number.POSITIVE_INFINITY, filter)) show(line)
    if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain')
  }
}

async function openIfAny(file: string): Promise<FileHandle | null> {
  try {
    return await open(file, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
