/**
 * A TenantActor among the shards of its tenant (core/program/tenant-shards.ts). The first shard remembers how many there are, and asks
 * them all for what it lists. The others tell it of themselves before they store anything, so nothing that a shard knows is left out.
 *
 * Keeps true: a tenant of one shard asks and stores nothing more than without shards.
 */
import { z } from 'zod'
import type { Amounts } from '../core/budget/budget.ts'
import { NOTHING } from '../core/budget/budget.ts'
import { add, type Charged } from '../core/budget/budget-ledger.ts'
import { dayOf, MONTH_CHARS } from '../core/budget/charge.ts'
import { FIRST_TENANT_SHARD, TENANT_SHARDS_MAX } from '../core/program/tenant-shards.ts'
import type { Env } from '../env.ts'
import { within } from '../platform/deadline.ts'
import { log, logFailure } from '../platform/log.ts'
import { ofAskedActor } from '../platform/storage-failure.ts'
import { Id } from '../protocol/index.ts'
import { doubleShards } from '../store/tenants.ts'
import type { AwaitedLease, ChargedNow, TenantRpc } from './contracts.ts'
import { tenantActor } from './stubs.ts'

export const SHARDS_KEY = 'shards'
export const StoredShards = z.number().int().min(1).max(TENANT_SHARDS_MAX)
/** What other shards were charged is asked for at most this often. */
const CHARGED_ASKED_MS = 10_000
/** And this often while calls have ended whose charge they may have. Until it is heard of it stays reserved. */
export const AWAITED_ASKED_MS = 1_000
/** Leases that one question to a shard names, those that ended first. */
const AWAITED_MAX = 4_096
/** Calls wait for the answer. Their isolate gives up after 1 s. */
const ANSWER_MS_MAX = 500
/** An object answers 1,000 requests/s at most, and 200 to 500 where each writes (Cloudflare's documentation). */
export const REQUESTS_PER_S_MAX = 250
export const RATE_OVER_MS = 60_000
/** Runs stay in their shard, so more shards bring relief only once many of them have ended. */
export const SHARDS_ADDED_EVERY_MS = 10 * 60_000

const ShardName = z.tuple([
  Id,
  z
    .number()
    .int()
    .min(FIRST_TENANT_SHARD + 1)
    .max(TENANT_SHARDS_MAX - 1),
])

/** The tenant and shard of an object by its name (`tenantActorName`). */
export function tenantOfActor(name: string): { tenant: string; shard: number } {
  if (!name.startsWith(' ')) return { tenant: Id.parse(name), shard: FIRST_TENANT_SHARD }
  const [tenant, shard] = ShardName.parse(JSON.parse(name))
  return { tenant, shard }
}

export class TenantShards {
  readonly #env: Env
  readonly #storage: DurableObjectStorage
  readonly #tenant: string
  readonly #shard: number
  /** Of the first shard. */
  #count = 1
  #stored_count = 1
  /** Of another one: resolves when the first shard knows it. Null: it was not told. */
  #joining: Promise<void> | null = null
  /** What the others were charged, when they were last asked. */
  #charged: { at_ms: number; shards: number; of: readonly ChargedNow[] } | null = null
  /** Leases whose charge those sums have. */
  readonly #counted: string[] = []
  #hearing: Promise<void> | null = null
  #requests = { count: 0, since_ms: 0 }
  #added_ms = Number.NEGATIVE_INFINITY

  constructor(env: Env, name: string, storage: DurableObjectStorage) {
    this.#env = env
    this.#storage = storage
    const { tenant, shard } = tenantOfActor(name)
    this.#tenant = tenant
    this.#shard = shard
  }

  /** Of the first shard: those that were ever in use. */
  get count(): number {
    return this.#count
  }

  restore(stored: unknown): void {
    const count = StoredShards.safeParse(stored)
    if (!count.success) return
    this.#count = count.data
    this.#stored_count = count.data
  }

