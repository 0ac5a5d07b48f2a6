/**
 * How many engines the programs that a running system has served would need: `switchyard plan` and the page. It is the search of
 * `npm run simulate -- plan` without files and threads, so that it runs in a browser too.
 *
 * The programs are also played on as many engines as served them. How far that is from what was measured tells how well the
 * profile describes those engines.
 */
import type { LatencyProfile } from '../../gpu-agent/engine/backends/emulated/profiles/profile.ts'
import type { BalancerName } from '../../src/core/pool/balancers/index.ts'
import { SHORT_PROMPT_TOKENS } from '../../src/core/pool/pool-types.ts'
import { STATUS_LOAD_INTERVAL_MS } from '../../src/protocol/link.ts'
import type { PolicyName } from '../policies/index.ts'
import { configOf, enginesOf, fleetOf, type PlayPlan } from '../run/play-plan.ts'
import { runResult } from '../run/run-result.ts'
import { simulate } from '../simulation.ts'
import {
  type Candidate,
  type PlayedSize,
  type PlayPoints,
  playedSize,
  pointsFor,
  searchFleets,
} from './fleet-search.ts'
import { byCost, type FleetQuestion } from './fleet-verdict.ts'
import { countOf, type Served, served, type TenantPrograms, within, workloadOf } from './served-programs.ts'

export interface ServedQuestion extends FleetQuestion {
  tenants: readonly TenantPrograms[]
  profiles: readonly LatencyProfile[]
  policies: readonly PolicyName[]
  balancers: readonly BalancerName[]
}

export interface ServedPlan {
  /** The best first. */
  candidates: Candidate[]
  served: Served
  /** On as many engines as served them, of the best candidate's kind, in the target's unit. */
  p95_as_served: number
  /** Left out: a call is longer than the context of a profile. */
  too_long: number
}

/** As the engines of a running system have it. */
const REPORT_US = STATUS_LOAD_INTERVAL_MS * 1000
const DECISION_US = 20

/** Null: no program is left that the profiles have room for. `onPlay`: so many engines of this profile are played now. */
export async function planServed(
  question: ServedQuestion,
  onPlay: (profile: string, engines: number) => void = () => undefined,
): Promise<ServedPlan | null> {
  const { profiles, policies, balancers, target, range } = question
  const tenants = within(question.tenants, contextOf(profiles))
  if (tenants.length === 0) return null
  const programs = workloadOf(tenants)
  const playOn =
    (plan: PlayPlan): PlayPoints =>
    (points) =>
      Promise.resolve(
        points.map((point) => {
          onPlay(plan.profile.name, enginesOf(point.fleet))
          return runResult(point, simulate(configOf(plan, point, programs, [])), 0)
        }),
      )
  const found: Candidate[] = []
  for (const profile of profiles) {
    const plan = playPlan(profile, { policies, balancers, tenants })
    found.push(...(await searchFleets(plan, target, range, playOn(plan))))
  }
  const candidates = found.toSorted(byCost)
  const measured = served(tenants, target)
  const best = candidates[0] as Candidate
  const profile = profiles.find(({ name }) => name === best.profile) as LatencyProfile
  const plan = playPlan(profile, { policies, balancers, tenants })
  const sizeOf = async (engines: number): Promise<PlayedSize> =>
    best.played.find((size) => size.engines === engines) ??
    playedSize(engines, await playOn(plan)(pointsFor(plan, best, engines)), target)
  const as_served = await sizeOf(measured.engines)
  const curve = new Map(best.played.map((size) => [size.engines, size]))
  for (const engines of beyond(best, range.max)) curve.set(engines, await sizeOf(engines))
  const played = [...curve.values()].sort((x, y) => x.engines - y.engines)
  return {
    candidates: [{ ...best, played }, ...candidates.slice(1)],
    ...{ served: measured, p95_as_served: as_served.p95 },
    too_long: countOf(question.tenants) - countOf(tenants),
  }
}

/** Sizes above the fewest that meet the target: what more engines would bring. */
function beyond({ fewest_engines }: Candidate, max: number): number[] {
  if (fewest_engines === null) return []
  return [fewest_engines + 1, fewest_engines * 2].filter((engines) => engines <= max)
}

/** Of the profile whose engines have the least room. */
function contextOf(profiles: readonly LatencyProfile[]): number {
  return profiles.reduce(
    (least, { slot_tokens_max, capacity_blocks, block_tokens }) =>
      Math.min(least, slot_tokens_max, capacity_blocks * block_tokens),
    Number.POSITIVE_INFINITY,
  )
}

/** As engines are started, with nothing but a profile. */
function playPlan(
  profile: LatencyProfile,
  { policies, balancers, tenants }: Pick<ServedQuestion, 'policies' | 'balancers' | 'tenants'>,
): PlayPlan {
  return {
    arrivals: { kind: 'trace' },
    ...{
      policies,
      balancers,
      rates: [1],
      seeds: [1],
      fleets: [fleetOf(1)],
      rtt_us: new Map(),
      report_us: REPORT_US,
      shards: 1,
    },
    ...{ short_prompt_tokens: SHORT_PROMPT_TOKENS, profile, profile_context_tokens: profile.slot_tokens_max },
    engine: {
      ...{ max_seqs: profile.seats, prefix_cache: true, chunked_prefill: true, steps_per_decision: 1 },
      ...{ swap_tokens: profile.capacity_blocks * profile.block_tokens, decision_us: DECISION_US },
    },
    ...{ tuning: { levels: {} }, forecast: { kind: 'learned' }, reading: 'modelled' },
    tenants: tenants.map(({ tenant, weight }) => ({ name: tenant, weight, share: 1 })),
    ...{ label: 'workload', history: null, jump: true, fronts: ['engine'] },
  }
}
