/**
 * What is used and reserved of the budgets of a tenant and of its keys, for one day and one month at a time.
 *
 * Keeps true, for calls, tokens, service and cost: what was charged and what is reserved together never exceed a limit, and
 * nothing stays reserved. The tenant's actor has the ledger. A holder is an isolate that admits calls of one key. It tells all
 * that it holds with every question, so an answer that was lost or a message that came twice changes nothing: what the ledger
 * has of a holder is what the holder said last, and what it was given since.
 *
 * - A call reserves the most that it may use, and its engine holds it to that (call-cap.ts).
 * - So that most calls need no question, a holder is given a chunk beyond what its calls need. Chunks that no call has taken
 *   are together at most 1 % of each limit, and at most a sixteenth of what is left, so they shrink as a budget runs out.
 * - A call that has ended stays reserved until the charge of its lease is here, which takes its place.
 * - What a holder has, or a lease whose record never comes, is given up after an hour. Only a record that comes later than that
 *   can make a tenant exceed its limit: by at most what was reserved for it.
 */
import { AMOUNT_KINDS, type AmountKind, type Amounts, NOTHING } from './budget.ts'
import { PERIODS, type Period, type PeriodLimits, periodEnd } from './period-limits.ts'

/** Of what a limit allows: chunks that no call has taken. */
export const CHUNK_SHARE = 0.01
const CHUNK_OF_LEFT = 1 / 16
/** A chunk is for at most so many calls like the one that asks. */
const CHUNK_CALLS = 256
export const RESERVED_LIFE_MS = 60 * 60 * 1000
/** Holders whose chunks are counted. Past it the one heard longest ago is given up. */
export const HOLDERS_MAX = 10_000
/** Ended calls whose charge has not come. Past it the oldest is given up. Sixteen shards tell of 4,096 a second each at most. */
export const PENDING_MAX = 60_000

export type Some = { [kind in AmountKind]?: number | undefined }
/** Null: no limits. */
export interface LedgerLimits {
  tenant: PeriodLimits | null
  key: PeriodLimits | null
}
/** What was charged. `key` null: the tenant as a whole. */
export type Charged = (key: string | null, period: Period) => Readonly<Amounts>

export interface CallNeed {
  call: string
  most: Amounts
  /** Fewer tokens than this would not be worth a start. */
  least_tokens: number
}

export interface EndedShare {
  call: string
  /** Null: it had none, or its agent never took the call, so nothing will be charged. */
  lease: string | null
  /** The shard of the tenant in which its charge is counted (core/program/tenant-shards.ts). Left out: it is not known. */
  shard?: number | undefined
  amounts: Amounts
}

export interface BudgetQuestion {
  holder: string
  /** Of the holder's questions; an older one than the last is not heard. */
  seq: number
  key: string
  limits: LedgerLimits
  /** For its open calls. */
  reserved: Amounts
  /** Of its chunk. */
  free: Amounts
  /** Calls that ended since the last question that was answered. */
  ended: readonly EndedShare[]
  needs: readonly CallNeed[]
  /** What a call takes for which it wants a chunk. Null: it wants none. */
  chunk_for: Amounts | null
}

export interface ShareRefusal {
  status: 'refused'
  code: 'tenant_budget_exceeded' | 'key_budget_exceeded' | 'tenant_budget_reserved' | 'key_budget_reserved'
  period: Period
  kind: AmountKind
  /** When the period ends. */
  ends_at_ms: number
}
/** Of kinds without a limit nothing is reserved. */
export type Share = { status: 'reserved'; amounts: Some } | ShareRefusal

export interface Standing {
  of: 'tenant' | 'key'
  period: Period
  kind: AmountKind
  limit: number
  used: number
  reserved: number
}

export interface BudgetAnswer {
  /** In the order of `needs`. */
  shares: Share[]
  /** Beyond the chunk that the holder said that it has. */
  chunk: Amounts
  standing: Standing[]
}

export interface HolderRow {
  key: string
  seq: number
  reserved: Amounts
  free: Amounts
  heard_ms: number
}
export interface PendingRow {
  key: string
  amounts: Amounts
  at_ms: number
  /** Left out: it was stored by a version that counted all charges in one place. */
  call?: string | undefined
  /** As of an ended share. */
  shard?: number | undefined
}

