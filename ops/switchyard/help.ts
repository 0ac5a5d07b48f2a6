/** Help texts, written from the commands themselves. */
import type { Command, Flag } from './command.ts'
import { EXIT } from './exit-codes.ts'

const OPERATOR_KEY: Flag = {
  ...{ type: 'string', value: 'KEY' },
  help: 'the operator’s key (else SWITCHYARD_ADMIN_KEY, else as above)',
}
const TENANT_KEY: Flag = {
  ...{ type: 'string', value: 'KEY' },
  help: 'one of the tenant’s keys (else SWITCHYARD_API_KEY, else as above)',
}
const LIMIT: Flag = { type: 'string', value: 'N', help: 'rows to show (default 50)' }
const SHARED_FLAGS = {
  url: {
    type: 'string',
    value: 'URL',
    help: 'the control plane (else SWITCHYARD_URL, else the system that runs here)',
  },
  'data-dir': {
    type: 'string',
    value: 'DIR',
    help: 'where the system that runs here keeps its state (default .switchyard)',
  },
  json: { type: 'boolean', help: 'JSON for scripts' },
  help: { type: 'boolean', help: 'this text' },
} as const satisfies Readonly<Record<string, Flag>>

/** Flags that may stand before a command. `as`: whose key opens it. Of a script: none, since it has a help of its own. */
export function commonFlags({ as, lists }: Pick<Command, 'as' | 'lists'>): Readonly<Record<string, Flag>> {
  if (as === 'script') return {}
  const { url, 'data-dir': data_dir, ...others } = SHARED_FLAGS
  const rows: Record<string, Flag> = lists === undefined ? {} : { limit: LIMIT }
  if (as === 'local') return { 'data-dir': data_dir, ...rows, ...others }
  const key: Record<string, Flag> = as === 'tenant' ? { 'api-key': TENANT_KEY } : { 'admin-key': OPERATOR_KEY }
  return { url, ...key, 'data-dir': data_dir, ...rows, ...others }
}

/** Those of any command. */
export const ALL_COMMON_FLAGS: Readonly<Record<string, Flag>> = {
  ...commonFlags({ as: 'tenant', lists: true }),
  ...commonFlags({}),
}

/** Whose commands stand together in the help. */
const GROUPS: readonly { as: Command['as']; title: string }[] = [
  { as: 'script', title: 'On this machine (switchyard up --help shows the flags of up)' },
  { as: 'tenant', title: 'A tenant, with --api-key' },
  { as: undefined, title: 'An operator, with --admin-key' },
  { as: 'local', title: 'State and logs of this machine, and completion' },
]

const EXIT_TEXT = `Exits ${EXIT.done} if done, ${EXIT.refused} if refused, ${EXIT.usage} for a wrong command line, ${EXIT.unreachable} if the control plane does not answer.`

export function helpOfAll(commands: readonly Command[]): string {
  const groups = GROUPS.map(({ as, title }) => ({ title, of: commands.filter((command) => command.as === as) }))
  const shown = groups.filter(({ of }) => of.length > 0)
  const flags = Object.assign({}, ...commands.map(commonFlags)) as Record<string, Flag>
  return [
    'switchyard: runs and administers a control plane, and works with a tenant’s programs, files, batches and applications.',
    ...['', '  npx switchyard COMMAND [flags]'],
    ...shown.flatMap(({ title, of }) => [
      ...['', `${title}:`],
      ...of.map((command) => `  ${usageOf(command).padEnd(34)} ${command.purpose}`),
    ]),
    ...['', 'Flags, before or after the command (`switchyard COMMAND --help` shows those of one command):'],
    ...flagLines({ ...flags, version: { type: 'boolean', help: 'its version' } }),
    ...['', EXIT_TEXT],
  ].join('\n')
}

export function helpOf(command: Command): string {
  const own = Object.keys(command.flags).length === 0 ? [] : ['', ...flagLines(command.flags, command.required)]
  const head = `switchyard ${usageOf(command)}: ${command.purpose}`
  return [head, ...own, '', ...flagLines(commonFlags(command)), '', EXIT_TEXT].join('\n')
}

export function usageOf({ words, args }: Pick<Command, 'words' | 'args'>): string {
  return [...words, ...args].join(' ')
}

function flagLines(flags: Readonly<Record<string, Flag>>, required: readonly string[] = []): string[] {
  return Object.entries(flags).map(([name, { short, value, help }]) => {
    const long = short === undefined ? `--${name}` : `-${short}, --${name}`
    const flag = value === undefined ? long : `${long} ${value}`
    return `  ${flag.padEnd(30)} ${help}${required.includes(name) ? ' (required)' : ''}`
  })
}
