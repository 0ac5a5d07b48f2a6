/** `ps`, `top`, `why`, `kill`, `nice`, `env`: a tenant's own programs, under the names that a shell has for processes. */
import { emitKeypressEvents } from 'node:readline'
import type { Column } from '../../cli/table.ts'
import { FcfsWaits } from '../../src/protocol/fcfs-waits.ts'
import { LivePosition } from '../../src/protocol/live.ts'
import { ShownCall, ShownProgram } from '../../src/protocol/shown-program.ts'
import { at, CommandFailure, type Row, type TenantClient } from './client.ts'
import { field, figure, type TenantAsked, type TenantCommand, weightOf } from './command.ts'
import { explain, explainFcfs, positionText } from './explain-program.ts'
import { toldEnded, toldWeight } from './told-changes.ts'
import { LISTED_MAX, ListedProgram, nextSort, SORT_NAMES, type Sort, topLines, typedFilter, type View } from './top.ts'

/** As many as a run may have (core/program/program-state.ts). */
const CALLS_SEARCHED_MAX = 20_000
const INTERVAL_S = 1
const ALTERNATE_SCREEN = { on: '\x1b[?1049h\x1b[?25l', off: '\x1b[?25h\x1b[?1049l' } as const

const SORT = { type: 'string', value: SORT_NAMES.join('|'), help: 'sort by (default service)' } as const
const FILTER = { type: 'string', value: 'TEXT', help: 'only programs whose id or app contains TEXT' } as const

export const PROGRAM_COMMANDS: readonly TenantCommand[] = [
  {
    words: ['ps'],
    lists: true,
    as: 'tenant',
    args: [],
    flags: { all: { type: 'boolean', help: 'ended programs too' } },
    purpose: 'the tenant’s running programs, newest first',
    run: async ({ client, flag, limit }) => {
      const running = await client.rows('/programs', { state: 'running' }, limit)
      const left = limit - running.length
      const ended = flag('all') && left > 0 ? await client.rows('/programs', { state: 'ended' }, left) : []
      const positions = running.length === 0 ? new Map() : await client.positions()
      const placed = running.map((row) => ({ ...row, position: positions.get(String(row.id)) ?? null }))
      const order: Column<Row> = {
        title: 'order',
        cell: ({ position }) => (position ? positionText(LivePosition.parse(position)) : '-'),
      }
      const counts = [figure('calls'), figure('open_calls', 'open'), figure('service_s', 'service s')]
      const times = [field('started_at', 'started'), field('ended_at', 'ended')]
      return {
        kind: 'list',
        rows: [...placed, ...ended],
        columns: [field('id'), field('state'), field('app'), ...counts, ...times, order],
        empty: 'No program runs. The first call with an X-Program-Id starts one; --all shows those that have ended.',
      }
    },
  },
  {
    words: ['top'],
    as: 'tenant',
    args: [],
    flags: {
      ...{ sort: SORT, filter: FILTER },
      interval: { type: 'string', value: 'S', help: `seconds between refreshes (default ${INTERVAL_S})` },
    },
    purpose: 'the tenant’s programs as they run; s sorts, / filters, q quits',
    run: async (asked) => {
      await top(asked)
      return { kind: 'done' }
    },
  },
  {
    words: ['why'],
    as: 'tenant',
    args: ['PROGRAM'],
    flags: {
      call: { type: 'string', value: 'ID', help: 'one of its calls (default: the last)' },
      fcfs: { type: 'boolean', help: 'what its calls would have waited under first come, first served' },
    },
    purpose: 'what a program does, and why a call went to its engine and waited',
    run: async ({ client, args: [id = ''], text, flag }) => {
      const program = await client.one('GET', `/programs/${at(id)}`)
      const call = await callOf(client, id, text('call'))
      const sentences = explain(ShownProgram.parse(program), ShownCall.nullable().parse(call), Date.now())
      const fcfs = flag('fcfs') ? FcfsWaits.parse(await client.one('GET', `/programs/${at(id)}/fcfs`)) : null
      if (fcfs !== null) sentences.push(...explainFcfs(fcfs))
      const told = fcfs === null ? {} : { fcfs }
      return { kind: 'told', row: { program, call, ...told, explanation: sentences }, text: sentences.join('\n') }
    },
  },
  {
    words: ['kill'],
    as: 'tenant',
    args: ['PROGRAM'],
    flags: {},
    purpose: 'ends a program; its open calls are cancelled on their engines',
    run: async ({ client, args: [id = ''] }) => toldEnded(await client.one('DELETE', `/programs/${at(id)}`)),
  },
  {
    words: ['nice'],
    as: 'tenant',
    args: ['PROGRAM|CLASS', 'WEIGHT'],
    flags: { class: { type: 'boolean', help: 'the first argument is a class: all its programs weigh that' } },
    purpose: 'sets a program’s weight among the tenant’s own: 2 halves its rank, 1 is the default',
    run: async ({ client, args: [id = '', text = ''], flag }) => {
      const path = `/${flag('class') ? 'classes' : 'programs'}/${at(id)}`
      return toldWeight(await client.one('PATCH', path, { weight: weightOf(text) }))
    },
  },
  {
    words: ['env'],
    as: 'tenant',
    args: [],
    flags: {},
    purpose: 'shell exports with address and key: eval "$(npx switchyard env)"',
    run: async ({ client }) => {
      const row = environmentOf(client)
      const exports = Object.entries(row).map(([name, value]) => `export ${name}=${quoted(value)}`)
      return { kind: 'told', row, text: exports.join('\n') }
    },
  },
]