  /** Resolves when the first shard knows of this one. Rejects if it cannot be reached. */
  joined(): Promise<void> {
    if (this.#shard === FIRST_TENANT_SHARD) return Promise.resolve()
    this.#joining ??= tenantActor(this.#env, this.#tenant)
      .hasShard(this.#shard)
      .catch((error: unknown) => {
        this.#joining = null
        throw error
      })
    return this.#joining
  }

  async has(shard: number): Promise<void> {
    const least = StoredShards.parse(shard + 1)
    this.#count = Math.max(this.#count, least)
    if (least <= this.#stored_count) return
    // Several may tell of themselves at once, in any order.
    const count = this.#count
    await this.#storage.put(SHARDS_KEY, count)
    this.#stored_count = Math.max(this.#stored_count, count)
  }

  /** `own`, and what each other shard answers. Rejects if one cannot be reached: half of a list would look like all of it. */
  async all<T>(own: Promise<T>, ask: (shard: TenantRpc) => Promise<T>): Promise<T[]> {
    const asked = this.#others().map(async (shard) => {
      try {
        return await ask(shard)
      } catch (error) {
        throw ofAskedActor(error)
      }
    })
    return Promise.all([own, ...asked])
  }

  #others(): TenantRpc[] {
    const others = Array.from({ length: this.#count - 1 }, (_, i) => i + 1)
    return others.map((shard) => tenantActor(this.#env, this.#tenant, shard))
  }

  /**
   * In a day that no shard has left. One whose clock is ahead, or that answered past midnight, tells of the new day alone, and the old
   * one would look unused.
   */
  dayNotLeft(now_ms: number): number {
    return Math.max(now_ms, ...(this.#charged?.of ?? []).map(({ day }) => Date.parse(day)))
  }

  /** What calls were charged, as other shards told. */
  charged(now_ms: number): Charged {
    return chargedOf(this.#charged?.of ?? [], dayOf(now_ms))
  }

  /** Leases that were asked about, and whose charge is in what `charged` says. One that is asked about again is given again. */
  takeCounted(): readonly string[] {
    return this.#counted.splice(0)
  }

  /** Asks the others what calls were charged, where that is due. A shard that cannot be reached has what it had when it was last asked. */
  async hearCharges(awaited: () => Promise<AwaitedLease[]>, now_ms: number): Promise<void> {
    const { at_ms = Number.NEGATIVE_INFINITY, shards = 0 } = this.#charged ?? {}
    const age_ms = now_ms - at_ms
    const isHeardSince = (ms: number) => age_ms >= 0 && age_ms < ms && shards >= this.#count
    if (this.#count === 1 || isHeardSince(AWAITED_ASKED_MS)) return
    const leases = await awaited()
    if (leases.length === 0 && isHeardSince(CHARGED_ASKED_MS)) return
    this.#hearing ??= this.#askCharged(leases, now_ms).finally(() => {
      this.#hearing = null
    })
    await this.#hearing
  }

  async #askCharged(awaited: readonly AwaitedLease[], now_ms: number): Promise<void> {
    const others = this.#others()
    const known = this.#charged?.of ?? []
    const ask = async (shard: TenantRpc, i: number): Promise<ChargedNow> => {
      const its = awaited.filter((lease) => lease.shard === null || lease.shard === i + 1).slice(0, AWAITED_MAX)
      try {
        const asking = shard.chargedNow(its.map(({ call, lease }) => ({ call, lease })))
        const answer = await within(asking, ANSWER_MS_MAX)
        if (answer.status === 'late') throw new Error(`it did not answer within ${ANSWER_MS_MAX} ms`)
        return answer.value
      } catch (error) {
        const before = known[i]
        // A budget must not be given out twice for want of an answer.
        if (before === undefined) throw error
        logFailure('tenant_shard_not_asked', error, { tenant: this.#tenant, shard: i + 1 })
        return { ...before, counted: [] }
      }
    }
    const of = await Promise.all(others.map(ask))
    this.#charged = { at_ms: now_ms, shards: others.length + 1, of }
    for (const { counted } of of) this.#counted.push(...counted)
  }

  /** The object was asked for something that more shards would take a part of. Whether that is too much, so `add` is to be called. */
  isAskedTooMuch(now_ms: number): boolean {
    if (this.#shard !== FIRST_TENANT_SHARD) return false
    const over_ms = now_ms - this.#requests.since_ms
    if (over_ms < 0 || over_ms > 2 * RATE_OVER_MS) this.#requests = { count: 0, since_ms: now_ms }
    this.#requests.count += 1
    if (over_ms < RATE_OVER_MS || over_ms > 2 * RATE_OVER_MS) return false
    const is_busy = this.#requests.count > (REQUESTS_PER_S_MAX * over_ms) / 1000
    this.#requests = { count: 0, since_ms: now_ms }
    if (!is_busy || now_ms - this.#added_ms < SHARDS_ADDED_EVERY_MS) return false
    this.#added_ms = now_ms
    return true
  }

  /** Spreads new runs over twice as many shards. */
  async add(): Promise<void> {
    const shards = await doubleShards(this.#env.DB, this.#tenant)
    if (shards !== null) log('warn', 'tenant_shards_added', { tenant: this.#tenant, shards })
  }
}

/** Sums of an earlier day or month count for nothing of this one. */
function chargedOf(shards: readonly ChargedNow[], day: string): Charged {
  const sums = new Map<string | null, { day: Amounts; month: Amounts }>()
  for (const shard of shards) {
    if (shard.day.slice(0, MONTH_CHARS) !== day.slice(0, MONTH_CHARS)) continue
    for (const { key, in_day, in_month } of shard.of) {
      const sum = sums.get(key) ?? { day: { ...NOTHING }, month: { ...NOTHING } }
      sums.set(key, sum)
      if (shard.day === day) add(sum.day, in_day)
      add(sum.month, in_month)
    }
  }
  return (key, period) => sums.get(key)?.[period] ?? NOTHING
}
