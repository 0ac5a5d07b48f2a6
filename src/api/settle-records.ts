/**
 * Settles a batch of records. Each program's records are a group. Records of calls that belong to no program are metered by
 * their tenant, and are a group too. A group that fails or does not answer in time is left out of the acknowledgement. So
 * one actor cannot stop the records of the others, and the whole batch is answered before its agent gives up waiting. What
 * a late group has written is acknowledged when the records come again.
 */
import { programActor, tenantActor } from '../actors/stubs.ts'
import type { ProvenRecord } from '../core/program/program-state.ts'
import type { Env } from '../env.ts'
import { within } from '../platform/deadline.ts'
import { logFailure } from '../platform/log.ts'
import { atOnce } from './bounded-concurrency.ts'

/** Actors that one batch asks at a time. */
export const ACTORS_AT_ONCE_MAX = 16
export const GROUP_TIMEOUT_MS = 2_000
/** Below the time for which agents wait for an answer, 10 s. */
export const BATCH_TIMEOUT_MS = 7_000

interface Group {
  records: ProvenRecord[]
  /** Gives the leases whose records storage has confirmed. */
  settle: (records: readonly ProvenRecord[]) => Promise<string[]>
}

/** Returns the leases whose records storage has confirmed. */
export async function settleRecords(
  env: Env,
  records: readonly ProvenRecord[],
  waitUntil: (work: Promise<unknown>) => void,
): Promise<string[]> {
  const settlers = new Map<string, Group>()
  for (const record of records) {
    const { tenant, program, run, call } = record
    // A call that belongs to no program goes by its own id, in its run too. The first call of a conversation gives its
    // program its id, but not the run.
    const isAlone = program === call && run === call
    const name = JSON.stringify(isAlone ? [tenant] : [tenant, program])
    const group = settlers.get(name) ?? {
      records: [],
      settle: isAlone ? meterAlone(env, tenant) : settleIn(env, tenant, program),
    }
    settlers.set(name, group)
    group.records.push(record)
  }
  const groups = [...settlers.values()]
  const acknowledged: string[] = []
  const late_ms = Date.now() + BATCH_TIMEOUT_MS
  let late = 0
  await atOnce(groups, ACTORS_AT_ONCE_MAX, async (group) => {
    const left_ms = Math.min(GROUP_TIMEOUT_MS, late_ms - Date.now())
    const settled = left_ms <= 0 ? 'late' : await settleGroup(group, left_ms, waitUntil)
    if (settled === 'late') late += 1
    else acknowledged.push(...settled)
  })
  if (late > 0) logFailure('settle_late', `${late} of ${groups.length} groups did not answer in time`)
  return acknowledged
}

async function settleGroup(
  { records, settle }: Group,
  timeout_ms: number,
  waitUntil: (work: Promise<unknown>) => void,
): Promise<string[] | 'late'> {
  const settling = settle(records).catch((error: unknown) => {
    logFailure('settle_failed', error, { tenant: records[0]?.tenant ?? '', records: records.length })
    return []
  })
  // An actor that is only slow finishes its work, although its answer is not waited for.
  waitUntil(settling)
  const settled = await within(settling, timeout_ms)
  return settled.status === 'late' ? 'late' : settled.value
}

function settleIn(env: Env, tenant: string, program: string): Group['settle'] {
  return async (records) => programActor(env, tenant, program).settle(records)
}

function meterAlone(env: Env, tenant: string): Group['settle'] {
  return async (records) => {
    await tenantActor(env, tenant).meter(records)
    return records.map(({ lease }) => lease)
  }
}
