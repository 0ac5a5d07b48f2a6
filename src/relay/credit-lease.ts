/**
 * A lease that needs no request (core/pool/lease-credits.ts). A call whose program is pinned to an engine for which this isolate holds a
 * credit goes there. So it waits for its program's actor alone, and not for a pool that may be on another continent. Pools are
 * told of such leases together, off the call path.
 *
 * It is what the pool would have answered: the nearest region with engines is the pin's, and a seat is free there. Every other call asks. So
 * does one whose program has open calls, since only the pool knows what they were charged so far.
 */
import type { LeaseByCredit } from '../actors/contracts.ts'
import { LEASES_BY_CREDIT_MAX, LeaseCredits } from '../core/pool/lease-credits.ts'
import type { EngineChoice, Pin } from '../core/pool/pool-types.ts'
import { sleep } from '../platform/deadline.ts'
import type { Admission } from './admit.ts'
import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'
import type { Leased } from './lease.ts'
import { askTwice } from './rpc.ts'

type Chosen = Extract<EngineChoice, { status: 'leased' }>
type Facts = Omit<Leased, 'lease' | 'region' | 'charges' | 'reason' | 'pin'>
type Placed = Pick<IdentifiedCall, 'tenant' | 'program' | 'model'>

/** The isolate's own. */
export class CreditBook {
  readonly credits = new LeaseCredits<Facts>()
  /** Leases that pools have not been told of, by region, model and shard. */
  readonly #untold = new Map<string, LeaseByCredit[]>()

  /** `first`: no other waits to be told, so nothing will tell it. `full`: they are as many as a message has. */
  add(pool: string, lease: LeaseByCredit): 'first' | 'full' | 'more' {
    const untold = this.#untold.get(pool)
    if (untold === undefined) this.#untold.set(pool, [lease])
    else untold.push(lease)
    if (untold === undefined) return 'first'
    return untold.length >= LEASES_BY_CREDIT_MAX ? 'full' : 'more'
  }

  takeAll(pool: string): LeaseByCredit[] {
    const untold = this.#untold.get(pool) ?? []
    this.#untold.delete(pool)
    return untold
  }
}

/** A pool has leased: the program is at home there, and the isolate may hold credits. */
export function hearCredits(
  call: Placed,
  region: string,
  { agent, engine, epoch, url, pin, speed_factor, native_apis, resumes }: Chosen,
  { ticket_kid, shard, credits }: { ticket_kid: string | null; shard: number | undefined; credits: number },
  deps: RelayDeps,
): void {
  if (ticket_kid === null || !pin) return
  const at = { region, model: call.model, engine, epoch }
  const can = { ...(native_apis === undefined ? {} : { native_apis }), ...(resumes === undefined ? {} : { resumes }) }
  const facts = {
    agent,
    engine,
    epoch,
    url,
    speed_factor,
    ticket_kid,
    ...can,
    ...(shard === undefined ? {} : { shard }),
  }
  deps.creditBook.credits.granted(at, facts, credits, deps.now())
  if (call.program !== null) deps.creditBook.credits.stays(homeOf(call), at)
}

/** Whether it is worth waiting for the call's pin before a pool is asked. */
export function mayLeaseByCredit(call: IdentifiedCall, deps: RelayDeps): boolean {
  return call.program !== null && !call.offline && deps.creditBook.credits.mayTake(homeOf(call), deps.now())
}

/** Null: the pools must be asked. */
export function leaseByCredit(
  call: IdentifiedCall,
  { pin, regions, open_leases, class: of_class }: Admission,
  lease: string,
  deps: RelayDeps,
): Leased | null {
  if (call.program === null || call.offline || pin === null || pin.model !== call.model) return null
  if (open_leases.length > 0) return null
  const region = nearest(call, regions)
  if (region?.id !== pin.region) return null
  const now_ms = deps.now()
  const facts = hasRoomFor(call, pin, deps) ? deps.creditBook.credits.take(pin, now_ms) : null
  if (facts === null) return null
  const leased: Leased = { ...facts, lease, region, reason: 'pinned', pin: true, charges: [] }
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
export function forgetCredits({ region, engine }: Leased, { model }: Placed, deps: RelayDeps): void {
  deps.creditBook.credits.forget({ region: region.id, model, engine })
}

/** The nearest region that has engines, of those that the program may use. */
function nearest({ regions, linked_regions }: IdentifiedCall, held: readonly string[] | null): Leased['region'] | null {
  const may = (id: string) => linked_regions.has(id) && (held === null || held.includes(id))
  return regions.find(({ id }) => may(id)) ?? null
}

function homeOf({ tenant, program, model }: Placed): string {
  return JSON.stringify([tenant, program, model])
}

function tellLater({ region, shard }: Leased, { model }: Pin, lease: LeaseByCredit, deps: RelayDeps): void {
  const pool = JSON.stringify([region.id, model, shard])
  const added = deps.creditBook.add(pool, lease)
  if (added === 'more') return
  const tell = async (): Promise<void> => {
    if (added === 'first') await sleep(deps.times.credits_told_ms)
    const leases = deps.creditBook.takeAll(pool)
    if (leases.length === 0) return
    const reply = await askTwice(() => deps.pool(region, model, shard).leasedByCredit(leases))
    if (reply.status === 'failed') return deps.report('leases_not_told', reply.error)
    const now_ms = deps.now()
    for (const { engine, epoch } of new Map(leases.map((one) => [one.engine, one])).values()) {
      deps.creditBook.credits.renewed({ region: region.id, model, engine, epoch }, reply.value[engine] ?? 0, now_ms)
    }
  }
  deps.waitUntil(tell())
}
