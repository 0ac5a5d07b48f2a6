/**
 * Budgets of tenants and keys, where calls are admitted. The TenantActor has the ledger (core/budget/budget-ledger.ts). An
 * isolate holds a chunk of what is left for each key that it has seen, so most calls wait for no one. A call that finds too
 * little asks, together with the others that wait. While the actor does not answer such a call is refused for a moment: a
 * call under a budget never goes on without it.
 *
 * Ended calls are told soon after. A key that has been quiet gives its chunk back, and so does one whose chunk does not do for
 * a call that waits. After a question without an answer the actor may have given what this isolate does not know of, so
 * another one follows. What an isolate takes along when it ends is given up after an hour.
 */
import type { TenantRpc } from '../actors/contracts.ts'
import { type Amounts, NOTHING } from '../core/budget/budget.ts'
import {
  add,
  type BudgetAnswer,
  type CallNeed,
  type EndedShare,
  isNothing,
  type LedgerLimits,
  limitedKinds,
  RESERVED_LIFE_MS,
  type Share,
  type ShareRefusal,
  type Some,
  type Standing,
} from '../core/budget/budget-ledger.ts'
import { runShard } from '../core/program/tenant-shards.ts'
import { SharedWork } from '../platform/shared-work.ts'
import { askActor } from './rpc.ts'

/** Keys with a budget that an isolate remembers. Past it the one used longest ago is forgotten, with its chunk. */
export const HOLDINGS_MAX = 2_000
/** Calls of one question. */
export const NEEDS_MAX = 256
/** Ended calls of one question. */
const ENDED_MAX = 1_000
/** A chunk is used for this long after the actor gave it, much shorter than it keeps it reserved. */
const CHUNK_LIFE_MS = 60_000
/** A refusal is used again for this long, so that a raised limit takes effect. */
const REFUSAL_LIFE_MS = 1_000
/** A chunk is asked for again when less than this part of it is left. */
const LOW_SHARE = 0.5
/** A call that waits longer is gone. */
const WAITING_LIFE_MS = 60_000
/** Each round asks for all calls that wait. */
const ROUNDS_MAX = 16
/** A question to the actor ends within its timeout. After so many timeouts the request that asked is gone. */
const QUESTION_LIFE_FACTOR = 2
/** So often the actor is told, where it does not answer. */
const TOLD_MAX = 3

interface Holding {
  /** Of the tenant and the key. */
  name: string
  tenant: string
  key: string
  /** Names this isolate to the actor. */
  holder: string
  seq: number
  limits: LedgerLimits
  free: Amounts
  /** What was free after the last answer. */
  free_then: Amounts
  free_until_ms: number
  open: Map<string, { amounts: Amounts; at_ms: number }>
  ended: EndedShare[]
  waiting: Map<string, CallNeed & { at_ms: number }>
  /** What calls were given that have not fetched it. */
  answers: Map<string, { share: Share; at_ms: number }>
  refused: { refusal: ShareRefusal; least_tokens: number; until_ms: number } | null
  standing: Standing[]
  /** Calls that have asked for a share. */
  uses: number
  /** The actor may have more reserved for this isolate than it holds: the last question has no answer, or gave what no call takes. */
  isOverstated: boolean
  isTelling: boolean
}

/** The call's share of the budgets of its tenant and key. */
export interface TakenShare {
  amounts: Some
  /** As the actor last told. */
  standing: readonly Standing[]
  /** The lease that may be charged, in the run of the call. Null: none, its agent has refused the call. */
  placed(lease: string | null, run: string): void
  ended(): void
}

export type Taking =
  | { status: 'unlimited' }
  | { status: 'taken'; share: TakenShare }
  | { status: 'refused'; refusal: ShareRefusal }
  | { status: 'unknown' }

interface SharingCall {
  id: string
  tenant: string
  key: string
  /** Null: none. */
  limits: LedgerLimits | null
  wants: { most: Amounts; least_tokens: number }
}

/** The part of the relay's dependencies that a share needs. */
interface ShareDeps {
  tenant(tenant: string): Pick<TenantRpc, 'shareBudget'>
  now(): number
  newId(): string
  waitUntil(work: Promise<unknown>): void
  report(event: string, error: unknown): void
  times: { budget_timeout_ms: number; budget_told_ms: number; budget_idle_ms: number }
}

export class BudgetShares {
  readonly #holdings = new Map<string, Holding>()
  /** By tenant and key: one question at a time. */
  readonly #asking = new SharedWork<boolean>()

