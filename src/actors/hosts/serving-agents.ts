/** Agents with an engine that is ready, for the models of hosts that lend only what is spare: their pools are asked. */
import type { KnownHost } from '../../core/hosts/choose-hosts.ts'
import type { Env } from '../../env.ts'
import { logFailure } from '../../platform/log.ts'
import { freshCatalogue } from '../../store/catalogue.ts'
import { poolActor } from '../stubs.ts'

/** By region and model. Where a pool does not answer nobody is known to serve, so no last engine is lent. */
export async function servingAgents(
  env: Env,
  known: readonly KnownHost[],
): Promise<(region: string, model: string) => ReadonlySet<string>> {
  const keys = known
    .filter(({ lend, linked }) => lend === 'spare' && linked)
    .flatMap(({ region, home }) => home.map(({ model }) => JSON.stringify([region, model])))
  const serving = new Map<string, Set<string>>()
  if (keys.length > 0) {
    const { regions } = await freshCatalogue(env)
    await Promise.all(
      [...new Set(keys)].map(async (key) => {
        const [region, model] = JSON.parse(key) as [string, string]
        const place = regions.find(({ id }) => id === region)
        if (place === undefined) return
        try {
          const { engines } = await poolActor(env, place, model).describe(Date.now())
          serving.set(key, new Set(engines.filter(({ state }) => state === 'ready').map(({ agent }) => agent)))
        } catch (error) {
          logFailure('pool_unreachable', error, { region, model })
        }
      }),
    )
  }
  return (region, model) => serving.get(JSON.stringify([region, model])) ?? new Set()
}
