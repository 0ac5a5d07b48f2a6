/** Ends a program: its actor closes it, and the engines of its open calls are asked to cancel them. */
import { cancelLeases } from '../actors/cancel-leases.ts'
import { poolActor, programActor } from '../actors/stubs.ts'
import type { ProgramSummary } from '../core/program/process-table.ts'
import type { Env } from '../env.ts'
import { endedProgram } from './program-reads.ts'

/** The program as it ended, now or before. Null: the tenant has none of this id. */
export async function endProgram(env: Env, tenant: string, program: string): Promise<ProgramSummary | null> {
  const ended = await programActor(env, tenant, program).end(Date.now())
  await cancelLeases(ended.open_leases, (region, model) => poolActor(env, { id: region, location_hint: null }, model))
  return ended.summary ?? (await endedProgram(env, tenant, program))
}
