/**
 * `npx switchyard …`, `npm run cli -- …`: the admin API, and a tenant's programs, files, batches and applications, from a command line. Tables for
 * people, `--json` for scripts. A key is printed only by the command that makes it, or shows it. Exit codes: exit-codes.ts.
 */
// Before any schema is made: it gives schemas the method `openapi`, which those of `apply` have.
import '@hono/zod-openapi'
import { createRequire } from 'node:module'
import { z } from 'zod'
import { textTable } from '../../cli/table.ts'
import { DATA_DIR_DEFAULT, dataDir } from '../system/data-dir.ts'
import { readDevJson } from '../system/dev-json.ts'
import { AdminClient, CommandFailure, ROWS_MAX, type Row, TenantClient } from './client.ts'
import { type Answer, type Command, shown } from './command.ts'
import { readCommandLine, type Values, wrong } from './command-line.ts'
import { COMMANDS } from './commands.ts'
import { complete } from './completion.ts'
import { EXIT } from './exit-codes.ts'

const LIMIT_DEFAULT = 50
const PackageJson = z.object({ version: z.string() })
const VERSION = PackageJson.parse(createRequire(import.meta.url)('../../package.json')).version
/** An API key, an agent's token, an operator's key. */
const SECRET = /^(sk-sy|sya|sy-admin)-[0-9A-Za-z]{20,}$/
/** What a bearer token may hold. */
const PRINTABLE_ASCII = /^[\x21-\x7e]+$/

async function main(argv: readonly string[]): Promise<void> {
  if (argv[0] === '__complete') return void console.log(complete(argv.slice(1), COMMANDS).join('\n'))
  const line = readCommandLine(argv, COMMANDS, VERSION)
  if (line.status === 'show') return void console.log(line.text)
  if (line.status === 'run') return run(line.command, line.args, line.values)
  process.argv.splice(2, Number.POSITIVE_INFINITY, ...line.argv)
  await line.command.load()
}

async function run(
  command: Exclude<Command, { as: 'script' }>,
  args: readonly string[],
  values: Values,
): Promise<void> {
  refuseSecrets(command, args, values)
  const text = (flag: string): string | undefined => (typeof values[flag] === 'string' ? values[flag] : undefined)
  const flag = (name: string): boolean => values[name] === true
  const json = values.json === true
  const asked = { args, text, flag, json, limit: limitOf(command, text('limit')) }
  if (command.as === 'local') return print(await command.run(asked), json)
  const key = await keyFor(command, text)
  const answer =
    command.as === 'tenant'
      ? await command.run({ ...asked, client: new TenantClient(key.url, key.key) })
      : await command.run({ ...asked, client: new AdminClient(key.url, key.key) })
  print(answer, json)
}

/** A secret in a path ends up in logs, one in a name in lists: no flag but those for keys takes one. Never echoed. */
function refuseSecrets(
  command: Command,
  positionals: readonly string[],
  { 'admin-key': _, 'api-key': __, ...values }: Values,
): void {
  const all = [...positionals, ...Object.values(values)]
  if (!all.some((text) => typeof text === 'string' && SECRET.test(text))) return
  const reason = 'one of these is a key or token and not the id of one (`switchyard keys list TENANT` shows keys’ ids)'
  throw wrong(command, `${reason}; nothing was sent`)
}

function limitOf(command: Command, text: string | undefined): number {
  const limit = text === undefined ? LIMIT_DEFAULT : Number(text)
  if (Number.isInteger(limit) && limit >= 1 && limit <= ROWS_MAX) return limit
  throw wrong(command, `--limit takes a whole number from 1 to ${ROWS_MAX}`)
}

/** How the key of a command is given. */
const KEYS = {
  operator: { flag: 'admin-key', variable: 'SWITCHYARD_ADMIN_KEY', of: 'the admin key' },
  tenant: { flag: 'api-key', variable: 'SWITCHYARD_API_KEY', of: 'the API key' },
} as const

/** A URL that was given goes with a key that was given: the key of the system that runs here is sent nowhere else. */
async function keyFor(
  { as }: { as?: 'tenant' },
  text: (flag: string) => string | undefined,
): Promise<{ url: string; key: string }> {
  const { flag, variable, of } = KEYS[as ?? 'operator']
  const url = text('url') ?? process.env.SWITCHYARD_URL
  const key = text(flag) ?? process.env[variable]
  if (url !== undefined && !isPlainUrl(url)) {
    throw new CommandFailure('usage', 'the URL is no http(s) URL, or it has a user or password in it')
  }
  if (key !== undefined && !PRINTABLE_ASCII.test(key)) {
    throw new CommandFailure('usage', `${of} has characters that no key has: a line break, a space, an ellipsis`)
  }
  if (url !== undefined && key !== undefined) return { url, key }
  const { root, devJson } = dataDir(text('data-dir') ?? DATA_DIR_DEFAULT)
  const dev = await readDevJson(devJson)
  // `eval "$(switchyard env)"` gives the URL of the system that runs here.
  const is_elsewhere = url !== undefined && (dev === null || new URL(url).origin !== new URL(dev.url).origin)
  if (is_elsewhere) throw new CommandFailure('usage', `no key was given: give one with --${flag} or ${variable}`)
  if (dev !== null) return { url: dev.url, key: key ?? (as === 'tenant' ? dev.apiKey : dev.adminKey) }
  const next = `\`npm run up\` starts a system here. For another one give --url and --${flag}, or SWITCHYARD_URL and ${variable}`
  throw new CommandFailure('usage', `nothing runs on ${root}`, next)
}

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return /^https?:$/.test(protocol) && username === '' && password === ''
}

function print(answer: Answer, json: boolean): void {
  if (answer.kind === 'done') return
  if (json) return void console.log(JSON.stringify(answer.kind === 'list' ? answer.rows : answer.row, null, 2))
  if (answer.kind === 'told') return void console.log(answer.text)
  if (answer.kind === 'list') {
    return void console.log(answer.rows.length === 0 ? answer.empty : textTable(answer.columns, answer.rows))
  }
  const { row, secret, tables = {} } = answer
  if (secret !== undefined) console.log(`${shown(row[secret])}\n\nShown only once: keep it.\n`)
  const fields = Object.entries(row).filter(([name]) => name !== secret && !(name in tables))
  const width = Math.max(...fields.map(([name]) => name.length))
  for (const [name, value] of fields) console.log(`${name.padEnd(width)}  ${shown(value)}`)
  for (const [name, columns] of Object.entries(tables)) console.log(`\n${textTable(columns, row[name] as Row[])}`)
}

try {
  await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof CommandFailure)) throw error
  process.stderr.write(`switchyard: ${[error.message, ...(error.next === null ? [] : [error.next])].join('. ')}\n`)
  process.exitCode = EXIT[error.kind]
}
