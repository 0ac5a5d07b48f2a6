/** Tenants with what they use now, and the keys of one of them. */
import { useState } from 'hono/jsx/dom'
import { ask, segment } from '../api.ts'
import { Key, pageOf } from '../api-types.ts'
import { count, dateTime, share } from '../format.ts'
import type { LiveState } from '../live/live-state.ts'
import { useLoaded } from '../loaded.ts'
import { ConfirmedAction } from '../parts/confirm.tsx'
import { Failure, Loading, Meter } from '../parts/states.tsx'
import { TenantChoice } from '../parts/tenant-choice.tsx'
import { Wide } from '../parts/wide.tsx'

export function TenantsView({ state }: { state: LiveState }) {
  const tenants = [...state.tenants.values()]
  const [chosen, setChosen] = useState<string | null>(null)
  const tenant = chosen ?? tenants[0]?.id
  const weights = tenants.reduce((sum, { weight }) => sum + weight, 0)
  return (
    <>
      <h1>Tenants</h1>
      {state.at_ms === 0 ? <Loading what="tenants" /> : null}
      {tenants.length === 0 ? null : (
        <Wide label="Tenants">
          <table>
            <thead>
              <tr>
                <th scope="col">Tenant</th>
                <th scope="col" class="number">
                  Programs
                </th>
                <th scope="col" class="number">
                  Output tokens/s
                </th>
                <th scope="col">Service, last 30 s</th>
                <th scope="col" class="number">
                  Share when all wait
                </th>
              </tr>
            </thead>
            <tbody>
              {tenants.map((one) => (
                <tr key={one.id}>
                  <th scope="row">
                    {one.id} <small>{one.name}</small>
                    {one.reachable ? '' : ' does not answer'}
                  </th>
                  <td class="number">{count(one.running)}</td>
                  <td class="number">{count(one.output_tokens_per_s)}</td>
                  <td>
                    <Meter
                      part={one.service_share ?? 0}
                      whole={1}
                      label={one.service_share === null ? '–' : share(one.service_share, 1)}
                    />
                  </td>
                  <td class="number">{share(one.weight, weights)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      {state.tenants_left_out > 0 ? <p class="help">There are more tenants. The first 50 by id are shown.</p> : null}
      {tenant === undefined ? null : (
        <>
          <div class="tools">
            <h2>Keys</h2>
            <TenantChoice tenants={tenants.map(({ id }) => id)} tenant={tenant} choose={setChosen} />
          </div>
          <Keys tenant={tenant} />
        </>
      )}
    </>
  )
}

function Keys({ tenant }: { tenant: string }) {
  const path = `/admin/v1/tenants/${segment(tenant)}/keys`
  const { value, failure, reload } = useLoaded(path, (signal) => ask(`${path}?limit=100`, pageOf(Key), { signal }))
  if (value === null) return failure === null ? <Loading what="keys" /> : <Failure reason={failure} retry={reload} />
  if (value.data.length === 0) return <p class="state">This tenant has no key: npm run cli -- keys create {tenant}</p>
  return (
    <Wide label="Keys">
      <table>
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Name</th>
            <th scope="col">Made</th>
            <th scope="col">State</th>
          </tr>
        </thead>
        <tbody>
          {value.data.map((key) => (
            <tr key={key.id}>
              <th scope="row">{key.id}</th>
              <td>{key.name}</td>
              <td>{dateTime(key.created_at)}</td>
              <td>
                {key.revoked_at === null ? (
                  <Revoke path={path} id={key.id} reload={reload} />
                ) : (
                  `revoked ${dateTime(key.revoked_at)}`
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  )
}

function Revoke({ path, id, reload }: { path: string; id: string; reload: () => void }) {
  const act = async () => {
    await ask(`${path}/${segment(id)}`, Key, { method: 'DELETE' })
    reload()
    return 'Revoked. It opens nothing after ten seconds at most.'
  }
  const question = `Revoke ${id}? Clients that use it get 401 within ten seconds. This cannot be undone.`
  return <ConfirmedAction name="Revoke" question={question} act={act} isGrave />
}
