/** Pools and their engines, the agents that can be drained, and why the last calls went where they went. */
import { useState } from 'hono/jsx/dom'
import * as z from 'zod'
import type { LivePool } from '../../src/protocol/live.ts'
import { ask, segment } from '../api.ts'
import { Granted, pageOf } from '../api-types.ts'
import { clock, count, reasonText } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { ConfirmedAction } from '../parts/confirm.tsx'
import { Failure, Loading, Meter } from '../parts/states.tsx'
import { Wide } from '../parts/wide.tsx'
import { programLink } from '../route.ts'

const Changed = z.object({ state: z.string(), pools_unreachable: z.number() })

export function EnginesView({ pools }: { pools: readonly LivePool[] }) {
  const engines = pools.flatMap((pool) => pool.engines.map((engine) => ({ ...engine, pool })))
  const [chosen, setChosen] = useState(0)
  const pool = pools[chosen] ?? pools[0]
  return (
    <>
      <h1>Engines</h1>
      {engines.length === 0 ? (
        <p class="state">No engine is linked. docs/self-host.md says how to add a host.</p>
      ) : null}
      {engines.length === 0 ? null : (
        <Wide label="Engines">
          <table>
            <thead>
              <tr>
                <th scope="col">Engine</th>
                <th scope="col">Region</th>
                <th scope="col">Model</th>
                <th scope="col">State</th>
                <th scope="col">Seats</th>
                <th scope="col" class="number">
                  Waiting
                </th>
                <th scope="col" class="number">
                  Queued tokens
                </th>
                <th scope="col">KV cache</th>
                <th scope="col">Agent</th>
              </tr>
            </thead>
            <tbody>
              {engines.map(({ pool: of, ...engine }) => (
                <tr key={`${of.region} ${of.model} ${engine.engine}`}>
                  <th scope="row">
                    {engine.engine} <small>{engine.kind}</small>
                  </th>
                  <td>{of.region}</td>
                  <td>{of.model}</td>
                  <td>{engine.state}</td>
                  <td>
                    <Meter part={engine.running} whole={engine.seats} label={`${engine.running}/${engine.seats}`} />
                  </td>
                  <td class="number">{engine.waiting + engine.leases_since_report}</td>
                  <td class="number">{count(engine.queued_tokens)}</td>
                  <td>
                    <Meter
                      part={engine.kv_used_tokens}
                      whole={engine.kv_capacity_tokens}
                      label={`${count(engine.kv_used_tokens)} of ${count(engine.kv_capacity_tokens)}`}
                    />
                  </td>
                  <td>
                    <AgentAction agent={engine.agent} isDraining={engine.state === 'draining'} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      {pool === undefined ? null : (
        <>
          <div class="tools">
            <h2>Last leases</h2>
            <label>
              Pool
              <select onChange={(e) => setChosen(Number((e.target as HTMLSelectElement).value))}>
                {pools.map(({ region, model }, at) => (
                  <option key={`${region} ${model}`} value={at}>
                    {region}, {model}
                  </option>
                ))}
              </select>
            </label>
          </div>
          <Leases region={pool.region} model={pool.model} />
        </>
      )}
    </>
  )
}

function AgentAction({ agent, isDraining }: { agent: string; isDraining: boolean }) {
  const verb = isDraining ? 'undrain' : 'drain'
  const act = async () => {
    const { pools_unreachable } = await ask(`/admin/v1/agents/${segment(agent)}/${verb}`, Changed, { method: 'POST' })
    const late = pools_unreachable > 0 ? ` ${pools_unreachable} pools learn it when the agent links next.` : ''
    return `${isDraining ? 'Takes calls again.' : 'Drains.'}${late}`
  }
  const question = isDraining
    ? `Let ${agent} take calls again?`
    : `Drain ${agent}? It takes no further calls. Those under way end.`
  return (
    <>
      {agent} <ConfirmedAction name={isDraining ? 'Undrain' : 'Drain'} question={question} act={act} />
    </>
  )
}

function Leases({ region, model }: { region: string; model: string }) {
  const path = `/admin/v1/leases?region=${segment(region)}&model=${segment(model)}&limit=50`
  const { value, failure, reload } = useLoaded(path, (signal) => ask(path, pageOf(Granted), { signal }))
  if (value === null) return failure === null ? <Loading what="leases" /> : <Failure reason={failure} retry={reload} />
  if (value.data.length === 0) return <p class="state">No call has come here since the pool was started.</p>
  return (
    <Wide label="Last leases">
      <table>
        <thead>
          <tr>
            <th scope="col">At</th>
            <th scope="col">Program</th>
            <th scope="col">Engine</th>
            <th scope="col">Why there</th>
            <th scope="col" class="number">
              Prompt tokens
            </th>
          </tr>
        </thead>
        <tbody>
          {value.data.map((lease) => (
            <tr key={lease.lease}>
              <td>{clock(lease.at)}</td>
              <td>
                <a href={programLink(lease.tenant, lease.program)}>{lease.program}</a>
              </td>
              <td>{lease.engine}</td>
              <td>{reasonText(lease.reason)}</td>
              <td class="number">~{count(lease.prompt_tokens_estimate)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  )
}
