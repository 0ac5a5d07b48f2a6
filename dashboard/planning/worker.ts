/**
 * Plays a capacity plan in a thread of its own, so that the page stays responsive. The page imports this file for its address
 * alone, and starts it by that: the script's name has a hash, and the page's policy allows no script that is made up.
 */
import { costOf, verdictOf } from '../../simulator/fleet/fleet-verdict.ts'
import { planServed, type ServedPlan, type ServedQuestion } from '../../simulator/fleet/plan-served.ts'
import { modelsOf, ofModel, ServedProgram, type TenantPrograms } from '../../simulator/fleet/served-programs.ts'
import { POLICY_NAMES } from '../../simulator/policies/index.ts'
import { BALANCER_NAMES } from '../../src/core/pool/balancers/index.ts'
import type { PlanMessage, PlanRequest, PlanResult } from './messages.ts'
import { planProfile } from './profiles.ts'

export const WORKER_URL = import.meta.url

const post = (message: PlanMessage): void => globalThis.postMessage(message)

if (typeof document === 'undefined') {
  globalThis.onmessage = ({ data }: MessageEvent<PlanRequest>) => {
    planned(data).then(post, (error: unknown) => {
      if (!(error instanceof RangeError)) throw error
      post({ kind: 'refused', reason: error.message })
    })
  }
}

async function planned(request: PlanRequest): Promise<PlanMessage> {
  const question = questionOf(request)
  const plan = await planServed(question, (profile, engines) => post({ kind: 'playing', profile, engines }))
  if (plan === null) throw new RangeError('Every program has a call that is longer than the context of this profile.')
  return { kind: 'planned', result: resultOf(plan, question) }
}

/** Throws RangeError. */
function questionOf(request: PlanRequest): ServedQuestion {
  const { measure, at_most, engines_max, gpu_cost, model } = request
  const tenants: TenantPrograms[] = request.tenants.map(({ programs, ...tenant }) => ({
    ...tenant,
    programs: programs.map((one) => ServedProgram.parse(one)),
  }))
  const models = modelsOf(tenants)
  if (model === null && models.length > 1)
    throw new RangeError(`Several models were called: ${models.join(', ')}. Choose one.`)
  return {
    tenants: ofModel(tenants, model ?? models[0] ?? ''),
    profiles: [planProfile(request.profile)],
    policies: request.policies.map((name) => one(name, POLICY_NAMES)),
    balancers: [one(request.balancer, BALANCER_NAMES)],
    target: { measure, at_most },
    range: { min: 1, max: engines_max },
    gpu_cost,
  }
}

function one<const T extends string>(name: string, names: readonly T[]): T {
  const found = names.find((known) => known === name)
  if (found === undefined) throw new RangeError(`There is no ${name}.`)
  return found
}

function resultOf({ candidates, ...rest }: ServedPlan, question: ServedQuestion): PlanResult {
  return {
    ...verdictOf(candidates, question),
    ...rest,
    fleets: candidates.map((fleet) => ({
      ...{ profile: fleet.profile, policy: fleet.policy, balancer: fleet.balancer, played: fleet.played },
      fewest_engines: fleet.fewest_engines,
      gpus: fleet.fewest_engines === null ? null : fleet.fewest_engines * fleet.gpus,
      cost_per_hour: costOf(fleet, question.gpu_cost),
    })),
  }
}
