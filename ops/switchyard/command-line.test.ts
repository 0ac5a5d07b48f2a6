import { expect, it } from 'vitest'
import { CommandFailure } from './client.ts'
import { type CommandLine, readCommandLine } from './command-line.ts'
import { COMMANDS } from './commands.ts'
import { complete } from './completion.ts'

const read = (...argv: string[]): CommandLine => readCommandLine(argv, COMMANDS, '1.2.3')

function run(...argv: string[]) {
  const line = read(...argv)
  if (line.status !== 'run') throw new Error(`${argv.join(' ')} gives ${line.status}`)
  return { words: line.command.words.join(' '), args: line.args, values: line.values }
}

function refusal(...argv: string[]): string {
  try {
    read(...argv)
  } catch (error) {
    if (error instanceof CommandFailure && error.kind === 'usage') return error.message
    throw error
  }
  throw new Error(`${argv.join(' ')} was read`)
}

it('takes flags of every command before, between and behind its words', () => {
  const wanted = { words: 'keys create', args: ['acme'], values: { json: true, url: 'http://u', name: 'laptop' } }
  expect(run('--json', '--url', 'http://u', 'keys', 'create', 'acme', '--name', 'laptop')).toEqual(wanted)
  expect(run('keys', '--json', 'create', '--url=http://u', '--name=laptop', 'acme')).toEqual(wanted)
  expect(run('keys', 'create', 'acme', '--name', 'laptop', '--url', 'http://u', '--json')).toEqual(wanted)
})

it('takes a noun alone for its list, short flags, and numbers below zero', () => {
  expect(run('pools', '--region', 'eu')).toEqual({ words: 'pools list', args: [], values: { region: 'eu' } })
  expect(run('--limit', '3', 'regions')).toMatchObject({ words: 'regions list', values: { limit: '3' } })
  expect(run('apply', '-f', 'x.yaml')).toMatchObject({ words: 'apply', values: { file: 'x.yaml' } })
  expect(run('regions', 'update', 'us', '--longitude', '-6.3').values).toEqual({ longitude: '-6.3' })
  expect(run('tenants', 'create', '--name', 'a', '--').values).toEqual({ name: 'a' })
})

it('shows help of everything, of a noun and of a command, and the version', () => {
  const shown = (...argv: string[]) => {
    const line = read(...argv)
    return line.status === 'show' ? line.text : line.status
  }
  expect(shown()).toBe(shown('--help'))
  for (const words of ['ps', 'nice PROGRAM|CLASS WEIGHT', 'keys create TENANT', 'backup DIR', 'completion']) {
    expect(shown('-h')).toContain(`  ${words}`)
  }
  expect(shown('keys', '--help')).toContain('keys revoke TENANT KEY-ID')
  expect(shown('keys', '--help')).not.toContain('pools')
  expect(shown('keys', 'create', '--help')).toContain('--models A,B')
  expect(shown('keys', 'create', '--help')).toContain('Exits 0 if done')
  expect(shown('logs', '--help')).toContain('--limit N')
  for (const word of ['backup', 'restore', 'completion', 'kill', 'env', 'apply']) {
    expect(shown(word, '--help')).toContain('--json')
    expect(shown(word, '--help')).not.toContain('--limit')
  }
  expect(shown('--version')).toBe('1.2.3')
  expect(shown('-V')).toBe('1.2.3')
})

it('hands the line to a script of this machine as it is', () => {
  expect(read('--data-dir', 'd', 'status', '--show-key')).toMatchObject({
    status: 'script',
    command: { words: ['status'] },
    argv: ['--data-dir', 'd', '--show-key'],
  })
})

it.each([
  [['pss'], 'there is no command "pss". Did you mean ps?'],
  [['frobnicate'], 'There are up, down, status'],
  [['keys', 'creat', 'acme'], 'there is no command "keys creat". Did you mean create?'],
  [['keys', 'xyzzy'], 'There are list, create, set, revoke'],
  [['kill'], 'kill PROGRAM: PROGRAM is missing.'],
  [['nice'], 'PROGRAM or CLASS is missing.'],
  [['nice', 'a'], 'nice PROGRAM|CLASS WEIGHT: WEIGHT is missing.'],
  [['kill', 'a', 'b'], 'kill PROGRAM: it takes 1 argument, and 2 are given'],
  [['keys', 'list', 'a', 'b'], 'it takes 1 argument, and 2 are given'],
  [['ps', 'a'], 'ps: it takes no argument, and 1 is given'],
  [['backup', 'd', '--limit', '3'], 'backup DIR: it takes no --limit'],
  [['--limit', '3', 'top'], 'top: it takes no --limit'],
  [['--json'], 'no command was named; `switchyard --help` lists them'],
  [['ps', '--jsn'], 'unknown option "--jsn" (Did you mean --json?)'],
  [['top', '--sort'], '--sort takes a value: service|'],
  [['top', '--sort', '--json'], '--sort takes a value'],
  [['tenants', 'create'], '--name is missing'],
  [['ps', '--admin-key', 'k'], 'it takes no --admin-key: it takes --api-key'],
  [['pools', '--api-key', 'k'], 'it takes --admin-key'],
  [['completion', 'bash', '--url', 'http://u'], 'it takes no --url'],
  [['--sort', 'calls', 'top'], 'it is a flag of `top`, and stands behind it'],
])('says what is wrong with %j', (argv, said) => {
  expect(refusal(...argv)).toContain(said)
})

it('completes nouns, verbs, flags, values and files', () => {
  const words = (...given: string[]) => complete(given, COMMANDS).map((line) => line.split('\t')[0])
  expect(words('')).toEqual(expect.arrayContaining(['up', 'ps', 'keys', 'completion']))
  expect(words('ni')).toEqual(['nice'])
  expect(words('keys', 'r')).toEqual(['revoke'])
  expect(words('keys', 'create', '--m')).toEqual(['--models', '--month-budget'])
  expect(words('--json', 'keys', 'create', 'acme', '--str')).toEqual(['--strict'])
  expect(words('top', '--sort', 's')).toEqual(['service', 'started'])
  expect(words('--url', 'top', 'top', '--in')).toEqual(['--interval'])
  expect(words('files', 'upload', '')).toEqual([':files'])
  expect(words('apply', '--file', 'x')).toEqual([':files'])
  expect(words('completion', 'f')).toEqual(['fish'])
  expect(words('tenants', 'create', '--inference', '')).toEqual(['on', 'off'])
  expect(words('nothing', '')).toEqual([])
})