/** Under the names that the clients of OpenAI and Anthropic, this command line and the README read. */
function environmentOf({ url, key }: TenantClient): Record<string, string> {
  return {
    ...{ SWITCHYARD_URL: url, SWITCHYARD_API_KEY: key, KEY: key },
    ...{ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key },
    ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: key },
  }
}

/** For a POSIX shell. */
function quoted(value: string): string {
  return `'${value.replaceAll("'", `'\\''`)}'`
}

/** The latest first, so that the last one is on the first page. Null: the program has made no call. */
async function callOf(client: TenantClient, program: string, id: string | undefined): Promise<Row | null> {
  const latest = (limit: number, asked = {}): Promise<Row[]> =>
    client.rows(`/programs/${at(program)}/calls`, { order: 'desc', ...asked }, limit)
  if (id === undefined) return (await latest(1, { positions: 'true' }))[0] ?? null
  const found = (await latest(CALLS_SEARCHED_MAX, { positions: 'true' })).find((call) => call.id === id)
  if (found !== undefined) return found
  const message = `program ${program} has no call ${id} among its last ${CALLS_SEARCHED_MAX}`
  throw new CommandFailure('refused', message, `\`switchyard why ${program}\` explains its last call`)
}

async function top(asked: TenantAsked): Promise<void> {
  const interval_s = Number(asked.text('interval') ?? INTERVAL_S)
  if (!(interval_s >= 0.2 && interval_s <= 3600)) {
    throw new CommandFailure('usage', '--interval takes seconds from 0.2 to 3600')
  }
  let sort = sortOf(asked.text('sort'))
  let filter = asked.text('filter') ?? ''
  let isTyping = false
  const { stdout, stdin } = process
  const view = (rows: number): View => ({ sort, filter, columns: stdout.columns || 120, rows })
  let listed = await look(asked.client)
  if (asked.json) return void console.log(JSON.stringify(listed.programs, null, 2))
  if (!stdout.isTTY) {
    const lines = topLines(
      listed.programs,
      listed.more,
      { ...view(Number.POSITIVE_INFINITY), columns: 1000 },
      Date.now(),
    )
    return void console.log(lines.join('\n'))
  }
  let note = ''
  const draw = (): void => {
    const lines = topLines(listed.programs, listed.more, view((stdout.rows || 24) - 1), Date.now())
    stdout.write(
      `\x1b[H\x1b[2J${lines.join('\n')}\n${isTyping ? `Only with: ${filter}▏ (Enter: keep, Esc: all)` : note}`,
    )
  }
  const { promise: left, resolve: leave } = Promise.withResolvers<'left'>()
  const onKey = (text: string | undefined, { name, ctrl }: { name?: string; ctrl?: boolean }): void => {
    if (ctrl === true && name === 'c') leave('left')
    else if (isTyping) {
      const typed = typedFilter(filter, text ?? '', name)
      filter = typed.filter
      isTyping = !typed.over
    } else if (text === '/') isTyping = true
    else if (name === 'q') leave('left')
    else if (name === 's') sort = nextSort(sort)
    draw()
  }
  emitKeypressEvents(stdin)
  if (stdin.isTTY) stdin.setRawMode(true)
  stdin.on('keypress', onKey).resume()
  stdout.on('resize', draw)
  stdout.write(ALTERNATE_SCREEN.on)
  try {
    draw()
    while ((await Promise.race([left, pause(interval_s)])) !== 'left') {
      try {
        listed = await look(asked.client)
        note = ''
      } catch (error) {
        if (!(error instanceof CommandFailure) || error.kind !== 'unreachable') throw error
        note = `${error.message}. What is shown was so before; it is asked again.`
      }
      draw()
    }
  } finally {
    stdout.off('resize', draw)
    stdout.write(ALTERNATE_SCREEN.off)
    if (stdin.isTTY) stdin.setRawMode(false)
    stdin.off('keypress', onKey).pause()
  }
}

function sortOf(text: string | undefined): Sort {
  const sort = SORT_NAMES.find((name) => name === (text ?? 'service'))
  if (sort !== undefined) return sort
  throw new CommandFailure('usage', `--sort takes one of ${SORT_NAMES.join(', ')}, not "${text}"`)
}

async function look(client: TenantClient): Promise<{ programs: ListedProgram[]; more: boolean }> {
  const rows = await client.rows('/programs', { state: 'running' }, LISTED_MAX)
  const positions = rows.length === 0 ? new Map() : await client.positions()
  const programs = rows.map((row) => ListedProgram.parse({ ...row, position: positions.get(String(row.id)) ?? null }))
  return { programs, more: rows.length >= LISTED_MAX }
}

function pause(s: number): Promise<'due'> {
  return new Promise((resolve) => setTimeout(() => resolve('due'), 1000 * s))
}
