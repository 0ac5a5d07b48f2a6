/** `spend`: what tenants' calls were charged. */
import { at, CommandFailure, type Row } from './client.ts'
import { type Asked, bodyOf, field, figure, type OperatorCommand } from './command.ts'

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

async function spendOf(asked: Asked, tenant: string) {
  const by = asked.text('by') ?? 'total'
  const query = bodyOf({ by, per: asked.text('per'), from: asked.text('from'), to: asked.text('to') })
  const rows = await asked.client.list(`/tenants/${at(tenant)}/spend`, query as Record<string, string>, asked.limit)
  const named = by === 'total' ? [] : [field('name', by)]
  const columns = [field('period'), ...named, ...CHARGES]
  return { kind: 'list' as const, rows: rows.map(read), columns, empty: 'No call was charged in these days.' }
}

export const SPEND_COMMANDS: readonly OperatorCommand[] = [
  {
    words: ['spend'],
    args: [],
    flags: {
      tenant: { type: 'string', value: 'TENANT', help: 'of one tenant, by day (default: the sum of each)' },
      by: { type: 'string', value: 'key|class|model|program', help: 'of a tenant: told apart by these' },
      per: { type: 'string', value: 'day|month', help: 'of a tenant: how long a period is (default day)' },
      from: { type: 'string', value: 'YYYY-MM-DD', help: 'first UTC day (default: the first of this month)' },
      to: { type: 'string', value: 'YYYY-MM-DD', help: 'last UTC day (default: today)' },
    },
    purpose: 'what tenants’ calls were charged: tokens, service and money',
    run: async (asked) => {
      const tenant = asked.text('tenant')
      if (tenant !== undefined) return spendOf(asked, tenant)
      if (asked.text('by') !== undefined || asked.text('per') !== undefined) {
        throw new CommandFailure('usage', '--by and --per go with --tenant TENANT')
      }
      const days = bodyOf({ from: asked.text('from'), to: asked.text('to') })
      const rows = await asked.client.list('/spend', days as Record<string, string>, asked.limit)
      const columns = [field('tenant'), ...CHARGES]
      return { kind: 'list', rows: rows.map(read), columns, empty: 'There is no tenant.' }
    },
  },
]
