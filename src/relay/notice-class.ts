import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'
import type { Leased } from './lease.ts'

/** Off the call path: a pool that does not hear it orders the class by less. */
export function noticeClass(
  { tenant, class: name, model }: Pick<IdentifiedCall, 'tenant' | 'class' | 'model'>,
  { region }: Pick<Leased, 'region'>,
  deps: RelayDeps,
): void {
  const now_ms = deps.now()
  if (!deps.classNotices.isDue(JSON.stringify([region.id, model, tenant, name]), now_ms)) return
  deps.waitUntil(
    deps
      .pool(region, model)
      .noticeClass({ tenant, class: name })
      .catch((error: unknown) => deps.report('class_not_noticed', error, { tenant })),
  )
}
