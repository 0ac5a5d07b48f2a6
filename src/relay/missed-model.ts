import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'

/**
 * A call found no engine of its model. A host that is lent to an application and has one at home returns (docs/applications.md). Off the call path.
 * Offline calls bring no host back: they would take it from other offline work.
 */
export function missedModel({ model, regions, offline }: IdentifiedCall, deps: RelayDeps): void {
  if (offline || regions.length === 0 || !deps.missedModels.isDue(model, deps.now())) return
  const call = { model, regions: regions.map(({ id }) => id) }
  deps.waitUntil(deps.returnHosts(call).catch((error: unknown) => deps.report('hosts_not_told', error, { model })))
}
