/**
 * What is asked before a program's run opens: whether the tenant may have another program, whether the archive keeps up,
 * and whether everybody can know to which regions the run is held.
 */
import type { Env } from '../env.ts'
import { putResidency } from '../store/residency.ts'
import type { AdmitReply, AdmitRequest } from './contracts.ts'
import { logFailure } from './log.ts'
import { tenantActor } from './stubs.ts'

/** Ended runs that may wait for D1; past it the program opens no further run. */
export const RUNS_UNARCHIVED_MAX = 64
/** While D1 does not take an ended run. Not bounded in number: an ended run is never given up. */
export const ARCHIVE_RETRY_MS = 15_000
/** From the question to the TenantActor's answer, whether the tenant may have another program. */
const ROOM_TIMEOUT_MS = 150

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

export function runsPending(): AdmitReply {
  return {
    status: 'refused',
    code: 'program_calls_exceeded',
    message: `${RUNS_UNARCHIVED_MAX} ended runs of this program wait for the archive`,
    retry_after_s: ARCHIVE_RETRY_MS / 1000,
  }
}
