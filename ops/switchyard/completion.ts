/** What may stand next on a command line: pure, from the commands themselves. */
import type { Command, Flag } from './command.ts'
import { FILES } from './completion-scripts.ts'
import { ALL_COMMON_FLAGS, commonFlags } from './help.ts'

/** Values that are names of files or folders. */
const FILE_VALUE = /^(FILE|PATH|DIR)\b/
/** `on|off`, `A,B|any` is none. */
const CHOICES = /^[a-z_0-9-]+(\|[a-z_0-9-]+)+$/

/** `words`: behind `switchyard`, the one that is being written last. One item a line, as completion-scripts.ts has it. */
export function complete(words: readonly string[], commands: readonly Command[]): string[] {
  const current = words.at(-1) ?? ''
  const { operands, awaits } = read(words.slice(0, -1), commands)
  if (awaits !== null) return valuesOf(awaits.value).filter((line) => line === FILES || line.startsWith(current))
  const given = current.startsWith('-') ? flagsOf(operands, commands) : wordsOf(operands, commands)
  return given.filter((line) => line === FILES || line.startsWith(current))
}

/** `awaits`: a flag whose value is being written. */
function read(
  words: readonly string[],
  commands: readonly Command[],
): { operands: readonly string[]; awaits: Flag | null } {
  const operands: string[] = []
  let awaits: Flag | null = null
  for (const word of words) {
    if (awaits !== null) {
      awaits = null
    } else if (word.startsWith('--')) {
      const flag = flagNamed(word.slice(2), operands, commands)
      awaits = flag?.type === 'string' ? flag : null
    } else if (!word.startsWith('-')) operands.push(word)
  }
  return { operands, awaits }
}

function flagNamed(name: string, operands: readonly string[], commands: readonly Command[]): Flag | undefined {
  const command = commandOf(operands, commands)
  const own = command?.flags[name]
  return own ?? ALL_COMMON_FLAGS[name]
}

/** A noun alone is its list. */
function commandOf(operands: readonly string[], commands: readonly Command[]): Command | undefined {
  const [noun, verb = 'list'] = operands
  return commands.find(({ words }) => words[0] === noun && (words.length === 1 || words[1] === verb))
}

function flagsOf(operands: readonly string[], commands: readonly Command[]): string[] {
  const command = commandOf(operands, commands)
  const flags = { ...command?.flags, ...commonFlags(command ?? {}) }
  return Object.entries(flags).map(([name, { help }]) => `--${name}\t${help}`)
}

function wordsOf(operands: readonly string[], commands: readonly Command[]): string[] {
  const [noun] = operands
  if (noun === undefined)
    return [...new Set(commands.map(({ words }) => words[0]))].map((word) => lineOf(word, commands))
  const verbs = commands.filter(({ words }) => words[0] === noun && words.length === 2)
  if (operands.length === 1 && verbs.length > 0) return verbs.map(({ words, purpose }) => `${words[1]}\t${purpose}`)
  const command = commandOf(operands, commands)
  return command === undefined ? [] : valuesOf(command.args[operands.length - command.words.length])
}

function lineOf(noun: string, commands: readonly Command[]): string {
  const alike = commands.filter(({ words }) => words[0] === noun)
  const [only] = alike
  if (alike.length === 1 && only !== undefined) return `${noun}\t${only.purpose}`
  return `${noun}\t${alike.map(({ words }) => words[1]).join(', ')}`
}

function valuesOf(value: string | undefined): string[] {
  if (value === undefined) return []
  if (FILE_VALUE.test(value)) return [FILES]
  return CHOICES.test(value) ? value.split('|') : []
}
