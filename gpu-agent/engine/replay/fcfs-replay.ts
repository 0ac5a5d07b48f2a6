/**
 * What calls would have waited under first come, first served: the engine's last arrivals, played once more through the same
 * order core with the policy `fcfs`. An estimate, since it keeps what was measured and changes only the order:
 *
 * - A call needs its seat for as long as it was served. In another batch, a step may take a little more or less.
 * - It holds its prompt and output in the KV cache from its start to its end, and a call that does not fit waits, with those
 *   behind it. What was cached for it stays cached.
 * - Only waits for a seat and for room count. Those for the engine's next step, and for prompts that share a step, do not.
 * - A program's next call comes as long after the end of the one before as it did, so a program that waits less calls sooner.
 * - A call that is still open counts with what it was served so far. What comes after it is then `at_least`.
 *
 * Tenants share the seats as they do, and no call is preempted for another of its tenant. Pure: it takes the log, and reads no clock.
 */
import { DEFAULT_SERVICE_RATES, type ServiceTokens } from '../../../src/core/call/service.ts'
import { TenantShares } from '../../../src/core/pool/tenant-shares.ts'
import { REPLAYED_CALLS_MAX, type Replay, type ReplayedCall } from '../../../src/protocol/replay.ts'
import type { CallState } from '../order/call-state.ts'
import { Heap, type HeapNode } from '../order/heap.ts'
import { createPolicy } from '../order/policies/index.ts'
import { ProgramOrder } from '../order/program-order.ts'
import { SHARES_INTERVAL_US, WAITING_CALLS_MAX } from '../scheduler-config.ts'
import type { Arrival, ArrivalLog } from './arrival-log.ts'

/**
 * Work of one replay, past which it gives up: an event (an arrival, an end, seats shared anew) counts one, and one for each tenant
 * that has calls then, since seats may be shared between them.
 */
export const REPLAY_WORK_MAX = 200_000
/** Seats are shared anew so often at most, but for arrivals and ends. */
const SHARINGS_MAX = 1_000

export interface ReplayEngine {
  seats: number
  /** 0: it has no bound that is known. */
  kv_capacity_tokens: number
}

/** One arrival in the replay. */
class Replayed implements HeapNode {
  readonly arrival: Arrival
  readonly index: number
  heap_index = -1
  /** When it comes in the replay. */
  comes_us: number
  left_us: number
  /** Time in its seat that its tenant has not been charged. */
  uncharged_us = 0
  readonly kv_tokens: number
  state: CallState<Replayed> | null = null
  ended_us: number | null = null

  constructor(arrival: Arrival, index: number, served_us: number) {
    this.arrival = arrival
    this.index = index
    this.comes_us = arrival.at_us
    this.left_us = Math.max(1, arrival.end?.service_us ?? served_us)
    this.kv_tokens = arrival.end?.kv_tokens ?? arrival.prompt_tokens ?? 0
  }

  /** Time without a seat, up to its end. */
  get wait_us(): number {
    const served_us = this.arrival.end?.service_us ?? 0
    return Math.max(0, (this.ended_us ?? this.comes_us) - this.comes_us - served_us)
  }
}

const NO_TOKENS: ServiceTokens = { uncached_prompt_tokens: 0, cached_prompt_tokens: 0, output_tokens: 0 }

/** The last calls of `program` (as `OrderedCall` names it), in order of arrival. `servedUs`: of a lease that is open. */
export function replayFcfs(
  log: Pick<ArrivalLog, 'arrivals' | 'forgotten_until_us'>,
  engine: ReplayEngine,
  program: string,
  servedUs: (lease: string) => number,
  work_max = REPLAY_WORK_MAX,
): Replay {
  const all = [...log.arrivals].map((arrival, index) => new Replayed(arrival, index, servedUs(arrival.call.lease)))
  const wanted = all.filter(({ arrival }) => arrival.call.program === program).slice(-REPLAYED_CALLS_MAX)
  if (wanted.every(({ arrival }) => arrival.end === null)) {
    return { status: 'replayed', calls: wanted.map(({ arrival }) => unknown(arrival, 'open')) }
  }
  if (!play(all, engine, wanted, work_max)) return { status: 'unknown', reason: 'too_long' }
  const first_open_us = all.find(({ arrival }) => arrival.end === null)?.arrival.at_us ?? Number.POSITIVE_INFINITY
  const calls = wanted.map((one): ReplayedCall => {
    const { arrival } = one
    if (arrival.end === null) return unknown(arrival, 'open')
    if (arrival.at_us <= log.forgotten_until_us) return unknown(arrival, 'too_early')
    const at_least = arrival.at_us > first_open_us
    return { status: 'estimated', id: arrival.id, wait_us: arrival.end.wait_us, fcfs_wait_us: one.wait_us, at_least }
  })
  return { status: 'replayed', calls }
}

function unknown({ id }: Arrival, reason: 'open' | 'too_early'): ReplayedCall {
  return { status: 'unknown', id, reason }
}

