/** Tenants with what they use now, and the keys of one of them. */
import { useState } from 'hono/jsx/dom'
import type * as z from 'zod'
import { ask, segment } from '../api.ts'
import { Key, pageOf } from '../api-types.ts'
import { count, dateTime, share } from '../format.ts'
import type { LiveState } from '../live/live-state.ts'
import { useLoaded } from '../loaded.ts'
import { ConfirmedAction } from '../parts/confirm.tsx'
import { Show } from '../parts/show.tsx'
import { Loading, Meter } from '../parts/states.tsx'
import { Num, Table } from '../parts/table.tsx'
import { TenantChoice } from '../parts/tenant-choice.tsx'

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
        <Table
          label="Tenants"
          heads={[
            'Tenant',
            ['Programs', 'number'],
            ['Output tokens/s', 'number'],
            'Service, last 30 s',
            ['Share when all wait', 'number'],
          ]}
        >
          {tenants.map((one) => (
            <tr key={one.id}>
              <th scope="row">
                {one.id} <small>{one.name}</small>
                {one.reachable ? '' : ' does not answer'}
              </th>
              <Num>{count(one.running)}</Num>
              <Num>{count(one.output_tokens_per_s)}</Num>
              <td>
                <Meter
                  part={one.service_share ?? 0}
                  whole={1}
                  label={one.service_share === null ? '–' : share(one.service_share, 1)}
                />
              </td>
              <Num>{share(one.weight, weights)}</Num>
            </tr>
          ))}
        </Table>
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
  const loaded = useLoaded(path, (signal) => ask(`${path}?limit=100`, pageOf(Key), { signal }))
  const tableOf = (keys: readonly z.infer<typeof Key>[]) =>
    keys.length === 0 ? (
      <p class="state">This tenant has no key: npm run cli -- keys create {tenant}</p>
    ) : (
      <Table label="Keys" heads={['Key', 'Name', 'Made', 'State']}>
        {keys.map((key) => (
          <tr key={key.id}>
            <th scope="row">{key.id}</th>
            <td>{key.name}</td>
            <td>{dateTime(key.created_at)}</td>
            <td>
              {key.revoked_at === null ? (
                <Revoke path={path} id={key.id} reload={loaded.reload} />
              ) : (
                `revoked ${dateTime(key.revoked_at)}`
              )}
            </td>
          </tr>
        ))}
      </Table>
    )
  return <Show of={loaded} what="keys" show={({ data }) => tableOf(data)} />
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
