/** Help texts, written from the commands themselves. */
import type { Command, Flag } from './command.ts'

const OPERATOR_KEY: Flag = {
  ...{ type: 'string', value: 'KEY' },
  help: 'the operator’s key (else SWITCHYARD_ADMIN_KEY, else as above)',
}
const TENANT_KEY: Flag = {
  ...{ type: 'string', value: 'KEY' },
  help: 'one of the tenant’s keys (else SWITCHYARD_API_KEY, else as above)',
}
const SHARED_FLAGS: Readonly<Record<string, Flag>> = {
  url: {
    type: 'string',
    value: 'URL',
    help: 'the control plane (else SWITCHYARD_URL, else the system that runs here)',
  },
  'data-dir': { type: 'string', value: 'DIR', help: 'of the system that runs here (default .switchyard)' },
  limit: { type: 'string', value: 'N', help: 'rows to show (default 50)' },
  json: { type: 'boolean', help: 'JSON for scripts' },
  help: { type: 'boolean', help: 'this text' },
}

export function commonFlags({ as }: Pick<Command, 'as'>): Readonly<Record<string, Flag>> {
  const { url, ...others } = SHARED_FLAGS
  const key: Record<string, Flag> = as === 'tenant' ? { 'api-key': TENANT_KEY } : { 'admin-key': OPERATOR_KEY }
  return { ...(url === undefined ? {} : { url }), ...key, ...others }
}

export function helpOfAll(commands: readonly Command[]): string {
  const lines = commands.map((command) => `  ${usageOf(command).padEnd(34)} ${command.purpose}`)
  return [
    'switchyard: what an operator does with a control plane, and a tenant with programs, files, batches and applications.',
    '',
    '  npx switchyard COMMAND [flags]',
    '',
    ...lines,
    ...[
      '',
      'Flags of every command:',
      ...flagLines(commonFlags(commands.find(({ as }) => as === undefined) ?? commands[0] ?? {})),
    ],
    ...(isMixed(commands)
      ? ['', 'From ps to env, and for files, batches and apps, commands take --api-key KEY in place of --admin-key.']
      : []),
    ...['', 'Exits 0 if done, 1 if refused, 2 for a wrong command line, 3 if the control plane does not answer.'],
  ].join('\n')
}

function isMixed(commands: readonly Command[]): boolean {
  return new Set(commands.map(({ as }) => as)).size > 1
}

export function helpOf(command: Command): string {
  const own = Object.keys(command.flags).length === 0 ? [] : ['', ...flagLines(command.flags, command.required)]
  return [`switchyard ${usageOf(command)}: ${command.purpose}`, ...own, '', ...flagLines(commonFlags(command))].join(
    '\n',
  )
}

export function usageOf({ words, args }: Command): string {
  return [...words, ...args].join(' ')
}

function flagLines(flags: Readonly<Record<string, Flag>>, required: readonly string[] = []): string[] {
  return Object.entries(flags).map(([name, { value, help }]) => {
    const flag = value === undefined ? `--${name}` : `--${name} ${value}`
    return `  ${flag.padEnd(30)} ${help}${required.includes(name) ? ' (required)' : ''}`
  })
}