/** Plays until all of `wanted` have ended. False: it took too much work. */
function play(
  all: readonly Replayed[],
  { seats, kv_capacity_tokens }: ReplayEngine,
  wanted: readonly Replayed[],
  work_max: number,
): boolean {
  const served_us = all.reduce((sum, { left_us }) => sum + left_us, 0)
  const order = new ProgramOrder<Replayed>({
    policy: createPolicy({ name: 'fcfs' }),
    ordering: 'wall',
    rates: DEFAULT_SERVICE_RATES,
    shares: new TenantShares(),
    seats: Math.max(1, seats),
    shares_interval_us: Math.max(SHARES_INTERVAL_US, Math.ceil(served_us / Math.max(1, seats) / SHARINGS_MAX)),
    steps_per_decision: 1,
    standby: 'in_order',
    preemptions_per_decision_max: WAITING_CALLS_MAX,
  })
  const { followers, first } = chained(all)
  const coming = new Heap<Replayed>(comesBefore)
  for (const one of first) coming.push(one)
  const left = new Set(wanted)
  let running: Replayed[] = []
  let now_us = coming.peek()?.comes_us ?? 0
  const tenants = new Map<string, number>()
  for (let work = 0; left.size > 0; work += 1 + tenants.size) {
    if (work >= work_max) return false
    for (let next = coming.peek(); next !== undefined && next.comes_us <= now_us; next = coming.peek()) {
      coming.pop()
      const { call, prompt_tokens } = next.arrival
      next.state = order.arrive(call, { prompt_tokens: prompt_tokens ?? 0 }, next, now_us)
      tenants.set(call.tenant, (tenants.get(call.tenant) ?? 0) + 1)
    }
    running = withRoom(order.decide(now_us), running, kv_capacity_tokens)
    const ends_us = running.reduce((least, { left_us }) => Math.min(least, now_us + left_us), Number.POSITIVE_INFINITY)
    // Seats that are shared anew change nothing while no call waits for one.
    const waits = order.open_calls > running.length
    const shared_us = waits ? Math.max(now_us + 1, order.steady_until_us) : Number.POSITIVE_INFINITY
    const next_us = Math.min(coming.peek()?.comes_us ?? Number.POSITIVE_INFINITY, shared_us, ends_us)
    if (next_us === Number.POSITIVE_INFINITY) return true
    for (const one of running) {
      one.left_us -= next_us - now_us
      one.uncharged_us += next_us - now_us
    }
    now_us = next_us
    // Charges decide between tenants alone, when seats are shared.
    if (tenants.size > 1) charge(order, running, now_us)
    for (const one of running.filter(({ left_us }) => left_us <= 0)) {
      end(order, one, now_us)
      left.delete(one)
      const { tenant } = one.arrival.call
      const open = (tenants.get(tenant) ?? 1) - 1
      if (open === 0) tenants.delete(tenant)
      else tenants.set(tenant, open)
      for (const { call, gap_us } of followers.get(one) ?? []) {
        call.comes_us = now_us + gap_us
        coming.push(call)
      }
    }
    running = running.filter(({ left_us }) => left_us > 0)
  }
  return true
}

function comesBefore(a: Replayed, b: Replayed): boolean {
  return a.comes_us < b.comes_us || (a.comes_us === b.comes_us && a.index < b.index)
}

function charge(order: ProgramOrder<Replayed>, running: readonly Replayed[], now_us: number): void {
  const states = running.map(({ state }) => state).filter((state) => state !== null)
  for (const state of states) {
    order.charge(state, NO_TOKENS, state.owner.uncharged_us, now_us)
    state.owner.uncharged_us = 0
  }
  order.settle(states, now_us)
}

function end(order: ProgramOrder<Replayed>, one: Replayed, now_us: number): void {
  if (one.state === null) return
  charge(order, [one], now_us)
  order.ended(one.state, now_us)
  one.ended_us = now_us
}

interface Follower {
  call: Replayed
  /** From the end of the call before. */
  gap_us: number
}

/** What comes by itself, and what comes after another call of its program: the one of those before it that ended last. */
function chained(all: readonly Replayed[]): { first: Replayed[]; followers: Map<Replayed, Follower[]> } {
  const first: Replayed[] = []
  const followers = new Map<Replayed, Follower[]>()
  for (const calls of Map.groupBy(all, ({ arrival }) => arrival.call.program).values()) {
    for (const call of calls) {
      const before = lastBefore(calls, call.arrival.at_us)
      if (before === null) first.push(call)
      else {
        const gap_us = call.arrival.at_us - before.end_us
        followers.set(before.call, [...(followers.get(before.call) ?? []), { call, gap_us }])
      }
    }
  }
  return { first, followers }
}

function lastBefore(calls: readonly Replayed[], at_us: number): { call: Replayed; end_us: number } | null {
  let last: { call: Replayed; end_us: number } | null = null
  for (const call of calls) {
    if (call.arrival.at_us >= at_us) break
    const end_us = call.arrival.end?.at_us ?? Number.POSITIVE_INFINITY
    if (end_us <= at_us && (last === null || end_us > last.end_us)) last = { call, end_us }
  }
  return last
}

/** Those that go on, while they have their seats, and after them the others in order, up to the first that does not fit. */
function withRoom(
  seated: readonly CallState<Replayed>[],
  running: readonly Replayed[],
  kv_capacity_tokens: number,
): Replayed[] {
  const next = running.filter(({ state }) => state?.seated === true)
  const goes = new Set(next)
  let kv_tokens = next.reduce((sum, one) => sum + one.kv_tokens, 0)
  for (const { owner } of seated) {
    if (goes.has(owner)) continue
    const fits = kv_capacity_tokens === 0 || kv_tokens + owner.kv_tokens <= kv_capacity_tokens
    if (!fits && next.length > 0) break
    next.push(owner)
    kv_tokens += owner.kv_tokens
  }
  return next
}
