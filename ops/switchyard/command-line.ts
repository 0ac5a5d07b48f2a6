/**
 * The command line, read by Commander: which command it names, with which arguments and flags. Flags that every command
 * has may stand anywhere, a command's own behind it. What is wrong is said in a sentence, with the word that was meant.
 */
import { CommanderError, Option, Command as Reader } from 'commander'
import { CommandFailure } from './client.ts'
import type { Command, Flag } from './command.ts'
import { ALL_COMMON_FLAGS, commonFlags, helpOf, helpOfAll, usageOf } from './help.ts'

export type Values = Readonly<Record<string, string | boolean | undefined>>

export type CommandLine =
  | { status: 'run'; command: Exclude<Command, { as: 'script' }>; args: readonly string[]; values: Values }
  /** `argv` is for the script. */
  | { status: 'script'; command: Extract<Command, { as: 'script' }>; argv: readonly string[] }
  | { status: 'show'; text: string }

/** Throws a CommandFailure that says what is wrong. */
export function readCommandLine(argv: readonly string[], commands: readonly Command[], version: string): CommandLine {
  const { operands } = rootReader().parseOptions([...argv])
  const script = commands.find(({ as, words }) => as === 'script' && words[0] === operands[0])
  if (script?.as === 'script') {
    const at = argv.indexOf(script.words[0])
    return { status: 'script', command: script, argv: argv.toSpliced(at, 1) }
  }
  let line: CommandLine | null = null
  const shown: string[] = []
  const root = rootReader().version(version, '-V, --version')
  const tell = (text: string): void => void shown.push(text.trimEnd())
  prepare(root, () => helpOfAll(commands), tell)
  for (const noun of new Set(commands.map(({ words }) => words[0]))) {
    const of_noun = commands.filter(({ words }) => words[0] === noun)
    const group = of_noun.every(({ words }) => words.length === 1) ? root : root.command(noun)
    if (group !== root) prepare(group, () => helpOfAll(of_noun), tell)
    for (const command of of_noun) {
      const name = command.words.at(-1) ?? noun
      // `switchyard pools` is `switchyard pools list`.
      const isDefault = group !== root && name === 'list' && operands.length < 2
      const reader = group.command(name, { isDefault })
      prepare(reader, () => helpOf(command), tell)
      for (const arg of command.args) reader.argument(`<${arg}>`)
      addFlags(reader, command.flags, command.required)
      reader.action(() => {
        if (command.as === 'script') return
        line = { status: 'run', command, args: reader.args, values: reader.optsWithGlobals() }
      })
    }
  }
  try {
    if (operands.length === 0 && !argv.some((arg) => arg.startsWith('-')))
      return { status: 'show', text: helpOfAll(commands) }
    root.parse([...argv], { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.exitCode === 0) return { status: 'show', text: shown.join('\n') }
    throw failureOf(error, operands, commands)
  }
  if (line === null) throw new CommandFailure('usage', 'no command was named; `switchyard --help` lists them')
  return checked(line)
}

function rootReader(): Reader {
  const root = new Reader('switchyard').helpCommand(false)
  addFlags(root, ALL_COMMON_FLAGS)
  return root
}

function prepare(reader: Reader, help: () => string, tell: (text: string) => void): void {
  reader.exitOverride().helpCommand(false).helpOption('-h, --help', 'this text')
  reader.configureHelp({ formatHelp: help })
  reader.configureOutput({ writeOut: tell, writeErr: () => undefined })
}

/** By their own names in `opts()`: `api-key`, and not `apiKey`. */
function addFlags(reader: Reader, flags: Readonly<Record<string, Flag>>, required: readonly string[] = []): void {
  for (const [name, { type, short, value, help }] of Object.entries(flags)) {
    if (name === 'help') continue
    const long = short === undefined ? `--${name}` : `-${short}, --${name}`
    const option = new Option(type === 'boolean' ? long : `${long} <${value ?? 'VALUE'}>`, help)
    option.attributeName = () => name
    reader.addOption(option.makeOptionMandatory(required.includes(name)))
  }
}

/** What Commander takes as it comes. */
function checked(line: CommandLine): CommandLine {
  if (line.status !== 'run') return line
  const { command, values } = line
  const known = { ...commonFlags(command), ...command.flags }
  for (const [name, value] of Object.entries(values)) {
    if (known[name] === undefined) throw wrong(command, `it takes no --${name}${otherKey(name, known)}`)
    // `--url --json`: the flag is more likely than a value that looks like one.
    if (typeof value === 'string' && value.startsWith('--')) {
      throw wrong(command, `--${name} takes a value. For one that begins with dashes write --${name}=${value}`)
    }
  }
  return line
}

function otherKey(name: string, known: Readonly<Record<string, Flag>>): string {
  if (!name.endsWith('-key')) return ''
  const taken = Object.keys(known).find((other) => other.endsWith('-key'))
  return taken === undefined ? '' : `: it takes --${taken}`
}

function failureOf(error: CommanderError, operands: readonly string[], commands: readonly Command[]): CommandFailure {
  const [noun = '', verb = 'list'] = operands
  const command = commands.find(({ words }) => words[0] === noun && (words.length === 1 || words[1] === verb))
  const said = error.message
    .replace(/^error: /, '')
    .replace(/\s*\n\s*/g, ' ')
    .replaceAll("'", '"')
  // Flags, and no command behind them.
  if (error.code === 'commander.help') {
    return new CommandFailure('usage', 'no command was named; `switchyard --help` lists them')
  }
  if (error.code === 'commander.unknownCommand') {
    const known = commands.filter(({ words }) => words[0] === noun)
    const meant = /\(Did you mean .*\)$/.exec(said)?.[0]
    const of = known.length > 0 ? `${noun} ${operands[1]}` : noun
    const names = new Set(known.length > 0 ? known.map(({ words }) => words[1]) : commands.map(({ words }) => words[0]))
    const there = meant ?? `There are ${[...names].join(', ')}`
    return new CommandFailure('usage', `there is no command "${of}". ${there.replaceAll(/^\(|\)$/g, '')}`)
  }
  const [, bare, value] =
    error.code === 'commander.optionMissingArgument' ? (/(--[a-z-]+) <(.*)>/.exec(said) ?? []) : []
  if (bare !== undefined) {
    const reason = `${bare} takes a value: ${value}`
    return command === undefined ? new CommandFailure('usage', reason) : wrong(command, reason)
  }
  if (command === undefined) {
    const flag = /"(--[^"=]+)/.exec(said)?.[1]
    const owner = commands.find(({ flags }) => flag !== undefined && Object.hasOwn(flags, flag.slice(2)))
    const place = owner === undefined ? '' : `: it is a flag of \`${owner.words.join(' ')}\`, and stands behind it`
    return new CommandFailure('usage', `${said}${place}. \`switchyard --help\` lists commands and flags`)
  }
  if (error.code === 'commander.missingMandatoryOptionValue') {
    return wrong(command, `${/--[a-z-]+/.exec(said)?.[0] ?? said} is missing`)
  }
  if (error.code === 'commander.missingArgument')
    return wrong(command, `${/"(.*)"/.exec(said)?.[1]?.replaceAll('|', ' or ')} is missing`)
  if (error.code !== 'commander.excessArguments') return wrong(command, said)
  const [many, takes] = [operands.length - command.words.length, command.args.length]
  return wrong(
    command,
    `it takes ${takes === 0 ? 'no argument' : counted(takes)}, and ${many} ${many === 1 ? 'is' : 'are'} given`,
  )
}

function counted(args: number): string {
  return args === 1 ? '1 argument' : `${args} arguments`
}

export function wrong(command: Command, reason: string): CommandFailure {
  const more = `\`switchyard ${command.words.join(' ')} --help\` lists its flags`
  return new CommandFailure('usage', `${usageOf(command)}: ${reason}. ${more}`)
}