export interface Gone {
  holders: string[]
  leases: string[]
}

interface Limit {
  of: 'tenant' | 'key'
  key: string | null
  period: Period
  kind: AmountKind
  limit: number
}

export class BudgetLedger {
  readonly #holders = new Map<string, HolderRow>()
  readonly #pending = new Map<string, PendingRow>()
  /** Of those, by key. Null: all keys. There are many leases, and each need asks. */
  readonly #pending_sums = new Map<string | null, Amounts>()
  #gone: Gone = { holders: [], leases: [] }

  holder(name: string, row: HolderRow): void {
    this.#holders.set(name, row)
  }
  pending(lease: string, row: PendingRow): void {
    this.#drop(lease)
    this.#pending.set(lease, row)
    this.#sum(row, 1)
  }

  get isEmpty(): boolean {
    return this.#holders.size === 0 && this.#pending.size === 0
  }
  get holders(): ReadonlyMap<string, HolderRow> {
    return this.#holders
  }
  get leases(): ReadonlyMap<string, PendingRow> {
    return this.#pending
  }

  /** Holders and leases that have gone since this was last asked. One may be back. */
  takeGone(): Gone {
    const gone = this.#gone
    this.#gone = { holders: [], leases: [] }
    return gone
  }

  /** `isCharged`: the lease's charge is in what `charged` says. Null: a later question of the holder was heard. */
  answer(
    asked: BudgetQuestion,
    charged: Charged,
    isCharged: (share: EndedShare) => boolean,
    now_ms: number,
  ): BudgetAnswer | null {
    this.giveUp(now_ms)
    const known = this.#holders.get(asked.holder)
    if (known !== undefined && asked.seq <= known.seq) return null
    const { key, seq } = asked
    for (const ended of asked.ended) {
      if (ended.lease === null || this.#pending.has(ended.lease) || isCharged(ended)) continue
      const { call, shard } = ended
      this.pending(ended.lease, { key, amounts: { ...ended.amounts }, at_ms: now_ms, call, shard })
    }
    const holder = { key, seq, reserved: { ...asked.reserved }, free: { ...asked.free }, heard_ms: now_ms }
    this.#holders.delete(asked.holder)
    this.#holders.set(asked.holder, holder)
    const limits = limitsOf(asked)
    const shares = asked.needs.map((need) => {
      const share = this.#share(need, limits, charged, now_ms)
      if (share.status === 'reserved') add(holder.reserved, share.amounts)
      return share
    })
    const is_served = shares.every(({ status }) => status === 'reserved')
    const chunk = is_served ? this.#chunk(holder, asked.chunk_for, limits, charged) : { ...NOTHING }
    add(holder.free, chunk)
    const has_nothing = isNothing(holder.reserved) && isNothing(holder.free)
    if (has_nothing) this.#dropHolder(asked.holder)
    const held = this.#held(limits)
    const standing = limits.map(({ of, period, kind, limit, key: whose }) => {
      return { of, period, kind, limit, used: charged(whose, period)[kind], reserved: held(whose)[kind] }
    })
    return { shares, chunk, standing }
  }

  /** The lease's charge is here. */
  charged(lease: string): void {
    this.#drop(lease)
  }

  /** Null: of all keys. */
  reserved(key: string | null): Amounts {
    const sum = { ...NOTHING }
    for (const holder of this.#holders.values()) {
      if (key !== null && holder.key !== key) continue
      add(sum, holder.reserved)
      add(sum, holder.free)
    }
    add(sum, this.#pending_sums.get(key) ?? NOTHING)
    return sum
  }

  giveUp(now_ms: number): void {
    const dead_ms = now_ms - RESERVED_LIFE_MS
    for (const [name, holder] of this.#holders) {
      // A clock that was set back would keep it for longer.
      holder.heard_ms = Math.min(holder.heard_ms, now_ms)
      if (holder.heard_ms <= dead_ms || this.#holders.size > HOLDERS_MAX) this.#dropHolder(name)
    }
    for (const [lease, pending] of this.#pending) {
      pending.at_ms = Math.min(pending.at_ms, now_ms)
      if (pending.at_ms <= dead_ms || this.#pending.size > PENDING_MAX) this.#drop(lease)
    }
  }

  #dropHolder(name: string): void {
    if (this.#holders.delete(name)) this.#gone.holders.push(name)
  }

  #drop(lease: string): void {
    const row = this.#pending.get(lease)
    if (row === undefined) return
    this.#pending.delete(lease)
    this.#sum(row, -1)
    this.#gone.leases.push(lease)
  }

  #sum({ key, amounts }: PendingRow, sign: 1 | -1): void {
    for (const whose of [key, null]) {
      const sum = this.#pending_sums.get(whose) ?? { ...NOTHING }
      add(sum, amounts, sign)
      if (isNothing(sum)) this.#pending_sums.delete(whose)
      else this.#pending_sums.set(whose, sum)
    }
  }

  #share({ most, least_tokens }: CallNeed, limits: readonly Limit[], charged: Charged, now_ms: number): Share {
    const amounts: Some = {}
    const held = this.#held(limits)
    for (const { of, key, period, kind, limit } of limits) {
      const used = charged(key, period)[kind]
      const reserved = held(key)[kind]
      const left = limit - used - reserved
      const least = kind === 'tokens' ? least_tokens : 1
      if (left < least) {
        // What open calls do not use comes back. Without them nothing more will be free in this period.
        const word = reserved > 0 && limit - used >= least ? 'reserved' : 'exceeded'
        return { status: 'refused', code: `${of}_budget_${word}`, period, kind, ends_at_ms: periodEnd(period, now_ms) }
      }
      amounts[kind] = Math.min(amounts[kind] ?? most[kind], left)
    }
    return { status: 'reserved', amounts }
  }

  /** Beyond what the holder has. None where it would not do for a call like the one that asks. */
  #chunk(holder: HolderRow, most: Amounts | null, limits: readonly Limit[], charged: Charged): Amounts {
    const chunk = { ...NOTHING }
    if (most === null) return chunk
    const held = this.#held(limits)
    const target: Some = {}
    for (const { key, period, kind, limit } of limits) {
      const left = limit - charged(key, period)[kind] - held(key)[kind]
      const room = Math.floor(limit * CHUNK_SHARE) - this.#free(key)[kind]
      const more = Math.min(room, Math.floor(left * CHUNK_OF_LEFT), CHUNK_CALLS * most[kind] - holder.free[kind])
      target[kind] = Math.min(target[kind] ?? more, more)
    }
    for (const kind of AMOUNT_KINDS) {
      const more = target[kind]
      if (more === undefined) continue
      if (more + holder.free[kind] < most[kind]) return { ...NOTHING }
      chunk[kind] = Math.max(0, more)
    }
    return chunk
  }

