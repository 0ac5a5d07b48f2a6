/** Flags of the small commands: --data-dir, --help and a few switches. A wrong flag is refused. */
import { EXIT_USAGE, fail, readFlags } from '../../cli/flags.ts'
import { DATA_DIR_DEFAULT, type DataDir, dataDir } from './data-dir.ts'

export interface SmallFlags<Switch extends string> {
  place: DataDir
  on: Record<Switch, boolean>
}

/** `switches`: name → what it does. Prints help and exits 0, or names what is wrong and exits 2. */
export function readDataDirFlags<Switch extends string>(
  command: string,
  purpose: string,
  switches: Readonly<Record<Switch, string>>,
  argv: readonly string[] = process.argv.slice(2),
): SmallFlags<Switch> {
  const names = Object.keys(switches) as Switch[]
  const flags = readFlags(command, argv, {
    'data-dir': { type: 'string', default: DATA_DIR_DEFAULT },
    help: { type: 'boolean', short: 'h', default: false },
    ...Object.fromEntries(names.map((name) => [name, { type: 'boolean' as const, default: false }])),
  })
  if (!flags.ok) fail(flags.reason, EXIT_USAGE)
  const given: Record<string, unknown> = flags.values
  if (given.help === true) {
    console.log(helpText(command, purpose, switches))
    process.exit(0)
  }
  const on = Object.fromEntries(names.map((name) => [name, given[name] === true])) as Record<Switch, boolean>
  return { place: dataDir(String(given['data-dir'])), on }
}

function helpText(command: string, purpose: string, switches: Readonly<Record<string, string>>): string {
  const lines = Object.entries({ [`data-dir ${DATA_DIR_DEFAULT}`]: 'where the system keeps its state', ...switches })
  const flags = lines.map(([name, text]) => `  --${name.padEnd(22)} ${text}`)
  return [purpose, '', `  npm run ${command} -- [flags]`, '', ...flags, '  --help'].join('\n')
}
