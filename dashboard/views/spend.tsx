/** What calls were charged: of every tenant, or of one by key, class, model or program, day by day or month by month. */
import { useState } from 'hono/jsx/dom'
import { ask, segment } from '../api.ts'
import { pageOf, Spend } from '../api-types.ts'
import { count, money, seconds, share } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { Show } from '../parts/show.tsx'
import { Num, Table } from '../parts/table.tsx'
import { programLink } from '../route.ts'

const OPERATOR_BYS = ['tenant', 'class', 'model', 'key', 'program'] as const
const BYS = ['key', 'class', 'program', 'model'] as const
const PERIODS = ['day', 'month'] as const
/** Days and months that are listed, this one included. */
const DAYS = 31
const MONTHS = 12

function firstDay(per: string, days: number): string {
  const now = new Date()
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()]
  const first = per === 'day' ? Date.UTC(year, month, now.getUTCDate() - days + 1) : Date.UTC(year, month - MONTHS + 1)
  return new Date(first).toISOString().slice(0, 10)
}

interface SelectProps {
  name: string
  value: string
  of: readonly string[]
  choose: (value: string) => void
}

function Select({ name, value, of, choose }: SelectProps) {
  return (
    <label>
      {name}
      <select value={value} onChange={(e) => choose((e.target as HTMLSelectElement).value)}>
        {of.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </label>
  )
}

export function SpendView({ tenants, isOperator }: { tenants: readonly string[]; isOperator: boolean }) {
  const [chosen, setChosen] = useState<string | null>(null)
  const bys = isOperator ? OPERATOR_BYS : BYS
  const [by, setBy] = useState<string>(bys[0])
  const [per, setPer] = useState<string>('day')
  const tenant = chosen ?? tenants[0] ?? ''
  const ofEach = by === 'tenant'
  const base = isOperator ? `/admin/v1${ofEach ? '' : `/tenants/${segment(tenant)}`}` : '/v1'
  const query = ofEach
    ? `from=${per === 'day' ? firstDay('day', 1) : `${firstDay('day', 1).slice(0, 8)}01`}`
    : `by=${by}&per=${per}&from=${firstDay(per, DAYS)}`
  const path = `${base}/spend?limit=100&${query}`
  const loaded = useLoaded(path, (signal) => ask(path, pageOf(Spend), { signal }))
  return (
    <>
      <div class="tools">
        <h1>Spend</h1>
        <Select name="By" value={by} of={bys} choose={setBy} />
        {isOperator && !ofEach ? <Select name="Tenant" value={tenant} of={tenants} choose={setChosen} /> : null}
        <Select name="Per" value={per} of={PERIODS} choose={setPer} />
      </div>
      <p class="help">
        {ofEach
          ? `What each tenant’s calls were charged this ${per} (UTC).`
          : `What calls were charged, by UTC ${per}.`}{' '}
        A call counts once, with the engine that ended it. Cost is in the operator’s currency.
      </p>
      <Show
        of={loaded}
        what="spend"
        show={({ data, has_more }) => (
          <>
            <SpendTable rows={data} by={by} tenant={tenant} />
            {has_more ? <p class="help">There is more: npx switchyard spend</p> : null}
          </>
        )}
      />
    </>
  )
}

function SpendTable({ rows, by, tenant }: { rows: readonly Spend[]; by: string; tenant: string }) {
  if (rows.length === 0) return <p class="state">No call was charged in this time.</p>
  const nameOf = ({ name, tenant: of }: Spend) => {
    if (name == null) return of ?? (by === 'class' ? 'other classes' : 'not known')
    return by === 'program' ? <a href={programLink(tenant, name)}>{name}</a> : name
  }
  return (
    <Table
      label="Spend"
      heads={[
        ...(by === 'tenant' ? [] : ['Period']),
        by[0]?.toUpperCase() + by.slice(1),
        ...(['Calls', 'Prompt tokens', 'Cached', 'Output tokens', 'Charged service', 'Cost'] as const).map(
          (head) => [head, 'number'] as const,
        ),
      ]}
    >
      {rows.map((row) => (
        <tr key={`${row.period} ${row.name ?? row.tenant}`}>
          {row.period === undefined ? null : <td>{row.period}</td>}
          <th scope="row">{nameOf(row)}</th>
          <Num>{count(row.calls)}</Num>
          <Num>{count(row.prompt_tokens)}</Num>
          <Num>{share(row.cached_tokens, row.prompt_tokens)}</Num>
          <Num>{count(row.output_tokens)}</Num>
          <Num>{seconds(row.service_us / 1e6)}</Num>
          <Num>{money(row.cost_nanos)}</Num>
        </tr>
      ))}
    </Table>
  )
}
