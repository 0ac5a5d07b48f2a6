/** Programs that have ended, the latest first. */
import { useState } from 'hono/jsx/dom'
import { ask, segment } from '../api.ts'
import { EndedProgram, pageOf } from '../api-types.ts'
import { count, dateTime, seconds } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { Failure, Loading } from '../parts/states.tsx'
import { TenantChoice } from '../parts/tenant-choice.tsx'
import { Wide } from '../parts/wide.tsx'
import { programLink } from '../route.ts'

export function EndedView({ tenants, isOperator }: { tenants: readonly string[]; isOperator: boolean }) {
  const [chosen, setChosen] = useState<string | null>(null)
  const tenant = chosen ?? tenants[0] ?? ''
  const base = isOperator ? `/admin/v1/tenants/${segment(tenant)}/programs` : '/v1/programs'
  const { value, failure, reload } = useLoaded(base, (signal) =>
    tenant === '' ? Promise.resolve(null) : ask(`${base}?state=ended&limit=100`, pageOf(EndedProgram), { signal }),
  )
  return (
    <>
      <div class="tools">
        <h1>Ended programs</h1>
        {isOperator ? <TenantChoice tenants={tenants} tenant={tenant} choose={setChosen} /> : null}
        <button type="button" class="quiet" onClick={reload}>
          Load again
        </button>
      </div>
      {failure === null ? null : <Failure reason={failure} retry={reload} />}
      {value === null && failure === null ? <Loading what="ended programs" /> : null}
      {value !== null && value.data.length === 0 ? (
        <p class="state">
          None has ended yet. A program ends when its client says so, or half an hour after its last call.
        </p>
      ) : null}
      {value === null || value.data.length === 0 ? null : (
        <Wide label="Ended programs">
          <table>
            <thead>
              <tr>
                <th scope="col">Program</th>
                <th scope="col">App</th>
                <th scope="col">Ended</th>
                <th scope="col" class="number">
                  Response time
                </th>
                <th scope="col" class="number">
                  Calls
                </th>
                <th scope="col" class="number">
                  Service
                </th>
              </tr>
            </thead>
            <tbody>
              {value.data.map((program) => (
                <tr key={program.run}>
                  <td>
                    <a href={programLink(tenant, program.id)}>{program.id}</a>
                  </td>
                  <td>{program.app ?? '–'}</td>
                  <td>{dateTime(program.ended_at)}</td>
                  <td class="number">{lasted(program.started_at, program.ended_at)}</td>
                  <td class="number">{count(program.calls)}</td>
                  <td class="number">{seconds(program.service_s)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </>
  )
}

const lasted = (from: string, to: string | null): string =>
  to === null ? '–' : seconds((Date.parse(to) - Date.parse(from)) / 1000)
