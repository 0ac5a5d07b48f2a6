/**
 * How a program's run opens, and what is checked before: whether the tenant may have another program, and whether the
 * archive keeps up.
 */
import { type Budget, budgetOf } from '../core/budget/budget.ts'
import { programClass } from '../core/program/program-class.ts'
import type { ProgramOpening } from '../core/program/program-entry.ts'
import { liveProgramsShare, tenantShard } from '../core/program/tenant-shards.ts'
import type { Env } from '../env.ts'
import { logFailure } from '../platform/log.ts'
import { newRunId } from '../platform/run-id.ts'
import type { HeldTo } from '../store/residency.ts'
import { ARCHIVE_RETRY } from './archive-retry.ts'
import type { AdmitReply, AdmitRequest, ProgramRpc } from './contracts.ts'
import { tenantActor } from './stubs.ts'

/** Ended runs that may wait for the archive. Past it the program opens no further run. */
export const RUNS_UNARCHIVED_MAX = 64
/** Wait for the TenantActor's answer to whether the tenant may have another program. */
const ROOM_TIMEOUT_MS = 150

/** A tenant that does not answer has room: serving beats counting. */
export async function hasRoom(
  env: Env,
  request: Pick<AdmitRequest, 'tenant' | 'program' | 'live_programs_max' | 'tenant_shards'>,
): Promise<boolean> {
  const { tenant, program, live_programs_max = null, tenant_shards = 1 } = request
  if (live_programs_max === null) return true
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(true), ROOM_TIMEOUT_MS)
  const asked = tenantActor(env, tenant, tenantShard(program, tenant_shards))
    .roomForProgram({ program, live_programs_max: liveProgramsShare(live_programs_max, tenant_shards) })
    .catch((error: unknown) => {
      logFailure('tenant_not_asked', error)
      return true
    })
  const found = await Promise.race([asked, late])
  clearTimeout(timer)
  return found
}

/** `inherited`: what the program is already held to. A call does not change it. */
export function openingOfCall(
  request: AdmitRequest,
  inherited: { regions: readonly string[] | null; budget: Budget | null },
): ProgramOpening {
  const { tenant, program, app, metadata, tenant_shards = 1, now_ms } = request
  return {
    ...{ tenant, program, app, metadata, now_ms },
    run: newRunId(now_ms, tenantShard(program, tenant_shards)),
    class: request.class,
    reading: request.reading ?? 'modelled',
    regions: inherited.regions ?? request.regions ?? null,
    budget: inherited.budget ?? budgetOf(request.budget ?? {}, now_ms),
  }
}

/** The run's first call fixes the reading: a start names no model. */
export function openingOfStart(run: string, request: Parameters<ProgramRpc['start']>[0]): ProgramOpening {
  const { tenant, program, app, metadata, regions = null, budget = null, now_ms } = request
  const of_class = programClass({ app, system_prompt: null, tool_names: [] })
  return { ...{ run, tenant, program, app, metadata, regions, budget, now_ms }, class: of_class, reading: 'modelled' }
}

export function heldToBy({
  regions,
  budget,
}: {
  regions?: readonly string[] | null | undefined
  budget?: object | null | undefined
}): HeldTo {
  return { regions: regions ?? null, has_budget: budget != null }
}

export function runsPending(): AdmitReply {
  return {
    status: 'refused',
    code: 'program_calls_exceeded',
    message: `${RUNS_UNARCHIVED_MAX} ended runs of this program wait for the archive. Send the call again later.`,
    retry_after_s: ARCHIVE_RETRY.min_ms / 1000,
  }
}