  async take(call: SharingCall, deps: ShareDeps): Promise<Taking> {
    if (call.limits === null) return { status: 'unlimited' }
    const holding = this.#holding(call, call.limits, deps)
    const taking = this.#take(holding, call, deps)
    // Its client may leave meanwhile.
    deps.waitUntil(taking.catch(() => undefined))
    const { status } = await taking
    // It may be the last call that comes here, and others wait for what is left.
    if (status !== 'taken' && !isTold(holding)) this.#tellSoon(holding, deps)
    return taking
  }

  async #take(holding: Holding, call: SharingCall, deps: ShareDeps): Promise<Taking> {
    const now_ms = deps.now()
    const need = { ...call.wants, call: call.id, at_ms: now_ms }
    const own = fromChunk(holding, call.wants.most, now_ms)
    if (own !== null) {
      if (isLow(holding) && !this.#asking.isOpen(holding.name)) deps.waitUntil(this.#ask(holding, deps, need.most))
      return this.#taken(holding, call.id, own, deps)
    }
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      const { refused } = holding
      if (refused !== null && deps.now() < refused.until_ms && isRefusedToo(need, refused)) {
        return { status: 'refused', refusal: refused.refusal }
      }
      holding.waiting.set(call.id, need)
      const heard = await this.#ask(holding, deps, need.most)
      const share = holding.answers.get(call.id)?.share
      holding.answers.delete(call.id)
      holding.waiting.delete(call.id)
      if (share?.status === 'refused') return { status: 'refused', refusal: share }
      if (share?.status === 'reserved') return this.#taken(holding, call.id, share.amounts, deps)
      if (!heard) return { status: 'unknown' }
    }
    return { status: 'unknown' }
  }

  #taken(holding: Holding, call: string, amounts: Some, deps: ShareDeps): Taking {
    const held = { ...NOTHING }
    add(held, amounts)
    holding.open.set(call, { amounts: held, at_ms: deps.now() })
    let lease: string | null = null
    let shard: number | undefined
    const over = Promise.withResolvers<void>()
    // So that the call goes on to its end where its client leaves before it has an answer.
    deps.waitUntil(over.promise)
    const ended = (): void => {
      over.resolve()
      if (!holding.open.delete(call)) return
      holding.ended.push({ call, lease, shard, amounts: held })
      this.#tellSoon(holding, deps)
    }
    const placed = (on: string | null, run: string): void => {
      lease = on
      shard = runShard(run)
    }
    return { status: 'taken', share: { amounts, standing: holding.standing, placed, ended } }
  }

  #tellSoon(holding: Holding, deps: ShareDeps): void {
    if (holding.isTelling) return
    holding.isTelling = true
    deps.waitUntil(this.#tell(holding, deps))
  }

  /** Tells what has ended, and gives the chunk back if no call follows. One that follows tells when it has ended. */
  async #tell(holding: Holding, deps: ShareDeps): Promise<void> {
    await pause(deps.times.budget_told_ms)
    holding.isTelling = false
    const { uses } = holding
    if (holding.ended.length > 0 || holding.isOverstated) await this.#ask(holding, deps, null)
    for (let times = 0; times < TOLD_MAX && !isTold(holding); times += 1) {
      await pause(deps.times.budget_idle_ms)
      if (holding.uses !== uses || holding.open.size > 0) return
      holding.free = { ...NOTHING }
      await this.#ask(holding, deps, null)
    }
  }

  /** Whether the actor has answered, this question or the one that was open. */
  #ask(holding: Holding, deps: ShareDeps, chunk_for: Amounts | null): Promise<boolean> {
    const limit_ms = QUESTION_LIFE_FACTOR * deps.times.budget_timeout_ms
    const ask = () => this.#question(holding, deps, chunk_for)
    return this.#asking.run(holding.name, ask, limit_ms)
  }

  async #question(holding: Holding, deps: ShareDeps, chunk_for: Amounts | null): Promise<boolean> {
    // In a later turn, so that calls that come at the same time ask together.
    await Promise.resolve()
    const now_ms = deps.now()
    forgetLost(holding, now_ms)
    const needs = [...holding.waiting.values()].slice(0, NEEDS_MAX)
    // What does not do for them is offered, so that they get of all that is left.
    if (needs.length > 0) holding.free = { ...NOTHING }
    const ended = holding.ended.slice(0, ENDED_MAX)
    const reserved = { ...NOTHING }
    for (const { amounts } of holding.open.values()) add(reserved, amounts)
    for (const { share } of holding.answers.values()) if (share.status === 'reserved') add(reserved, share.amounts)
    for (const { amounts } of holding.ended.slice(ENDED_MAX)) add(reserved, amounts)
    holding.seq += 1
    holding.isOverstated = true
    const { seq, holder, limits, key, tenant } = holding
    const free = { ...holding.free }
    const question = { holder, seq, key, limits, reserved, free, ended, chunk_for }
    const sent = { ...question, needs: needs.map(({ at_ms: _, ...need }) => need) }
    const asked = await askActor(() => deps.tenant(tenant).shareBudget(sent), deps.times.budget_timeout_ms)
    // A later question has told what this isolate holds. What this one was given is not in it, and so not its own.
    if (holding.seq !== seq) return true
    if (asked.status === 'failed') deps.report('budget_failed', asked.error)
    if (asked.status !== 'answered' || asked.value === null) return false
    holding.isOverstated = false
    heard(holding, needs, ended.length, asked.value, now_ms)
    return true
  }

  #holding({ tenant, key }: SharingCall, limits: LedgerLimits, deps: ShareDeps): Holding {
    const name = JSON.stringify([tenant, key])
    const holding = this.#holdings.get(name) ?? newHolding(name, tenant, key, deps.newId())
    holding.limits = limits
    holding.uses += 1
    this.#holdings.delete(name)
    if (this.#holdings.size >= HOLDINGS_MAX) {
      const oldest = this.#holdings.keys().next()
      if (!oldest.done) this.#holdings.delete(oldest.value)
    }
    this.#holdings.set(name, holding)
    return holding
  }
}

