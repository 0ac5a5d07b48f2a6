/**
 * Algorithm 2 of Autellix (§4.3) over the engines of one pool.
 *
 * A prompt of at most SHORT_PROMPT_TOKENS goes to the least used engine: system prompts make it hit the KV cache anywhere.
 * A longer prompt goes to the engine with its program's KV cache. If there is none, it goes to the least used engine, which
 * becomes its pin. The paper keeps a pin for ever. Here a pin moves in two cases. First, its engine cannot serve it (gone,
 * draining, silent, another epoch: the KV is lost or soon will be). Second, the wait there exceeds the wait at the least
 * used engine by PIN_MOVE_FACTOR times the cost of prefilling the prompt there. The factor is above 1 because a move also
 * costs the program's next calls, and because expected waits are estimates.
 *
 * Engines are compared by load, then prompt tokens queued, then KV use, then a hash of lease and engine. The hash keeps
 * ties from sending every call to the first engine of the list. Same input, same choice.
 */

import { hash32 } from '../wire/hash.ts'
import { engineLoad, expectedWaitUs, kvUse, prefillCostUs, withoutOffline } from './engine-load.ts'
import {
  type EngineChoice,
  type EngineRequest,
  type EngineSnapshot,
  type LeaseReason,
  type Pin,
  type PoolSnapshot,
  SHORT_PROMPT_TOKENS,
} from './pool-types.ts'

/** A pin moves when its engine makes the call wait this many prefills longer than the best other one. */
export const PIN_MOVE_FACTOR = 2
/** What a client is told when a pool has no engine: agents reconnect within seconds. */
export const NO_ENGINE_RETRY_AFTER_S = 5

/** An engine before it is granted: why it was picked, and whether the program is pinned to it. */
export interface Picked {
  engine: EngineSnapshot
  reason: LeaseReason
  pin: boolean
}

/** Chooses among `engines` of `region`; nothing is changed. */
export function chooseEngine(
  region: string,
  engines: readonly EngineSnapshot[],
  request: EngineRequest,
  short_prompt_tokens = SHORT_PROMPT_TOKENS,
): EngineChoice {
  const eligible = eligibleEngines(engines, request)
  const best = leastUsed(eligible, request.lease)
  if (best === null) return { status: 'none', retry_after_s: NO_ENGINE_RETRY_AFTER_S }
  const picked =
    request.prompt_tokens_estimate <= short_prompt_tokens
      ? { engine: best, reason: unpinnedReason(request, 'least_used'), pin: false }
      : pickLong(region, eligible, best, request)
  return grantWithin(picked, request)
}

/** Grants the engine, unless it is so full that the call should ask in another region first. */
export function grantWithin(picked: Picked, request: EngineRequest): EngineChoice {
  const load = engineLoad(picked.engine)
  const ended = request.endedEstimate?.(picked.engine) ?? 0
  const load_estimate = load - ended / Math.max(1, picked.engine.seats)
  if (request.max_load !== null && load_estimate > request.max_load && !worthWaiting(picked, request)) {
    return { status: 'busy', load: load_estimate }
  }
  return grant(picked, load)
}

/**
 * Chooses from a Worker's last snapshot while the PoolActor cannot be reached, and counts the lease in that copy. Other
 * isolates hold the same old report and cannot see this one's leases, so all of them would choose the same least used
 * engine. So the better of two engines drawn by the lease's hash is taken (power of two choices). Pins hold as in
 * `chooseEngine`. No load limit applies: the load is not known well enough to send the call away.
 */
export function chooseFromSnapshot(snapshot: PoolSnapshot, request: EngineRequest): EngineChoice {
  const eligible = eligibleEngines(snapshot.engines, request)
  const best = betterOfTwo(eligible, request.lease)
  if (best === null) return { status: 'none', retry_after_s: NO_ENGINE_RETRY_AFTER_S }
  const picked =
    request.prompt_tokens_estimate <= SHORT_PROMPT_TOKENS
      ? { engine: best, reason: 'snapshot' as const, pin: false }
      : pickLong(snapshot.region, eligible, best, request)
  const choice = grant({ ...picked, reason: 'snapshot' }, engineLoad(picked.engine))
  const held = snapshot.engines.find(({ engine }) => engine === picked.engine.engine)
  if (held !== undefined) {
    held.leases_since_report += 1
    held.queued_tokens += request.prompt_tokens_estimate
  }
  return choice
}