  #free(key: string | null): Amounts {
    const sum = { ...NOTHING }
    for (const holder of this.#holders.values()) if (key === null || holder.key === key) add(sum, holder.free)
    return sum
  }

  /** Each sum once. */
  #held(limits: readonly Limit[]): (key: string | null) => Amounts {
    const sums = new Map([...new Set(limits.map(({ key }) => key))].map((key) => [key, this.reserved(key)]))
    return (key) => sums.get(key) ?? NOTHING
  }
}

/** The key's before the tenant's, the day's before the month's. */
function limitsOf({ key, limits }: BudgetQuestion): Limit[] {
  return (['key', 'tenant'] as const).flatMap((of) =>
    PERIODS.flatMap((period) =>
      AMOUNT_KINDS.flatMap((kind) => {
        const limit = limits[of]?.[period]?.[kind]
        return limit === undefined ? [] : { of, key: of === 'key' ? key : null, period, kind, limit }
      }),
    ),
  )
}

/** Kinds that are limited in any period. */
export function limitedKinds({ tenant, key }: LedgerLimits): AmountKind[] {
  const all = [tenant, key].flatMap((of) => PERIODS.map((period) => of?.[period]))
  return AMOUNT_KINDS.filter((kind) => all.some((limits) => limits?.[kind] !== undefined))
}

export function add(to: Amounts, of: Some, sign: 1 | -1 = 1): void {
  for (const kind of AMOUNT_KINDS) to[kind] += sign * (of[kind] ?? 0)
}

export function isNothing(amounts: Readonly<Amounts>): boolean {
  return AMOUNT_KINDS.every((kind) => amounts[kind] === 0)
}
