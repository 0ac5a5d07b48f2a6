/** Every command of the documentation: run by the release check or a test, or listed with the reason; none with a flag or file that does not exist. */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { shellWords } from '../../gpu-agent/src/fronts/vllm/process/shell-words.ts'
import { parseCli } from '../../gpu-agent/src/options.ts'
import { runTool } from '../../ops/python/run-tool.ts'
import { COMMANDS } from '../../ops/switchyard/commands.ts'
import { parseUpFlags } from '../../ops/system/up-flags.ts'
import { allPages } from '../docs-site/pages.ts'
import { ROOT } from '../testbed/repository.ts'
import { COVERAGE } from './commands.ts'
import { documentedCommands, ELSEWHERE } from './documented-commands.ts'

const HELP_TIMEOUT_MS = 60_000
/** Commands of `switchyard` without a verb. */
const ONE_WORD = COMMANDS.filter(({ words }) => words.length === 1).map(({ words }) => words[0])
const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8')
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }

const all = allPages().flatMap((page) =>
  documentedCommands(read(page)).map(({ command, line }) => ({ where: `${page}:${line}`, command })),
)
const withoutVariables = (command: string): string => command.replace(/^(?:[A-Z][A-Z0-9_]*=(?:'[^']*'|\S+) +)+/, '')

function words(command: string): string[] {
  const split = shellWords(command)
  if (!split.ok) throw new Error(`${command}: ${split.reason}`)
  return split.words
}

function helpOf(script: string, ...args: string[]): Promise<string> {
  return runTool([process.execPath, path.join(ROOT, script), ...args, '--help'], {
    ...{ timeout_ms: HELP_TIMEOUT_MS, cwd: ROOT },
  }).then((run) => (run.status === 'done' ? run.output : `${'reason' in run ? run.reason : run.status}`))
}

test('there are commands, and lines of output are none', () => {
  expect(all.length).toBeGreaterThan(150)
  const page =
    '```console\n$ npm run up -- \\\n    --port 1\nready\n```\n\n    npm run demo   # shows\n    not a command\n'
  expect(documentedCommands(page)).toEqual([
    { command: 'npm run up -- --port 1', line: 2 },
    { command: 'npm run demo', line: 7 },
  ])
})

test('each is run here, or listed with the reason', () => {
  for (const { where, command } of all) {
    const bare = withoutVariables(command)
    const script = /^npm run ([\w:-]+)/.exec(bare)?.[1]
    const is_known =
      (script !== undefined && (script in COVERAGE || script === 'release-check')) ||
      bare.startsWith('npx switchyard ') ||
      ELSEWHERE.some(({ start }) => command.startsWith(start) || bare.startsWith(start))
    expect(is_known, `${where}: ${command}`).toBe(true)
  }
})

test('each reason is of a command that is there, and names files that exist', () => {
  for (const { start, by } of ELSEWHERE) {
    expect(
      all.some(({ command }) => command.startsWith(start) || withoutVariables(command).startsWith(start)),
      start,
    ).toBe(true)
    for (const [file] of by.matchAll(/\b(?:test|lab|docs)\/[\w/.-]+\.(?:ts|md)/g))
      expect(existsSync(path.join(ROOT, file)), file).toBe(true)
  }
})

test('files of this repository that they name exist', () => {
  for (const { where, command } of all) {
    for (const [file] of command.matchAll(
      /(?<![\w/.-])(?:lab|ops|examples|simulator|gpu-agent|test)\/[\w/.-]+\.\w+/g,
    )) {
      expect(existsSync(path.join(ROOT, file)), `${where}: ${file}`).toBe(true)
    }
  }
})

test('`up` takes the flags', () => {
  for (const { where, command } of all) {
    const bare = withoutVariables(command)
    if (!/^npm run up( |$)/.test(bare)) continue
    const key = /--key-env (\w+)/.exec(bare)?.[1]
    if (key !== undefined) vi.stubEnv(key, 'key')
    expect(parseUpFlags(words(bare).slice(4)), where).toMatchObject({ status: 'ok' })
  }
  vi.unstubAllEnvs()
})

test('agents take the flags', () => {
  for (const { where, command } of all) {
    const flags = /gpu-agent\/src\/main\.ts (.*)$/.exec(command)?.[1]
    if (flags === undefined) continue
    const filled = flags
      .replaceAll(/--(control-url|public-url) …/g, '--$1 https://x.example')
      .replaceAll('--listen …', '--listen 127.0.0.1:0')
      .replaceAll(/--token-file \S+/g, '')
      .replaceAll(/ …/g, ' --engine emulated')
    const verdict = parseCli(words(filled.includes('--engine') ? filled : `${filled} --engine emulated`), {
      SWITCHYARD_AGENT_TOKEN: 'sya-x',
    })
    // A model file of another machine is not there, and `…` stands for flags that were shown before.
    const is_short = /(^| )…( |$)/.test(flags)
    const message = verdict.status === 'wrong' ? verdict.message : ''
    expect(
      message === '' ||
        /no such file|cannot be read|ENOENT/.test(message) ||
        (is_short && message.endsWith('is required')),
      `${where}: ${message}`,
    ).toBe(true)
  }
})

describe('flags of the other commands are in their help', () => {
  /** Script and subcommand → the flags that the documentation gives it. */
  const flags = new Map<string, Set<string>>()
  const help = new Map<string, string>()

  beforeAll(async () => {
    for (const { command } of all) {
      const bare = withoutVariables(command)
      const [, script, rest = ''] = /^npm run ([\w:-]+)(?: -- (.*))?$/.exec(bare) ?? []
      const cli = /^npx switchyard (.*)$/.exec(bare)?.[1]
      if (script === 'up' || (script === undefined && cli === undefined)) continue
      const given = cli ?? rest
      const verbs = (cli === undefined ? /^(?!-)(\w+)/ : /^([a-z-]+(?: [a-z]+)?)/).exec(given)?.[1] ?? ''
      const takes_verb = cli !== undefined || ['simulate', 'fuzz'].includes(script ?? '')
      // A noun alone lists. A plan of an application has a help of its own.
      const is_noun = cli !== undefined && !verbs.includes(' ') && !ONE_WORD.includes(verbs)
      const verb = is_noun ? `${verbs} list` : verbs
      const application = script === 'simulate' && given.includes('--application') ? ' --application FILE' : ''
      const key = `${script ?? 'cli'} ${takes_verb ? verb + application : ''}`.trim()
      const named = [...given.matchAll(/(?<=^|\s)--([a-z][a-z0-9-]*)/g)].map(([, flag = '']) => flag)
      flags.set(key, new Set([...(flags.get(key) ?? []), ...named.filter((flag) => flag !== 'help')]))
    }
    const waiting = [...flags].filter(([, named]) => named.size > 0).map(([key]) => key)
    const next = async (): Promise<void> => {
      for (let key = waiting.shift(); key !== undefined; key = waiting.shift()) {
        const [script = '', ...verbs] = key.split(' ')
        const [file = '', ...args] = (scripts[script] ?? '').replace('node ops/bootstrap.mjs ', '').split(' ')
        help.set(key, await helpOf(file, ...args, ...verbs))
      }
    }
    await Promise.all([next(), next()])
  }, 300_000)

  test('all of them', () => {
    expect(help.size).toBeGreaterThan(15)
    const missing = [...help].flatMap(([key, text]) =>
      [...(flags.get(key) ?? [])]
        .filter((flag) => !text.includes(`--${flag}`))
        .map((flag) => `${key} --${flag}: ${text.slice(0, 200)}`),
    )
    expect(missing).toEqual([])
  })
})