/**
 * Ready, not tried before, and large enough, each as the call finds it. If none is large enough, all ready ones: the engine's own count decides
 * overflow.
 */
export function eligibleEngines(engines: readonly EngineSnapshot[], request: EngineRequest): EngineSnapshot[] {
  const ready = engines.filter(
    (engine) => engine.state === 'ready' && !request.excluded_engines.includes(engine.engine),
  )
  const large = ready.filter((engine) => engine.context_tokens_max > request.prompt_tokens_estimate)
  const eligible = large.length > 0 ? large : ready
  return request.offline === true ? eligible : eligible.map(withoutOffline)
}

function pickLong(
  region: string,
  eligible: readonly EngineSnapshot[],
  best: EngineSnapshot,
  request: EngineRequest,
): Picked {
  const { pin } = request
  if (pin === null || pin.region !== region) {
    return { engine: best, reason: unpinnedReason(request, 'pin_created'), pin: true }
  }
  const home = eligible.find((engine) => isHome(engine, pin))
  if (home === undefined) return { engine: best, reason: unpinnedReason(request, 'pin_gone'), pin: true }
  const leaving_us = PIN_MOVE_FACTOR * prefillCostUs(best, request.prompt_tokens_estimate)
  if (expectedWaitUs(home) > expectedWaitUs(best) + leaving_us) {
    return { engine: best, reason: 'pin_overloaded', pin: true }
  }
  return { engine: home, reason: 'pinned', pin: true }
}

export function isHome(engine: EngineSnapshot, pin: Pin): boolean {
  return engine.engine === pin.engine && engine.epoch === pin.epoch
}

export function unpinnedReason(request: EngineRequest, otherwise: LeaseReason): LeaseReason {
  return request.excluded_engines.length > 0 ? 'replaced' : otherwise
}

/** A pinned call stays in a pool that is too full unless prefilling in an idle region would finish sooner. */
function worthWaiting(picked: Picked, request: EngineRequest): boolean {
  if (picked.reason !== 'pinned') return false
  const leaving_us = PIN_MOVE_FACTOR * prefillCostUs(picked.engine, request.prompt_tokens_estimate)
  return expectedWaitUs(picked.engine) <= leaving_us
}

function grant({ engine, reason, pin }: Picked, load: number): EngineChoice {
  const { agent, epoch, url, speed_factor, native_apis, resumes } = engine
  const can = { ...(native_apis === undefined ? {} : { native_apis }), ...(resumes === undefined ? {} : { resumes }) }
  return { status: 'leased', agent, engine: engine.engine, epoch, url, reason, pin, speed_factor, ...can, load }
}

export function leastUsed(engines: readonly EngineSnapshot[], lease: string): EngineSnapshot | null {
  let best: EngineSnapshot | null = null
  for (const engine of engines) {
    if (best === null || compareUse(engine, best, lease) < 0) best = engine
  }
  return best
}

function betterOfTwo(engines: readonly EngineSnapshot[], lease: string): EngineSnapshot | null {
  const first = engines[hash32(lease, 1) % Math.max(1, engines.length)]
  if (first === undefined) return null
  const others = engines.filter((engine) => engine !== first)
  const second = others[hash32(lease, 2) % Math.max(1, others.length)]
  return second === undefined || compareUse(first, second, lease) < 0 ? first : second
}

function compareUse(a: EngineSnapshot, b: EngineSnapshot, lease: string): number {
  return (
    engineLoad(a) - engineLoad(b) ||
    a.queued_tokens - b.queued_tokens ||
    kvUse(a) - kvUse(b) ||
    tieHash(a, lease) - tieHash(b, lease)
  )
}

export function tieHash(engine: EngineSnapshot, lease: string): number {
  return hash32(`${lease}\n${engine.engine}`)
}
