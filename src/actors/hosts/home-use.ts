/** Whether a host's own engines serve online calls: it stays at home while they do. */
import { withoutOffline } from '../../core/pool/engine-load.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { freshCatalogue } from '../../store/catalogue.ts'
import { poolActor } from '../stubs.ts'

/** A pool that does not answer is taken to have calls: a host that goes away is missed more than one that stays. */
export async function hasOnlineCalls(
  env: Env,
  { region, model, agent }: { region: string; model: string; agent: string },
): Promise<boolean> {
  const { regions } = await freshCatalogue(env)
  const place = regions.find(({ id }) => id === region)
  if (place === undefined) return false
  try {
    const { engines } = await poolActor(env, place, model).describe(Date.now())
    return engines
      .filter((engine) => engine.agent === agent)
      .map(withoutOffline)
      .some(({ waiting, running, leases_since_report }) => waiting + running + leases_since_report > 0)
  } catch (error) {
    logFailure('pool_unreachable', error, { region, model })
    return true
  }
}
