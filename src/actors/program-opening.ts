/**
 * How a program's run opens, and what is asked before: whether the tenant may have another program, whether the archive
 * keeps up, and whether everybody can know to which regions the run is held.
 */
import { programClass } from '../core/program-class.ts'
import type { ProgramEntry, ProgramOpening } from '../core/program-entry.ts'
import type { Env } from '../env.ts'
import { dropResidency, putResidency } from '../store/residency.ts'
import type { AdmitReply, AdmitRequest, ProgramRpc } from './contracts.ts'
import { logFailure } from './log.ts'
import { newRunId } from './run-id.ts'
import { tenantActor } from './stubs.ts'

/** Ended runs that may wait for D1; past it the program opens no further run. */
export const RUNS_UNARCHIVED_MAX = 64
/** While D1 does not take an ended run. Not bounded in number: an ended run is never given up. */
export const ARCHIVE_RETRY_MS = 15_000
/** From the question to the TenantActor's answer, whether the tenant may have another program. */
const ROOM_TIMEOUT_MS = 150
/** While D1 does not take a run's regions: doubles from the first to the last. */
const RESIDENCY_RETRY_FIRST_MS = 500
const RESIDENCY_RETRY_MAX_MS = 60_000

/** A tenant that does not answer has room: serving beats counting. */
export async function hasRoom(
  env: Env,
  { tenant, program, live_programs_max = null }: Pick<AdmitRequest, 'tenant' | 'program' | 'live_programs_max'>,
): Promise<boolean> {
  if (live_programs_max === null) return true
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(true), ROOM_TIMEOUT_MS)
  const asked = tenantActor(env, tenant)
    .roomForProgram({ program, live_programs_max })
    .catch((error: unknown) => {
      logFailure('tenant_not_asked', error)
      return true
    })
  const found = await Promise.race([asked, late])
  clearTimeout(timer)
  return found
}

/** Puts a run's regions where a relay finds them that cannot ask the actor. False: D1 did not take them. */
export async function keptResidency(
  d1: D1Database,
  { tenant, program, run }: { tenant: string; program: string; run: string },
  regions: readonly string[],
): Promise<boolean> {
  try {
    await putResidency(d1, { tenant, program, run }, regions)
    return true
  } catch (error) {
    logFailure('residency_not_kept', error, { tenant })
    return false
  }
}

/**
 * As `keptResidency` for a run that is open already: D1 is told until it knows, or the run is over. The actor's own row
 * holds the run meanwhile. Never rejects.
 */
export async function keepResidency(database: () => D1Database, entry: ProgramEntry): Promise<void> {
  const { regions } = entry.summary(entry.last_activity_ms)
  if (regions === null) return
  let wait_ms = RESIDENCY_RETRY_FIRST_MS
  while (entry.state === 'running' && !(await keptResidency(database(), entry, regions))) {
    const { promise, resolve } = Promise.withResolvers<void>()
    setTimeout(resolve, wait_ms)
    await promise
    wait_ms = Math.min(RESIDENCY_RETRY_MAX_MS, 2 * wait_ms)
  }
  if (entry.state === 'running') return
  // It may have ended, and been dropped there, while D1 was told.
  await dropResidency(database(), entry).catch((error: unknown) =>
    logFailure('residency_not_dropped', error, { tenant: entry.tenant }),
  )
}

export function openingOfCall(request: AdmitRequest): ProgramOpening {
  const { tenant, program, app, metadata, now_ms } = request
  return {
    ...{ tenant, program, app, metadata, now_ms },
    run: newRunId(now_ms),
    class: request.class,
    reading: request.reading ?? 'modelled',
    regions: request.regions ?? null,
  }
}

export function openingOfStart(run: string, request: Parameters<ProgramRpc['start']>[0]): ProgramOpening {
  const { tenant, program, app, metadata, regions = null, now_ms } = request
  const of_class = programClass({ app, system_prompt: null, tool_names: [] })
  return { ...{ run, tenant, program, app, metadata, regions, now_ms }, class: of_class, reading: 'modelled' }
}

export function runsPending(): AdmitReply {
  return {
    status: 'refused',
    code: 'program_calls_exceeded',
    message: `${RUNS_UNARCHIVED_MAX} ended runs of this program wait for the archive`,
    retry_after_s: ARCHIVE_RETRY_MS / 1000,
  }
}
