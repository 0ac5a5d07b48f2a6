/**
 * CPU of a lease by the number of engines that one PoolActor has, of the choice between shards, and the size of what isolates are
 * told. Pure code, timed as CPU of the process, so other work on the machine changes it little.
 */
import { shardsToAsk } from '../../src/core/pool/choose-shards.ts'
import { PoolShards } from '../../src/core/pool/pool-shards.ts'
import { PoolTable } from '../../src/core/pool/pool-table.ts'

const MODEL = 'model'
const LEASES = 5_000
const ENGINES_PER_AGENT = 8

interface DecisionCost {
  engines: number
  lease_us: number
  snapshot_us: number
  snapshot_bytes: number
}

export function leaseCost(engines: number): DecisionCost {
  const table = new PoolTable({ region: 'r', model: MODEL })
  // More agents than a table takes have more engines each.
  const per_agent = Math.max(ENGINES_PER_AGENT, Math.ceil(engines / 64))
  for (let from = 0; from < engines; from += per_agent) {
    const agent = `agent-${from}`
    const joined = table.agentJoined(
      {
        ...{ agent, region: 'r', model: MODEL, url: 'http://127.0.0.1:9000' },
        engines: Array.from({ length: Math.min(per_agent, engines - from) }, (_, at) => ({
          ...{ id: `${agent}-e${at}`, epoch: 'x', kind: 'emulated' as const, model: MODEL, seats: 64 },
          ...{ kv_capacity_tokens: 500_000, context_tokens_max: 8192, prefill_tokens_per_s: null, speed_factor: 1 },
        })),
      },
      0,
    )
    if (joined !== 'joined') throw new Error(joined)
  }
  const lease = (at: number) =>
    table.choose(
      {
        ...{ lease: `lease-${at}`, tenant: 't', program: `p-${at % 500}`, prompt_tokens_estimate: 900, pin: null },
        ...{ excluded_engines: [], max_load: null, now_ms: at },
      },
      0,
    )
  for (let at = 0; at < 500; at += 1) lease(at)
  const lease_us = cpuUs(LEASES, (at) => lease(500 + at))
  const snapshot_us = cpuUs(200, () => JSON.stringify(table.snapshot(0)))
  return { engines, lease_us, snapshot_us, snapshot_bytes: JSON.stringify(table.snapshot(0)).length }
}

export function shardChoiceCost(engines: number): { shards: number; choice_us: number; view_bytes: number } {
  const table = new PoolShards()
  for (let at = 0; at < engines / ENGINES_PER_AGENT; at += 1) {
    const member = { agent: `agent-${at}`, engines: ENGINES_PER_AGENT, seats: 64 * ENGINES_PER_AGENT }
    let shard = table.place(member.agent, 0)
    for (let tries = 0; shard !== null && tries < 3; tries += 1) {
      const belongs = table.joined({ ...member, shard }, 0)
      if (belongs === shard) break
      shard = belongs
    }
  }
  const view = table.view()
  const choice_us = cpuUs(20_000, (at) => shardsToAsk(view, { program: `p${at}`, pin: null, loadOf: () => 0 }))
  return { shards: view.shards.length, choice_us, view_bytes: JSON.stringify(view).length }
}

function cpuUs(times: number, work: (at: number) => unknown): number {
  const before = process.cpuUsage()
  for (let at = 0; at < times; at += 1) work(at)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / times
}
