/** `nice`: sets what a program, or a class of programs, weighs within its tenant. Audited, whoever asks. */
import { programActor } from '../actors/stubs.ts'
import type { ProgramSummary } from '../core/program/process-table.ts'
import type { Env } from '../env.ts'
import { apiError } from '../platform/api-error.ts'
import { CLASS_WEIGHTS_MAX } from '../protocol/index.ts'
import { type Auditor, auditAct } from '../store/audit.ts'
import { fromStore } from '../store/database.ts'
import type { TenantIdentity } from '../store/keys.ts'
import { weighClass } from '../store/tenants.ts'

/** A tenant's own act is audited under the id of its key. */
export function auditorOfKey({ key }: TenantIdentity): Auditor {
  return { actor: key, at_ms: Date.now() }
}

/** Null: no program of this id is running. */
export async function weighProgram(
  env: Env,
  auditor: Auditor,
  { tenant, program, weight }: { tenant: string; program: string; weight: number },
): Promise<ProgramSummary | null> {
  const actor = programActor(env, tenant, program)
  const present = await actor.describe(Date.now())
  if (present === null || present.state === 'ended') return null
  const change = { before: { weight: present.weight }, after: { weight } }
  await fromStore(() => auditAct(env.DB, auditor, 'program.weight', `program:${tenant}/${program}`, change))
  return actor.weigh(weight, Date.now())
}

export interface WeighedClass {
  tenant: string
  class: string
  weight: number
}

/** `full`: the answer that says so. The tenant is there: tenants are never deleted. */
export async function weighTenantClass(
  env: Env,
  auditor: Auditor,
  { tenant, class: name, weight }: WeighedClass,
): Promise<{ status: 'done' } | { status: 'full'; response: Response }> {
  const { status } = await fromStore(() => weighClass(env.DB, auditor, { tenant, name, weight }))
  if (status === 'done') return { status }
  const message = `${CLASS_WEIGHTS_MAX} classes weigh other than 1, and no more may. Set one of them to 1 first.`
  return { status: 'full', response: apiError(409, { message, param: 'class', code: 'class_weights_full' }) }
}
