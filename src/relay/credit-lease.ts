/**
 * A lease that needs no request (core/pool/lease-credits.ts). A call whose program is pinned to an engine for which this isolate holds a
 * credit goes there. So it waits for its program's actor alone, and not for a pool that may be on another continent. Pools are
 * told of such leases together, off the call path.
 *
 * It is what the pool would have answered: the nearest region with engines is the pin's, and a seat is free there. Every other call asks. So
 * does one whose program has open leases that may be elsewhere, since only the pool knows what they were charged so far.
 */
import type { LeaseByCredit } from '../actors/contracts.ts'
import type { Pin } from '../core/pool/pool-types.ts'
import { sleep } from '../platform/deadline.ts'
import type { Admission } from './admit.ts'
import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'
import type { Leased } from './lease.ts'
import { askTwice } from './rpc.ts'

/** Whether it is worth waiting for the call's pin before a pool is asked. */
export function mayLeaseByCredit(call: IdentifiedCall, deps: RelayDeps): boolean {
  return !call.offline && deps.creditBook.mayTake(call, deps.now())
}

/** Null: the pools must be asked. */
export function leaseByCredit(
  call: IdentifiedCall,
  { pin, regions, open_leases, class: of_class }: Admission,
  lease: string,
  deps: RelayDeps,
): Leased | null {
  if (call.program === null || call.offline || pin === null || pin.model !== call.model) return null
  if (!deps.creditBook.isOnlyAt(call, pin, open_leases)) return null
  const region = nearest(call, regions)
  if (region?.id !== pin.region) return null
  const now_ms = deps.now()
  const facts = hasRoomFor(call, pin, deps) ? deps.creditBook.credits.take(pin, now_ms) : null
  if (facts === null) return null
  deps.creditBook.leased(call, pin, lease)
  const leased: Leased = { ...facts, lease, region, reason: 'pinned', pin: true, charges: [], by_credit: true }
  const { tenant, program, id, prompt_tokens_estimate } = call
  const { agent, engine, epoch } = facts
  const told = { lease, tenant, program, call: id, class: of_class, prompt_tokens_estimate, at_ms: now_ms }
  tellLater(leased, pin, { ...told, agent, engine, epoch }, deps)
  return leased
}

/** A prompt that has outgrown its engine goes to a larger one, which the pool knows. */
function hasRoomFor(
  { prompt_tokens_estimate }: IdentifiedCall,
  { region, model, engine }: Pin,
  deps: RelayDeps,
): boolean {
  const shard = deps.creditBook.credits.look({ region, model, engine })?.shard
  const found = deps.pools.recall(region, model, shard)?.engines.find((one) => one.engine === engine)
  return found !== undefined && found.context_tokens_max > prompt_tokens_estimate
}

/** The engine has failed a call, so the next ones ask. */
export function forgetCredits(
  { region, engine }: Leased,
  { model }: Pick<IdentifiedCall, 'model'>,
  deps: RelayDeps,
): void {
  deps.creditBook.credits.forget({ region: region.id, model, engine })
}

/** The nearest region that has engines, of those that the program may use. */
function nearest({ regions, linked_regions }: IdentifiedCall, held: readonly string[] | null): Leased['region'] | null {
  const may = (id: string) => linked_regions.has(id) && (held === null || held.includes(id))
  return regions.find(({ id }) => may(id)) ?? null
}

function tellLater({ region, shard }: Leased, { model }: Pin, lease: LeaseByCredit, deps: RelayDeps): void {
  const pool = JSON.stringify([region.id, model, shard])
  const added = deps.creditBook.add(pool, lease)
  if (added === 'more') return
  const tell = async (): Promise<void> => {
    if (added === 'first') await sleep(deps.times.credits_told_ms)
    const leases = deps.creditBook.takeAll(pool)
    if (leases.length === 0) return
    // Credits last from the question on, so that none outlasts what the pool takes it for.
    const asked_at_ms = deps.now()
    const reply = await askTwice(() => deps.pool(region, model, shard).leasedByCredit(leases))
    if (reply.status === 'failed') return deps.report('leases_not_told', reply.error)
    for (const { engine, epoch } of new Map(leases.map((one) => [one.engine, one])).values()) {
      deps.creditBook.credits.renewed(
        { region: region.id, model, engine, epoch },
        reply.value[engine] ?? 0,
        asked_at_ms,
      )
    }
  }
  deps.waitUntil(tell())
}
