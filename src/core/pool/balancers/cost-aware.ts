/**
 * Cost-aware: the engine on which the call costs all calls together least. It serves traffic by default.
 *
 *     cost = expected wait + PREFILLS_PER_TOKEN × uncached tokens × prefill time of a token × (1 + calls in the batch)
 *
 * - Uncached tokens are the prompt tokens that the engine does not hold. kv-residency.ts knows them for each engine, not
 *   only for the last one. A restarted pool knows nothing of the program and believes the pin.
 * - Prefill delays the call and each call in the batch, so it counts once for each. Without that factor programs leave for
 *   a moment's gain, and engines spend their time on what others hold. The factor also sends new programs where the fewest
 *   calls run.
 * - PREFILLS_PER_TOKEN is 2. On an engine whose KV is full, each prefilled token displaces a token of another program,
 *   which is prefilled again later.
 * - Expected wait is the work queued before the call (engine-load.ts): 0 while seats are free.
 *
 * So a program stays where its cache is until the queue there costs more than prefilling elsewhere does. Then it moves, and
 * its cache is in both places. When its engine has had to drop the cache, it goes to the emptiest engine. Algorithm 2
 * decides the same question by prompt length and a factor. Session affinity never asks it.
 */
import {
  eligibleEngines,
  grantWithin,
  isHome,
  NO_ENGINE_RETRY_AFTER_S,
  tieHash,
  unpinnedReason,
} from '../choose-engine.ts'
import { engineLoad, expectedWaitUs, prefillCostUs } from '../engine-load.ts'
import { type EngineRequest, type EngineSnapshot, type LeaseReason, SHORT_PROMPT_TOKENS } from '../pool-types.ts'
import type { Balancer } from './balancer.ts'

/** 1, 2: the mean of bfcl at 9 programs a second on 4 engines is 262, 255 ms a token; chats do not change. */
const PREFILLS_PER_TOKEN = 2

export const COST_AWARE: Balancer = Object.freeze({
  name: 'cost-aware',
  short_prompt_tokens: SHORT_PROMPT_TOKENS,
  stays_home: true,
  choose(region, engines, request) {
    const eligible = eligibleEngines(engines, request)
    let best: Costed | null = null
    for (const engine of eligible) {
      const costed = { engine, cost_us: costUs(engine, region, request) }
      if (best === null || compareCost(costed, best, request.lease) < 0) best = costed
    }
    if (best === null) return { status: 'none', retry_after_s: NO_ENGINE_RETRY_AFTER_S }
    const { engine } = best
    const reason = unpinnedReason(request, reasonOf(engine, eligible, region, request))
    return grantWithin({ engine, reason, pin: true }, request)
  },
} satisfies Balancer)

interface Costed {
  engine: EngineSnapshot
  cost_us: number
}

function costUs(engine: EngineSnapshot, region: string, request: EngineRequest): number {
  const { prompt_tokens_estimate } = request
  const uncached_tokens = Math.max(0, prompt_tokens_estimate - heldTokens(engine, region, request))
  const { seats, waiting, running, leases_since_report } = engine
  const delayed_calls = 1 + Math.min(seats, waiting + running + leases_since_report)
  return expectedWaitUs(engine) + PREFILLS_PER_TOKEN * prefillCostUs(engine, uncached_tokens) * delayed_calls
}

/** Below its seats an engine has no queue, yet the fuller its batch, the longer each step: load breaks the tie. */
function compareCost(a: Costed, b: Costed, lease: string): number {
  return (
    a.cost_us - b.cost_us ||
    engineLoad(a.engine) - engineLoad(b.engine) ||
    tieHash(a.engine, lease) - tieHash(b.engine, lease)
  )
}

/** What the engine holds of the program's KV. */
function heldTokens(engine: EngineSnapshot, region: string, request: EngineRequest): number {
  const { pin, resident_tokens, prompt_tokens_estimate } = request
  if (resident_tokens !== undefined && resident_tokens.size > 0) return resident_tokens.get(engine.engine) ?? 0
  return pin !== null && pin.region === region && isHome(engine, pin) ? prompt_tokens_estimate : 0
}

function reasonOf(
  chosen: EngineSnapshot,
  eligible: readonly EngineSnapshot[],
  region: string,
  request: EngineRequest,
): LeaseReason {
  const holds = (engine: EngineSnapshot) => heldTokens(engine, region, request) > 0
  if (holds(chosen)) return 'pinned'
  if (eligible.some(holds)) return 'pin_overloaded'
  return request.pin !== null && request.pin.region === region ? 'pin_gone' : 'pin_created'
}
