/** How programs of each class went, day by day: from the archive. */
import { useMemo, useState } from 'hono/jsx/dom'
import { ask, segment } from '../api.ts'
import { type Trend, Trends } from '../api-types.ts'
import { ChartBox } from '../charts/chart-box.tsx'
import { count, seconds } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { Show } from '../parts/show.tsx'
import { Num, Table } from '../parts/table.tsx'
import { TenantChoice } from '../parts/tenant-choice.tsx'

const DAYS = [7, 14, 30, 90] as const

export function TrendsView({ tenants, isOperator }: { tenants: readonly string[]; isOperator: boolean }) {
  const [chosen, setChosen] = useState<string | null>(null)
  const [days, setDays] = useState<number>(14)
  const tenant = chosen ?? tenants[0] ?? ''
  const path = `${isOperator ? `/admin/v1/tenants/${segment(tenant)}` : '/v1'}/trends?days=${days}`
  const loaded = useLoaded(path, (signal) => (tenant === '' ? Promise.resolve(null) : ask(path, Trends, { signal })))
  return (
    <>
      <div class="tools">
        <h1>Trends</h1>
        {isOperator ? <TenantChoice tenants={tenants} tenant={tenant} choose={setChosen} /> : null}
        <label>
          Days
          <select value={String(days)} onChange={(e) => setDays(Number((e.target as HTMLSelectElement).value))}>
            {DAYS.map((number) => (
              <option key={number} value={String(number)}>
                {number}
              </option>
            ))}
          </select>
        </label>
      </div>
      <p class="help">
        Ended programs by class and day (UTC). Half of a day’s programs were faster than p50, and 95 of 100 faster than
        p95. Response time goes from a program’s start to its last answer, tools included.
      </p>
      <Show
        of={loaded}
        what="trends"
        show={({ data, is_whole }) => (
          <>
            <TrendTables rows={data} />
            {is_whole ? null : <p class="help">There are more programs than one answer reads: these ended last.</p>}
          </>
        )}
      />
    </>
  )
}

function TrendTables({ rows }: { rows: readonly Trend[] }) {
  const classes = useMemo(() => [...new Set(rows.map((row) => row.class))], [rows])
  const [chosen, setChosen] = useState<string | null>(null)
  const name = chosen !== null && classes.includes(chosen) ? chosen : (classes[0] ?? '')
  const own = useMemo(() => rows.filter((row) => row.class === name), [rows, name])
  if (classes.length === 0) return <p class="state">No program has ended in these days.</p>
  return (
    <>
      <div class="tools">
        <label>
          Class
          <select value={name} onChange={(e) => setChosen((e.target as HTMLSelectElement).value)}>
            {classes.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
      </div>
      <ChartBox
        label={`Response time of ${name} by day; the table below has the figures`}
        data={own}
        make={(charts, element) => charts.trend(element)}
      />
      <TrendTable rows={own} />
    </>
  )
}

function TrendTable({ rows }: { rows: readonly Trend[] }) {
  return (
    <Table
      label="Trends"
      heads={[
        'Day',
        ['Programs', 'number'],
        ['Response p50', 'number'],
        ['Response p95', 'number'],
        ['Wait p50', 'number'],
        ['Wait p95', 'number'],
      ]}
    >
      {rows.map((row) => (
        <tr key={row.day}>
          <th scope="row">{row.day}</th>
          <Num>{count(row.programs)}</Num>
          <Num>{seconds(row.response_s.p50)}</Num>
          <Num>{seconds(row.response_s.p95)}</Num>
          <Num>{seconds(row.wait_s.p50)}</Num>
          <Num>{seconds(row.wait_s.p95)}</Num>
        </tr>
      ))}
    </Table>
  )
}
