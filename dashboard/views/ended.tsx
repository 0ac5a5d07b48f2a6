/** Programs that have ended, the latest first. */
import { useState } from 'hono/jsx/dom'
import type * as z from 'zod'
import { ask, segment } from '../api.ts'
import { EndedProgram, pageOf } from '../api-types.ts'
import { count, dateTime, seconds } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { Show } from '../parts/show.tsx'
import { Num, Table } from '../parts/table.tsx'
import { TenantChoice } from '../parts/tenant-choice.tsx'
import { programLink } from '../route.ts'

export function EndedView({ tenants, isOperator }: { tenants: readonly string[]; isOperator: boolean }) {
  const [chosen, setChosen] = useState<string | null>(null)
  const tenant = chosen ?? tenants[0] ?? ''
  const base = isOperator ? `/admin/v1/tenants/${segment(tenant)}/programs` : '/v1/programs'
  const loaded = useLoaded(base, (signal) =>
    tenant === '' ? Promise.resolve(null) : ask(`${base}?state=ended&limit=100`, pageOf(EndedProgram), { signal }),
  )
  return (
    <>
      <div class="tools">
        <h1>Ended programs</h1>
        {isOperator ? <TenantChoice tenants={tenants} tenant={tenant} choose={setChosen} /> : null}
        <button type="button" class="quiet" onClick={loaded.reload}>
          Load again
        </button>
      </div>
      <Show of={loaded} what="ended programs" show={({ data }) => <EndedTable tenant={tenant} programs={data} />} />
    </>
  )
}

function EndedTable({ tenant, programs }: { tenant: string; programs: readonly z.infer<typeof EndedProgram>[] }) {
  if (programs.length === 0) {
    return (
      <p class="state">
        None has ended yet. A program ends when its client says so, or half an hour after its last call.
      </p>
    )
  }
  return (
    <Table
      label="Ended programs"
      heads={[
        'Program',
        'App',
        'Ended',
        ['Response time', 'number'],
        ['Calls', 'number'],
        ['Charged service', 'number'],
      ]}
    >
      {programs.map((program) => (
        <tr key={program.run}>
          <th scope="row">
            <a href={programLink(tenant, program.id)}>{program.id}</a>
          </th>
          <td>{program.app ?? '–'}</td>
          <td>{dateTime(program.ended_at)}</td>
          <Num>{lasted(program.started_at, program.ended_at)}</Num>
          <Num>{count(program.calls)}</Num>
          <Num>{seconds(program.service_s)}</Num>
        </tr>
      ))}
    </Table>
  )
}

const lasted = (from: string, to: string | null): string =>
  to === null ? '–' : seconds((Date.parse(to) - Date.parse(from)) / 1000)
