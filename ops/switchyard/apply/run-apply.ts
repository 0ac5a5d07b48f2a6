/** `switchyard apply`: reads the file, shows what would change, asks, and does it by the admin API, one request a change. */
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline/promises'
import { type AdminClient, CommandFailure, ROWS_MAX, type Row } from '../client.ts'
import { type Answer, type Asked, shown } from '../command.ts'
import type { Desired } from './desired.ts'
import { type Change, type Plan, type Present, planChanges } from './plan-changes.ts'
import { readDesired } from './read-desired.ts'

const MARKS = { create: '+', change: '~', revoke: '-' } as const

interface Made {
  object: string
  [secret: string]: unknown
}

export async function runApply({ client, text, flag, json }: Asked): Promise<Answer> {
  const file = text('file') ?? ''
  const desired = await desiredOf(file)
  const plan = planChanges(desired, await presentOf(client, desired))
  if (plan.status === 'refused') throw new CommandFailure('refused', `${file}: ${plan.reason}`)
  const { changes } = plan
  const planned = changes.map(({ action, object, fields }) => ({ action, object, fields: [...fields] }))
  if (!json) console.log(changes.length === 0 ? `Nothing to change: all is as ${file} says.` : diffText(changes))
  if (changes.length === 0 || flag('dry-run')) return answerOf(json, { changes: planned, applied: 0, made: [] })
  if (!flag('yes')) await confirmed(changes.length)
  const made: Made[] = []
  let applied = 0
  try {
    for (const change of changes) {
      const secret = await apply(client, change)
      applied += 1
      if (secret === null) continue
      made.push(secret)
      // At once: if a later change fails, this one is not shown again.
      if (!json) console.log(`\n${secret.object}, shown only once: ${shown(secret[change.secret ?? ''])}`)
    }
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error
    if (json) console.log(JSON.stringify({ changes: planned, applied, made }, null, 2))
    const object = changes[applied]?.object ?? ''
    const done = `${applied} of ${changes.length} changes are made. Apply the file again for the rest`
    throw new CommandFailure(error.kind, `${object}: ${error.message}. ${done}`, error.next)
  }
  if (!json) console.log(`\n${applied} ${applied === 1 ? 'change' : 'changes'} made. Calls see them within 10 s.`)
  return answerOf(json, { changes: planned, applied, made })
}

function answerOf(json: boolean, row: { changes: Row[]; applied: number; made: Made[] }): Answer {
  return json ? { kind: 'one', row } : { kind: 'done' }
}

async function desiredOf(file: string): Promise<Desired> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'there is no such file' : (error.code ?? error.message)
    throw new CommandFailure('usage', `${file} cannot be read: ${why}`)
  })
  const read = readDesired(text, file)
  if (read.status === 'read') return read.desired
  const next = `Correct it and repeat the command; docs/terminal.md shows its fields:\n${read.faults.join('\n')}`
  throw new CommandFailure('usage', `nothing was sent, because of what ${file} says`, next)
}

/** Only the kinds that the file names. */
async function presentOf(client: AdminClient, desired: Desired): Promise<Present> {
  const listed = (path: string, wanted: unknown): Promise<Row[]> =>
    wanted === undefined ? Promise.resolve([]) : client.list(path, {}, ROWS_MAX)
  const [regions, models, agents, tenants] = await Promise.all([
    listed('/regions', desired.regions),
    listed('/models', desired.models),
    listed('/agents', desired.agents),
    listed('/tenants', desired.tenants),
  ])
  const keys = new Map<string, Row[]>()
  for (const { id, keys: wanted } of desired.tenants ?? []) {
    if (wanted === undefined || !tenants.some((tenant) => tenant.id === id)) continue
    const all = await client.list(`/tenants/${encodeURIComponent(id)}/keys`, {}, ROWS_MAX)
    keys.set(
      id,
      all.filter(({ revoked_at }) => revoked_at === null),
    )
  }
  return { regions, models, agents, tenants, keys }
}

function diffText(changes: Extract<Plan, { status: 'planned' }>['changes']): string {
  return changes
    .flatMap(({ action, object, fields, secret }) => [
      `${MARKS[action]} ${object}${secret === undefined ? '' : ` (makes a ${secret})`}`,
      ...fields.map((change) =>
        'before' in change
          ? `    ${change.field}: ${valueText(change.before)} → ${valueText(change.after)}`
          : `    ${change.field}: ${valueText(change.after)}`,
      ),
    ])
    .join('\n')
}

function valueText(value: unknown): string {
  if (value === null) return 'none'
  return typeof value === 'number' ? String(value) : shown(value)
}

async function confirmed(count: number): Promise<void> {
  const { stdin, stdout } = process
  if (!stdin.isTTY || !stdout.isTTY) {
    throw new CommandFailure('usage', 'nothing was changed. --yes makes these changes, --dry-run only shows them')
  }
  const prompt = createInterface({ input: stdin, output: stdout })
  const said = await prompt.question(`\nMake ${count === 1 ? 'this change' : `these ${count} changes`}? [y/N] `)
  prompt.close()
  if (!/^y(es)?$/i.test(said.trim())) throw new CommandFailure('refused', 'nothing was changed')
}

/** What it made, with its secret. Null: it made none. */
async function apply(client: AdminClient, { object, request, secret }: Change): Promise<Made | null> {
  const { method, path, body } = request
  const answered = await client.one(method, path, body)
  return secret === undefined ? null : { object, [secret]: answered[secret] }
}