function newHolding(name: string, tenant: string, key: string, holder: string): Holding {
  return {
    ...{ name, tenant, key, holder, seq: 0, limits: { tenant: null, key: null }, standing: [] },
    ...{ free: { ...NOTHING }, free_then: { ...NOTHING }, free_until_ms: 0, uses: 0 },
    ...{
      open: new Map(),
      ended: [],
      waiting: new Map(),
      answers: new Map(),
      refused: null,
      isOverstated: false,
      isTelling: false,
    },
  }
}

/** Calls whose requests the runtime has ended, so that no one will end them. */
function forgetLost(holding: Holding, now_ms: number): void {
  for (const [call, { at_ms }] of holding.open) if (now_ms - at_ms > RESERVED_LIFE_MS) holding.open.delete(call)
  for (const [call, { at_ms }] of holding.waiting) if (now_ms - at_ms > WAITING_LIFE_MS) holding.waiting.delete(call)
  for (const [call, { at_ms }] of holding.answers) if (now_ms - at_ms > WAITING_LIFE_MS) holding.answers.delete(call)
  if (now_ms >= holding.free_until_ms) holding.free = { ...NOTHING }
}

/** Whether the actor knows that this isolate holds nothing but what its open calls have. */
function isTold({ free, ended, isOverstated }: Holding): boolean {
  return isNothing(free) && ended.length === 0 && !isOverstated
}

function heard(
  holding: Holding,
  needs: readonly CallNeed[],
  told: number,
  { shares, chunk, standing }: BudgetAnswer,
  now_ms: number,
): void {
  holding.ended.splice(0, told)
  add(holding.free, chunk)
  holding.free_then = { ...holding.free }
  holding.free_until_ms = now_ms + CHUNK_LIFE_MS
  holding.standing = standing
  for (const [at, { call, least_tokens }] of needs.entries()) {
    const share = shares[at]
    if (share === undefined) continue
    if (!holding.waiting.has(call)) {
      holding.isOverstated = true
      continue
    }
    holding.answers.set(call, { share, at_ms: now_ms })
    holding.waiting.delete(call)
    if (share.status === 'refused') {
      holding.refused = { refusal: share, least_tokens, until_ms: now_ms + REFUSAL_LIFE_MS }
    }
  }
}

/** Null: the chunk does not do for the call. */
function fromChunk(holding: Holding, most: Readonly<Amounts>, now_ms: number): Some | null {
  if (now_ms >= holding.free_until_ms) return null
  const kinds = limitedKinds(holding.limits)
  if (kinds.some((kind) => holding.free[kind] < most[kind])) return null
  const amounts: Some = {}
  for (const kind of kinds) amounts[kind] = most[kind]
  add(holding.free, amounts, -1)
  return amounts
}

function isLow({ limits, free, free_then }: Holding): boolean {
  return limitedKinds(limits).some((kind) => free[kind] < LOW_SHARE * free_then[kind])
}

/** A shorter prompt may find room where a longer one did not. */
function isRefusedToo(need: CallNeed, { refusal, least_tokens }: NonNullable<Holding['refused']>): boolean {
  return refusal.kind !== 'tokens' || need.least_tokens >= least_tokens
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
