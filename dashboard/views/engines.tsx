/** Pools and their engines, the agents that can be drained, and why the last calls went where they went. */
import { useState } from 'hono/jsx/dom'
import * as z from 'zod'
import type { LivePool } from '../../src/protocol/live.ts'
import { ask, segment } from '../api.ts'
import { Granted, pageOf } from '../api-types.ts'
import { clock, count, reasonText } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { ConfirmedAction } from '../parts/confirm.tsx'
import { Show } from '../parts/show.tsx'
import { Meter } from '../parts/states.tsx'
import { Num, Table } from '../parts/table.tsx'
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
        <Table
          label="Engines"
          heads={[
            ...['Engine', 'Region', 'Model', 'State', 'Seats'],
            ...([
              ['Waiting', 'number'],
              ['Queued tokens', 'number'],
            ] as const),
            ...['KV cache', 'Agent'],
          ]}
        >
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
              <Num>{engine.waiting + engine.leases_since_report}</Num>
              <Num>{count(engine.queued_tokens)}</Num>
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
        </Table>
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
  const loaded = useLoaded(path, (signal) => ask(path, pageOf(Granted), { signal }))
  return <Show of={loaded} what="leases" show={({ data }) => <LeaseTable leases={data} />} />
}

function LeaseTable({ leases }: { leases: readonly z.infer<typeof Granted>[] }) {
  if (leases.length === 0) return <p class="state">No call has come here since the pool was started.</p>
  return (
    <Table label="Last leases" heads={['At', 'Program', 'Engine', 'Why there', ['Prompt tokens', 'number']]}>
      {leases.map((lease) => (
        <tr key={lease.lease}>
          <td>{clock(lease.at)}</td>
          <th scope="row">
            <a href={programLink(lease.tenant, lease.program)}>{lease.program}</a>
          </th>
          <td>{lease.engine}</td>
          <td>{reasonText(lease.reason)}</td>
          <Num>~{count(lease.prompt_tokens_estimate)}</Num>
        </tr>
      ))}
    </Table>
  )
}
