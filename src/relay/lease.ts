/**
 * Lease: walks the regions nearest first (core/pool/regions.ts) and asks the pools, one RPC per step, until an engine is
 * assigned. Regions in which no agent has ever served the model are walked only where the others have no engine. If a pool does
 * not answer in time, the isolate's last snapshot of it decides: serving beats ordering.
 */
import type { LeaseReply, LeaseRequest } from '../actors/contracts.ts'
import { chooseFromSnapshot } from '../core/pool/choose-engine.ts'
import { type LeaseReason, type Pin, SHORT_PROMPT_TOKENS, SPILL_LOAD } from '../core/pool/pool-types.ts'
import { type RegionAnswer, type RegionQuestion, RegionWalk, spilledReason } from '../core/pool/regions.ts'
import type { OpenCharge } from '../core/pool/reported-charges.ts'
import { sleep } from '../platform/deadline.ts'
import type { NativeApi } from '../protocol/index.ts'
import type { Region } from '../store/catalogue.ts'
import type { RelayDeps } from './deps.ts'
import type { IdentifiedCall } from './identify.ts'
import { askActor, type Reply } from './rpc.ts'

/**
 * A pool that did not run reads for some seconds what its agents reported meanwhile. It answers several times in that time, so
 * that a pool which reads is not taken for one that does not answer.
 */
export const ASKS_WHILE_READING_MAX = 16

export interface Leased {
  lease: string
  agent: string
  engine: string
  epoch: string
  /** Base URL of the agent's data plane. */
  url: string
  region: Region
  /** Of the region's pool. Left out: the first. */
  shard?: number
  reason: LeaseReason
  speed_factor: number
  /** APIs beside chat that its server speaks itself. Left out: none. */
  native_apis?: readonly NativeApi[]
  /** It goes on with answers that another engine began. Left out: it does not. */
  resumes?: boolean
  /** The program is pinned to this engine. */
  pin: boolean
  /** Id of the key that signs tickets for its agent. */
  ticket_kid: string
  /** What agents last reported for the program's open leases in the engine's pool. */
  charges: readonly OpenCharge[]
  /** Its pool was not asked (credit-lease.ts). Left out: it was. */
  by_credit?: true
}

export type Leasing = { status: 'leased'; leased: Leased } | { status: 'none'; retry_after_s: number }

export async function lease(
  call: IdentifiedCall,
  pin: Pin | null,
  excluded_engines: readonly string[],
  deps: RelayDeps,
  id = deps.newId(),
): Promise<Leasing> {
  const { linked = [], others = [] } = Object.groupBy(call.regions, (region) =>
    call.linked_regions.has(region.id) ? 'linked' : 'others',
  )
  const leasing = await walkRegions(linked, call, pin, excluded_engines, deps, id)
  if (leasing.status === 'leased' || others.length === 0) return leasing
  const farther = await walkRegions(others, call, pin, excluded_engines, deps, id)
  return farther.status === 'leased' || linked.length === 0 ? farther : leasing
}

async function walkRegions(
  regions: readonly Region[],
  call: IdentifiedCall,
  pin: Pin | null,
  excluded_engines: readonly string[],
  deps: RelayDeps,
  id: string,
): Promise<Leasing> {
  const walk = new RegionWalk(
    regions.map((region) => region.id),
    { pin, prompt_tokens_estimate: call.prompt_tokens_estimate },
    SPILL_LOAD,
    SHORT_PROMPT_TOKENS,
    (region, home) => deps.pools.shardsToAsk(region, call, home, deps.now()),
  )
  let ticket_kid: string | null = null
  let charges: readonly OpenCharge[] = []
  for (let question = walk.next(); question !== null; question = walk.next()) {
    const request = leaseRequest(call, id, pin, excluded_engines, question)
    const answer = await askRegion(call, regionOf(call, question.region), question.shard, request, deps)
    // A walk ends with the first lease, so this is the chosen agent's.
    ticket_kid = answer.ticket_kid
    charges = answer.charges
    walk.answer(answer.choice)
  }
  const verdict = walk.verdict()
  if (verdict === null || verdict.status === 'none' || ticket_kid === null) {
    const retry_after_s = verdict?.status === 'none' ? verdict.retry_after_s : 1
    return { status: 'none', retry_after_s }
  }
  const { status: _, load: __, reason, ...choice } = verdict.choice
  const region = regionOf(call, verdict.region)
  const leased = {
    ...choice,
    lease: id,
    region,
    ...(verdict.shard === undefined ? {} : { shard: verdict.shard }),
    ticket_kid,
    charges,
    reason: verdict.spilled ? spilledReason(reason) : reason,
  }
  return { status: 'leased', leased }
}

