/**
 * Settles a batch of records. Each program's records are a group, and a group that does not answer in time is left out of
 * the acknowledgement, as is one that fails. So one program cannot stop the records of the others, and the whole batch is
 * answered before its agent gives up waiting. What a late group has written is acknowledged when the records come again.
 */
import { programActor } from '../actors/stubs.ts'
import type { ProvenRecord } from '../core/program/program-state.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { within } from '../relay/deadline.ts'
import { atOnce } from './bounded-concurrency.ts'

/** Programs of one batch that are settled at a time. */
export const ACTORS_AT_ONCE_MAX = 16
export const GROUP_TIMEOUT_MS = 2_000
/** Below the time for which agents wait for an answer, 10 s. */
export const BATCH_TIMEOUT_MS = 7_000

/** Returns the leases whose records storage has confirmed. */
export async function settleRecords(
  env: Env,
  records: readonly ProvenRecord[],
  waitUntil: (work: Promise<unknown>) => void,
): Promise<string[]> {
  // A call that named no program left no state: its record is taken and nothing is kept.
  const acknowledged = records.filter(({ program, call }) => program === call).map(({ lease }) => lease)
  const stateful = records.filter(({ program, call }) => program !== call)
  const groups = [...Map.groupBy(stateful, ({ tenant, program }) => JSON.stringify([tenant, program])).values()]
  const late_ms = Date.now() + BATCH_TIMEOUT_MS
  let late = 0
  await atOnce(groups, ACTORS_AT_ONCE_MAX, async (group) => {
    const left_ms = Math.min(GROUP_TIMEOUT_MS, late_ms - Date.now())
    const settled = left_ms <= 0 ? 'late' : await settleGroup(env, group, left_ms, waitUntil)
    if (settled === 'late') late += 1
    else acknowledged.push(...settled)
  })
  if (late > 0) logFailure('settle_late', `${late} of ${groups.length} programs did not answer in time`)
  return acknowledged
}

async function settleGroup(
  env: Env,
  group: readonly ProvenRecord[],
  timeout_ms: number,
  waitUntil: (work: Promise<unknown>) => void,
): Promise<string[] | 'late'> {
  const [{ tenant, program }] = group as [ProvenRecord]
  const settling = programActor(env, tenant, program)
    .settle(group)
    .catch((error: unknown) => {
      logFailure('settle_failed', error, { tenant, records: group.length })
      return []
    })
  // A program that is only slow finishes its work, although its answer is not waited for.
  waitUntil(settling)
  const settled = await within(settling, timeout_ms)
  return settled.status === 'late' ? 'late' : settled.value
}
