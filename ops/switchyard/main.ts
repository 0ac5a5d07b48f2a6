/**
 * `npx switchyard …`, `npm run cli -- …`: the admin API, and a tenant's programs, files, batches and applications, from a command line. Tables for
 * people, `--json` for scripts. A key is printed only by the command that makes it. Exit codes: help.ts.
 */
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { textTable } from '../../cli/table.ts'
import { DATA_DIR_DEFAULT, dataDir } from '../system/data-dir.ts'
import { readDevJson } from '../system/dev-json.ts'
import { APPLICATION_COMMANDS } from './application-commands.ts'
import { BATCH_COMMANDS } from './batch-commands.ts'
import { CLASS_COMMANDS } from './class-commands.ts'
import { AdminClient, CommandFailure, ROWS_MAX, type Row, TenantClient } from './client.ts'
import { type Answer, type Command, shown } from './command.ts'
import { FILE_COMMANDS } from './file-commands.ts'
import { FLEET_COMMANDS } from './fleet-commands.ts'
import { commonFlags, helpOf, helpOfAll, usageOf } from './help.ts'
import { PLAN_COMMANDS } from './plan/plan-command.ts'
import { PROGRAM_COMMANDS } from './program-commands.ts'
import { TENANT_COMMANDS } from './tenant-commands.ts'

const COMMANDS: readonly Command[] = [
  ...PROGRAM_COMMANDS,
  ...[...TENANT_COMMANDS, ...CLASS_COMMANDS, ...FLEET_COMMANDS, ...PLAN_COMMANDS],
  ...[...FILE_COMMANDS, ...BATCH_COMMANDS, ...APPLICATION_COMMANDS],
]
const EXIT = { usage: 2, refused: 1, unreachable: 3 } as const
const LIMIT_DEFAULT = 50
const PackageJson = z.object({ version: z.string() })
const VERSION = PackageJson.parse(createRequire(import.meta.url)('../../package.json')).version
/** An API key, an agent's token, an operator's key. */
const SECRET = /^(sk-sy|sya|sy-admin)-[0-9A-Za-z]{20,}$/
/** What a bearer token may hold. */
const PRINTABLE_ASCII = /^[\x21-\x7e]+$/

type Values = Record<string, string | boolean | undefined>

async function main(given: readonly string[]): Promise<void> {
  const argv = withFlagsLast(given)
  const [noun, verb] = argv
  if (noun === undefined || noun === '--help' || noun === '-h') return void console.log(helpOfAll(COMMANDS))
  if (noun === '--version' || noun === '-V') return void console.log(VERSION)
  const ofNoun = COMMANDS.filter(({ words }) => words[0] === noun)
  if (ofNoun.length === 0) {
    const nouns = [...new Set(COMMANDS.map(({ words }) => words[0]))].join(', ')
    throw new CommandFailure('usage', `there is no command "${noun}"; there are ${nouns}`)
  }
  const word = ofNoun.find(({ words }) => words.length === 1)
  if (word !== undefined) return run(word, argv.slice(1))
  const isBare = verb === undefined || verb.startsWith('-')
  if (verb === '--help' || verb === '-h') return void console.log(helpOfAll(ofNoun))
  // `switchyard pools` is `switchyard pools list`.
  const command = ofNoun.find(({ words }) => words[1] === (isBare ? 'list' : verb))
  if (command === undefined) {
    const verbs = ofNoun.map(({ words }) => words[1]).join(', ')
    throw new CommandFailure('usage', `there is no command "${noun} ${verb}"; there are ${verbs}`)
  }
  await run(command, argv.slice(isBare ? 1 : 2))
}

/** `switchyard --json ps` is `switchyard ps --json`. */
function withFlagsLast(argv: readonly string[]): string[] {
  const known = { ...commonFlags({}), ...commonFlags({ as: 'tenant' }) }
  let words = 0
  for (;;) {
    const name = nameOf(argv[words])
    const flag = name === null || name === 'help' ? undefined : known[name]
    if (flag === undefined) break
    words += flag.type === 'boolean' || argv[words]?.includes('=') ? 1 : 2
  }
  return [...argv.slice(words), ...argv.slice(0, words)]
}

function nameOf(arg: string | undefined): string | null {
  return arg?.startsWith('--') ? (arg.slice(2).split('=')[0] ?? null) : null
}

