/** `spend`: what tenants' calls were charged, for the operator and for a tenant itself. */
import { at, CommandFailure, type Row } from './client.ts'
import { field, figure, type OperatorCommand, type TenantCommand } from './command.ts'

const NANOS = 1_000_000_000

const CHARGES = [
  ...[figure('calls'), figure('prompt_tokens', 'prompt'), figure('cached_tokens', 'cached')],
  ...[figure('output_tokens', 'output'), figure('service_s', 'service s'), figure('cost')],
]

/** In the units in which a person reads them. `--json` has the whole numbers too. */
function read(row: Row): Row {
  return { ...row, service_s: Number(row.service_us) / 1_000_000, cost: costText(Number(row.cost_nanos)) }
}

function costText(nanos: number): string {
  return `${Math.floor(nanos / NANOS)}.${String(nanos % NANOS).padStart(9, '0')}`
}

const WHEN = {
  per: { type: 'string', value: 'day|month', help: 'how long a period is (default day)' },
  from: { type: 'string', value: 'YYYY-MM-DD', help: 'first UTC day (default: the first of this month)' },
  to: { type: 'string', value: 'YYYY-MM-DD', help: 'last UTC day (default: today)' },
} as const
const BY = {
  type: 'string',
  value: 'key|class|model|program',
  help: 'told apart by these (default: all of them)',
} as const

type Text = (flag: string) => string | undefined

function queryOf(text: Text): Readonly<Record<string, string | undefined>> {
  return { by: text('by') ?? 'total', per: text('per'), from: text('from'), to: text('to') }
}

/** Rows of one tenant. */
function listed(rows: readonly Row[], text: Text) {
  const by = text('by')
  const named = by === undefined ? [] : [field('name', by)]
  const columns = [field('period'), ...named, ...CHARGES]
  return { kind: 'list' as const, rows: rows.map(read), columns, empty: 'No call was charged in these days.' }
}

const EACH_TENANT: OperatorCommand = {
  // `switchyard spend` is this one.
  words: ['spend', 'list'],
  lists: true,
  args: [],
  flags: {
    tenant: { type: 'string', value: 'TENANT', help: 'of one tenant, by day (default: the sum of each)' },
    by: { ...BY, help: 'of a tenant: told apart by these' },
    ...{ ...WHEN, per: { ...WHEN.per, help: 'of a tenant: how long a period is (default day)' } },
  },
  purpose: 'what tenants were charged: calls, tokens, service and money',
  run: async ({ client, text, limit }) => {
    const tenant = text('tenant')
    if (tenant !== undefined)
      return listed(await client.rows(`/tenants/${at(tenant)}/spend`, queryOf(text), limit), text)
    if (text('by') !== undefined || text('per') !== undefined) {
      throw new CommandFailure('usage', '--by and --per go with --tenant TENANT')
    }
    const rows = await client.rows('/spend', { from: text('from'), to: text('to') }, limit)
    const columns = [field('tenant'), ...CHARGES]
    return { kind: 'list', rows: rows.map(read), columns, empty: 'There is no tenant.' }
  },
}

const OWN: TenantCommand = {
  words: ['spend', 'own'],
  lists: true,
  as: 'tenant',
  args: [],
  flags: { by: BY, ...WHEN },
  purpose: 'what the key’s own tenant was charged',
  run: async ({ client, text, limit }) => listed(await client.rows('/spend', queryOf(text), limit), text),
}

export const SPEND_COMMANDS: readonly (OperatorCommand | TenantCommand)[] = [EACH_TENANT, OWN]
