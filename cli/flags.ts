/** Flags of a command line: read strictly; a wrong one is answered with one sentence that names it. */
import { type ParseArgsConfig, parseArgs } from 'node:util'

type Options = NonNullable<ParseArgsConfig['options']>
type Values<T extends Options> = ReturnType<typeof parseArgs<{ args: string[]; options: T }>>['values']

export type Flags<T extends Options> = { ok: true; values: Values<T> } | { ok: false; reason: string }

/** `command`: what `npm run` knows it by, and what follows it: `simulate -- run`. */
export function readFlags<T extends Options>(
  command: string,
  argv: readonly string[],
  options: T,
  env: NodeJS.ProcessEnv = process.env,
): Flags<T> {
  const kept = keptByNpm(argv, options, env)
  if (kept !== null) {
    const line = `npm run ${command}${command.includes(' -- ') ? '' : ' --'} --${kept}`
    return { ok: false, reason: `npm kept --${kept} for itself. Write \`--\` before the flags: \`${line} …\`` }
  }
  try {
    return { ok: true, values: parseArgs({ args: [...argv], options }).values }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (!code?.startsWith('ERR_PARSE_ARGS')) throw error
    // Node's further sentences explain how to pass a positional, which no command here takes, or what begins with a dash.
    const [sentence = message] = message.split(/\. To specify|\.?\n/)
    const help = command.includes(' -- ') ? `${command} --help` : `${command} -- --help`
    return { ok: false, reason: `${sentence}. \`npm run ${help}\` lists the flags` }
  }
}

/**
 * A flag that stood before `--`, as in `npm run up --port 19002`: npm takes it for a setting of its own, tells it by the
 * environment, and passes its value alone.
 */
function keptByNpm(argv: readonly string[], options: Options, env: NodeJS.ProcessEnv): string | null {
  if (env.npm_command !== 'run-script' && env.npm_command !== 'run') return null
  const given = (name: string) => argv.some((arg) => arg === `--${name}` || arg.startsWith(`--${name}=`))
  const names = Object.keys(options).filter((name) => !NPM_SETTINGS.has(name))
  return names.find((name) => env[`npm_config_${name.replaceAll('-', '_')}`] !== undefined && !given(name)) ?? null
}

/** Flags of ours that are also settings of npm, which a user may have in .npmrc; `cache` npm tells every script. */
const NPM_SETTINGS: ReadonlySet<string> = new Set(['json', 'yes', 'help', 'parseable', 'force', 'cache'])

/** Prints `help` for `--help`, says what is wrong, and exits; else the flags. */
export function flagsOrExit<T extends Options>(command: string, help: string, options: T): Values<T> {
  const argv = process.argv.slice(2)
  if (argv.includes('--help') || argv.includes('-h')) {
    console.log(help)
    process.exit(0)
  }
  const flags = readFlags(command, argv, options)
  return flags.ok ? flags.values : fail(flags.reason)
}

/** Of a command line that is wrong, as for every command of `switchyard` (ops/switchyard/exit-codes.ts). */
export const EXIT_USAGE = 2

/** Says what is wrong and exits. */
export function fail(message: string, exit_code = 1): never {
  process.stderr.write(`${message}\n`)
  process.exit(exit_code)
}

/** Says what is wrong and exits, unless the value of `flag` is a whole number from `min` to `max`. */
export function wholeNumber(flag: string, text: string, min: number, max: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= min && value <= max) return value
  return fail(`${flag} must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`)
}
