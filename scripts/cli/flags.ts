/** Flags of a command line: read strictly; a wrong one is answered with one sentence that names it. */
import { type ParseArgsConfig, parseArgs } from 'node:util'

type Options = NonNullable<ParseArgsConfig['options']>
type Values<T extends Options> = ReturnType<typeof parseArgs<{ args: string[]; options: T }>>['values']

export type Flags<T extends Options> = { ok: true; values: Values<T> } | { ok: false; reason: string }

/** `command`: what `npm run` knows it by, and what follows it: `simulate -- run`. */
export function readFlags<T extends Options>(command: string, argv: readonly string[], options: T): Flags<T> {
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

/** Says what is wrong and exits 1. */
export function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