/** Simulated distance: a round trip to any region but the nearest takes `region_rtt_ms` longer. */
export async function travel(call: IdentifiedCall, region: Region, deps: RelayDeps): Promise<void> {
  if (deps.region_rtt_ms > 0 && region.id !== call.regions[0]?.id) await sleep(deps.region_rtt_ms)
}

interface PoolAnswer {
  choice: RegionAnswer
  ticket_kid: string | null
  charges: readonly OpenCharge[]
}

async function askRegion(
  call: IdentifiedCall,
  region: Region,
  shard: number | undefined,
  request: Omit<LeaseRequest, 'snapshot_version' | 'now_ms'>,
  deps: RelayDeps,
): Promise<PoolAnswer> {
  const remembered = deps.pools.recall(region.id, call.model, shard)
  const shards_version = deps.pools.shardsOf(region.id, call.model)?.version
  const now_ms = deps.now()
  const ask = () =>
    askActor<LeaseReply>(async () => {
      await travel(call, region, deps)
      const known = { snapshot_version: remembered?.version ?? null, ...(shards_version && { shards_version }) }
      return deps.pool(region, call.model, shard).lease({ ...request, ...known, now_ms })
    }, deps.times.pool_timeout_ms + deps.region_rtt_ms)
  // A call that an engine has failed has no time left to wait in: its headers are due.
  const asks_max = request.excluded_engines.length > 0 ? 1 : ASKS_WHILE_READING_MAX
  let asked = await ask()
  for (let asks = 1; isReading(asked) && asks < asks_max; asks += 1) asked = await ask()
  if (asked.status === 'answered') {
    const { snapshot, ticket_kid, charges, credits = 0, is_reading: _, shards, ...choice } = asked.value
    if (shards !== undefined) deps.pools.rememberShards(region.id, call.model, shards)
    if (snapshot !== null) deps.pools.remember(snapshot)
    else if (choice.status === 'leased') deps.pools.leased(region.id, call.model, shard, choice)
    if (choice.status === 'leased')
      deps.creditBook.heard(call, region.id, choice, { lease: request.lease, ticket_kid, shard, credits }, now_ms)
    return { choice, ticket_kid, charges }
  }
  if (asked.status === 'failed') deps.report('lease_failed', asked.error)
  if (remembered === null) return { choice: { status: 'unreachable' }, ticket_kid: null, charges: [] }
  const choice = chooseFromSnapshot(remembered, { ...request, now_ms })
  const ticket_kid = choice.status === 'leased' ? (remembered.ticket_kids[choice.agent] ?? null) : null
  return { choice, ticket_kid, charges: [] }
}

function isReading(asked: Reply<LeaseReply>): boolean {
  return asked.status === 'answered' && asked.value.status === 'none' && asked.value.is_reading === true
}

function leaseRequest(
  call: IdentifiedCall,
  lease: string,
  pin: Pin | null,
  excluded_engines: readonly string[],
  question: RegionQuestion,
): Omit<LeaseRequest, 'snapshot_version' | 'now_ms'> {
  const { id, tenant, program, prompt_tokens_estimate, offline } = call
  const { max_load, spilled, left_pin = false } = question
  const asked = { lease, prompt_tokens_estimate, pin: left_pin ? null : pin, excluded_engines, max_load, spilled }
  const kind = offline ? { offline } : {}
  return { call: id, tenant, program: program ?? id, class: call.class, ...asked, ...kind }
}

function regionOf(call: IdentifiedCall, id: string): Region {
  const region = call.regions.find((one) => one.id === id)
  if (region === undefined) throw new Error(`region ${id} was not among those to ask`)
  return region
}
