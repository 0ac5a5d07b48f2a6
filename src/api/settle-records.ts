/**
 * Settles a batch of records. Each program's records are a group. Records of calls that belong to no program are a group of
 * their tenant. A record is acknowledged when its program has it, which tells the tenant of its charge, or when its tenant has metered
 * it (batch-meter.ts): that of a call under a budget of its tenant or key, and of a call that belongs to no program. A group that fails or does not answer in time is left out of the acknowledgement. So
 * one actor cannot stop the records of the others, and the whole batch is answered before its agent gives up waiting. What
 * a late group has written is acknowledged when the records come again.
 */
import type { PricedRecord } from '../actors/contracts.ts'
import { programActor, tenantActor } from '../actors/stubs.ts'
import { pricesAt } from '../core/budget/price-history.ts'
import type { ProvenRecord } from '../core/program/program-state.ts'
import { isAlone, runShard } from '../core/program/tenant-shards.ts'
import type { Env } from '../env.ts'
import { within } from '../platform/deadline.ts'
import { logFailure } from '../platform/log.ts'
import { catalogue } from '../store/catalogue.ts'
import type { Background } from '../store/isolate-cache.ts'
import { BatchMeter } from './batch-meter.ts'
import { atOnce } from './bounded-concurrency.ts'

/** Actors that one batch asks at a time. */
export const ACTORS_AT_ONCE_MAX = 16
export const GROUP_TIMEOUT_MS = 2_000
/** Below the time for which agents wait for an answer, 10 s. */
export const BATCH_TIMEOUT_MS = 7_000

interface Group {
  tenant: string
  /** Null: calls that belong to none. */
  program: string | null
  records: ProvenRecord[]
}

/** Returns the leases whose records storage has confirmed. */
export async function settleRecords(
  env: Env,
  records: readonly ProvenRecord[],
  waitUntil: (work: Promise<unknown>) => void,
): Promise<string[]> {
  const byActor = new Map<string, Group>()
  for (const record of records) {
    const { tenant, program } = record
    const is_alone = isAlone(record)
    const name = JSON.stringify(is_alone ? [tenant, runShard(record.run)] : [tenant, program])
    const group = byActor.get(name) ?? { tenant, program: is_alone ? null : program, records: [] }
    byActor.set(name, group)
    group.records.push(record)
  }
  const groups = [...byActor.values()]
  const meter = new BatchMeter({
    groups: groups.length,
    meter: async ({ tenant, shard }, some) => tenantActor(env, tenant, shard).meter(await priced(env, some, waitUntil)),
    wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  })
  const acknowledged: string[] = []
  const late_ms = Date.now() + BATCH_TIMEOUT_MS
  let late = 0
  await atOnce(groups, ACTORS_AT_ONCE_MAX, async (group) => {
    const left_ms = Math.min(GROUP_TIMEOUT_MS, late_ms - Date.now())
    const settled =
      left_ms <= 0 ? 'late' : await settleGroup(group, () => settle(env, group, meter, waitUntil), left_ms, waitUntil)
    if (settled === 'late') late += 1
    else acknowledged.push(...settled)
  })
  if (late > 0) logFailure('settle_late', `${late} of ${groups.length} groups did not answer in time`)
  return acknowledged
}

async function settleGroup(
  { records }: Group,
  settle: () => Promise<string[]>,
  timeout_ms: number,
  waitUntil: (work: Promise<unknown>) => void,
): Promise<string[] | 'late'> {
  const settling = settle().catch((error: unknown) => {
    logFailure('settle_failed', error, { tenant: records[0]?.tenant ?? '', records: records.length })
    return []
  })
  // An actor that is only slow finishes its work, although its answer is not waited for.
  waitUntil(settling)
  const settled = await within(settling, timeout_ms)
  return settled.status === 'late' ? 'late' : settled.value
}

/** Gives the leases whose records storage has confirmed. */
async function settle(
  env: Env,
  { tenant, program, records }: Group,
  meter: BatchMeter,
  waitUntil: Background,
): Promise<string[]> {
  if (program === null) {
    await meterAll(meter, tenant, records)
    return records.map(({ lease }) => lease)
  }
  const { confirmed, gathered } = await programActor(env, tenant, program).settle(await priced(env, records, waitUntil))
  const metered = new Set(confirmed)
  for (const lease of gathered) metered.delete(lease)
  const its = records.filter(({ lease }) => metered.has(lease))
  await meterAll(meter, tenant, its)
  return confirmed
}

/** Each record in the shard that its run names. */
async function meterAll(meter: BatchMeter, tenant: string, records: readonly ProvenRecord[]): Promise<void> {
  const shards = Map.groupBy(records, ({ run }) => runShard(run))
  await Promise.all([...shards].map(([shard, its]) => meter.record({ tenant, shard }, its)))
}

/** A model that the catalogue does not have has no price. */
async function priced(env: Env, records: readonly ProvenRecord[], waitUntil: Background): Promise<PricedRecord[]> {
  const now_ms = Date.now()
  const { models } = await catalogue(env, now_ms, waitUntil)
  return records.map((record) => {
    const model = models.get(record.model)
    return { ...record, prices: model === undefined ? null : pricesAt(model, record.granted_at_ms ?? now_ms) }
  })
}
