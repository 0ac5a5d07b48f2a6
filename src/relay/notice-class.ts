import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'
import type { Leased } from './lease.ts'

/**
 * Tells a pool of the class of a call that it leased as one of another class. Short prompts are leased while their program's actor is still asked, and a
 * program may have been started under a label that its calls do not repeat. The pool asks about a class at most every ASK_INTERVAL
 * (actors/pool-classes.ts), so it is told of one no more often. Off the call path: a pool that does not hear it orders the class by less.
 */
export function noticeClass(
  { tenant, class: name, model }: Pick<IdentifiedCall, 'tenant' | 'class' | 'model'>,
  { region, shard }: Pick<Leased, 'region' | 'shard'>,
  deps: RelayDeps,
): void {
  const now_ms = deps.now()
  if (!deps.classNotices.isDue(JSON.stringify([region.id, shard, model, tenant, name]), now_ms)) return
  deps.waitUntil(
    deps
      .pool(region, model, shard)
      .noticeClass({ tenant, class: name })
      .catch((error: unknown) => deps.report('class_not_noticed', error, { tenant })),
  )
}