async function run(command: Command, argv: readonly string[]): Promise<void> {
  const { values, positionals } = readLine(command, argv)
  if (values.help === true) return void console.log(helpOf(command))
  if (positionals.length !== command.args.length)
    throw wrong(command, `it takes ${command.args.join(' ') || 'no argument'}`)
  refuseSecrets(command, positionals, values)
  const missing = command.required?.find((flag) => values[flag] === undefined)
  if (missing !== undefined) throw wrong(command, `--${missing} is missing`)
  const text = (flag: string): string | undefined => (typeof values[flag] === 'string' ? values[flag] : undefined)
  const flag = (name: string): boolean => values[name] === true
  const json = values.json === true
  const asked = { args: positionals, text, flag, json, limit: limitOf(command, text('limit')) }
  const key = await keyFor(command, text)
  const answer =
    command.as === 'tenant'
      ? await command.run({ ...asked, client: new TenantClient(key.url, key.key) })
      : await command.run({ ...asked, client: new AdminClient(key.url, key.key) })
  print(answer, json)
}

function readLine(command: Command, argv: readonly string[]): { values: Values; positionals: string[] } {
  const all = { ...commonFlags(command), ...command.flags }
  const options = Object.fromEntries(Object.entries(all).map(([name, { type }]) => [name, { type }]))
  try {
    const args = withNegativeNumbers(argv)
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    return { values: values as Values, positionals }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (!code?.startsWith('ERR_PARSE_ARGS')) throw error
    throw wrong(command, message.split('. To specify')[0] ?? message)
  }
}

/** `--longitude -6.3`: parseArgs takes what begins with a dash for a flag, unless it hangs on its own. */
function withNegativeNumbers(argv: readonly string[]): string[] {
  const args: string[] = []
  for (const arg of argv) {
    const flag = args.at(-1)
    if (/^-\d/.test(arg) && flag?.startsWith('--') && !flag.includes('=')) args.splice(-1, 1, `${flag}=${arg}`)
    else args.push(arg)
  }
  return args
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

function wrong(command: Command, reason: string): CommandFailure {
  return new CommandFailure(
    'usage',
    `${usageOf(command)}: ${reason}. \`switchyard ${command.words.join(' ')} --help\` says more`,
  )
}

/** How the key of a command is given. */
const KEYS = {
  operator: { flag: 'admin-key', variable: 'SWITCHYARD_ADMIN_KEY', of: 'the admin key' },
  tenant: { flag: 'api-key', variable: 'SWITCHYARD_API_KEY', of: 'the API key' },
} as const

/** A URL that was given goes with a key that was given: the key of the system that runs here is sent nowhere else. */
async function keyFor(
  { as }: Command,
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
  if (url !== undefined) throw new CommandFailure('usage', `no key was given: --${flag} or ${variable}`)
  const { devJson } = dataDir(text('data-dir') ?? DATA_DIR_DEFAULT)
  const dev = await readDevJson(devJson)
  if (dev !== null) return { url: dev.url, key: key ?? (as === 'tenant' ? dev.apiKey : dev.adminKey) }
  const message = `nothing runs here: give --url and --${flag} (or SWITCHYARD_URL and ${variable}), or \`npm run up\``
  throw new CommandFailure('usage', message)
}

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return /^https?:$/.test(protocol) && username === '' && password === ''
}

function print(answer: Answer, json: boolean): void {
  if (answer.kind === 'done') return
  if (json) return void console.log(JSON.stringify(answer.kind === 'list' ? answer.rows : answer.row, null, 2))
  if (answer.kind === 'list') {
    return void console.log(answer.rows.length === 0 ? answer.empty : textTable(answer.columns, answer.rows))
  }
  const { row, secret, tables = {} } = answer
  if (secret !== undefined) console.log(`${shown(row[secret])}\n\nShown this once: keep it.\n`)
  const fields = Object.entries(row).filter(([name]) => name !== secret && !(name in tables))
  const width = Math.max(...fields.map(([name]) => name.length))
  for (const [name, value] of fields) console.log(`${name.padEnd(width)}  ${shown(value)}`)
  for (const [name, columns] of Object.entries(tables)) console.log(`\n${textTable(columns, row[name] as Row[])}`)
}

try {
  await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof CommandFailure)) throw error
  process.stderr.write(`switchyard: ${error.message}\n`)
  process.exitCode = EXIT[error.kind]
}
