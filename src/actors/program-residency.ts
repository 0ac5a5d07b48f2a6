/**
 * To which regions a program is held, and the budget that it must keep to. Both are kept beside the rows of its runs: in D1,
 * for a relay that cannot ask the actor in time, and across runs.
 *
 * A run that went stale has not necessarily ended for its client, who may come back after any pause. So the program stays
 * held for HELD_AFTER_STALE_MS, and its next run has what is left of the budget. A client that ends the program, or starts
 * it again, ends the hold.
 *
 * Only this code writes D1's row. Each write stores what holds at that moment, and none overtakes another. So a start that
 * came too late, or a run that is over, cannot leave its own regions there.
 */
import { z } from 'zod'
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import type { Budget } from '../core/budget/budget.ts'
import type { ProgramEntry } from '../core/program/program-entry.ts'
import { type EndReason, HOLD_REMEMBERED_MS } from '../core/program/program-state.ts'
import { logFailure } from '../platform/log.ts'
import { BudgetJson } from '../store/program-row-schemas.ts'
import { dropResidency, type HeldRun, type HeldTo, putResidency } from '../store/residency.ts'
import { Mutex } from './mutex.ts'

/** From the end of a run that went stale. After it the id is free, as after an explicit end. */
export const HELD_AFTER_STALE_MS = 30 * 24 * 60 * 60_000
/** Between tries while D1 does not take a program's regions. */
const RETRY: BackoffBounds = { min_ms: 500, max_ms: 60_000 }

export const Hold = z.object({
  ...{ tenant: z.string(), program: z.string(), run: z.string() },
  regions: z.array(z.string()).readonly().nullable(),
  budget: BudgetJson.nullable().default(null),
  until_ms: z.number(),
})
export type Hold = z.infer<typeof Hold>

interface Inherited {
  /** Null: any. */
  regions: readonly string[] | null
  /** Null: none. */
  budget: Budget | null
}

interface Surroundings {
  database(): D1Database
  /** The run that has not ended. */
  running(): ProgramEntry | null
  /** Stores the hold, or forgets it. */
  store(hold: Hold | null): Promise<void>
  /** Keeps the object alive for `work`. */
  waitUntil(work: Promise<void>): void
}

type ProgramName = Pick<Hold, 'tenant' | 'program'>

export class ProgramResidency {
  readonly #around: Surroundings
  readonly #writing = new Mutex()
  #hold: Hold | null = null
  /** Of a start that is under way: D1 must have it before any caller is told. */
  #starting: HeldRun | null = null
  #isTelling = false
  #changed = false
  #retry_at_ms = 0
  /** What isolates may remember (relay/hold-memory.ts). */
  #told: { held: string; until_ms: number } | null = null

  constructor(around: Surroundings) {
    this.#around = around
  }

  /** `hold` as stored. */
  restore(hold: Hold | null): void {
    this.#hold = hold
  }

  /** A call was told what the program is held to. */
  told(held: HeldTo, now_ms: number): void {
    this.#told = { held: textOf(held), until_ms: now_ms + HOLD_REMEMBERED_MS }
  }

  /** Waits until no isolate remembers other terms than these, if the program is to be held to them. */
  async forgottenElsewhere(held: HeldTo, now_ms: number): Promise<void> {
    const told = this.#told
    if (!isHeldTo(held) || told === null || told.held === textOf(held)) return
    const { promise, resolve } = Promise.withResolvers<void>()
    setTimeout(resolve, Math.max(0, told.until_ms - now_ms))
    await promise
  }

  /** What a run inherits if it opens without an explicit start. */
  inherited(now_ms: number): Inherited {
    return this.#hold !== null && now_ms < this.#hold.until_ms ? this.#hold : { regions: null, budget: null }
  }

  /** Whether the program is held beyond its runs. */
  get isHeld(): boolean {
    return this.#hold !== null
  }

  /** When the hold expires. Infinite: there is none. */
  get due_ms(): number {
    return this.#hold === null ? Number.POSITIVE_INFINITY : Math.max(this.#hold.until_ms, this.#retry_at_ms)
  }

  /** A run has ended. The hold is stored no later than the end, which the caller flushes after this. */
  ended(entry: ProgramEntry, reason: EndReason, now_ms: number): void {
    const held = reason === 'stale' ? heldRunOf(entry) : null
    if (held !== null) {
      const { tenant, program, run, regions } = held
      const until_ms = now_ms + HELD_AFTER_STALE_MS
      this.#keep({ tenant, program, run, regions, budget: entry.budget_left, until_ms })
    } else if (reason === 'explicit') this.#keep(null)
  }

  /** The client starts the program anew or ends it: the hold beyond its runs is over. */
  letGo(): void {
    const hold = this.#hold
    if (hold === null) return
    this.#keep(null)
    this.tell(hold)
  }

  /** Writes the regions of a run that is about to start to D1. False: D1 did not take them, and the run must not start. */
  announce(held: HeldRun): Promise<boolean> {
    this.#starting = held
    return this.#sync(held)
  }

  /** The start succeeded or failed. If it failed, D1 gets the regions that hold instead. */
  started(): void {
    const announced = this.#starting
    this.#starting = null
    if (announced !== null && this.#around.running()?.run !== announced.run) this.tell(announced)
  }

  /** Writes to D1, and tries again until it succeeds. */
  tell(program: ProgramName): void {
    this.#changed = true
    if (this.#isTelling) return
    this.#isTelling = true
    this.#around.waitUntil(this.#tellUntilKnown(program))
  }

  /** Writes to D1 once. Throws if that fails. */
  async tellOnce(program: ProgramName): Promise<void> {
    if (!(await this.#sync(program))) throw new Error('D1 did not take the regions of a program')
  }

  /** Forgets an expired hold. If D1 does not answer, it tries again later. */
  async expire(now_ms: number): Promise<void> {
    if (this.#hold === null || now_ms < this.due_ms) return
    if (await this.#sync(this.#hold)) this.#keep(null)
    else this.#retry_at_ms = now_ms + RETRY.max_ms
  }

  #keep(hold: Hold | null): void {
    if (hold === null && this.#hold === null) return
    this.#hold = hold
    this.#around.waitUntil(this.#around.store(hold))
  }

  async #tellUntilKnown(program: ProgramName): Promise<void> {
    let failures = 0
    while (this.#changed) {
      this.#changed = false
      if (await this.#sync(program)) continue
      this.#changed = true
      const { promise, resolve } = Promise.withResolvers<void>()
      failures += 1
      setTimeout(resolve, backoffMs(failures, RETRY, Math.random()))
      await promise
    }
    this.#isTelling = false
  }

  #sync({ tenant, program }: ProgramName): Promise<boolean> {
    return this.#writing.run(async () => {
      try {
        const holds = this.#holds(Date.now())
        if (holds === null) await dropResidency(this.#around.database(), { tenant, program })
        else await putResidency(this.#around.database(), holds)
        return true
      } catch (error) {
        logFailure('residency_not_kept', error, { tenant })
        return false
      }
    })
  }

  /** The regions that D1 should have. Null: none. */
  #holds(now_ms: number): HeldRun | null {
    const running = this.#around.running()
    if (this.#starting !== null) return this.#starting
    if (running !== null) return heldRunOf(running)
    const hold = this.#hold
    return hold === null || now_ms >= hold.until_ms ? null : { ...hold, has_budget: hold.budget !== null }
  }
}

function heldRunOf(entry: ProgramEntry | null): HeldRun | null {
  if (entry === null || !entry.is_held) return null
  const { tenant, program, run, regions, budget } = entry
  return { tenant, program, run, regions, has_budget: budget !== null }
}

function isHeldTo({ regions, has_budget }: HeldTo): boolean {
  return regions !== null || has_budget
}

function textOf({ regions, has_budget }: HeldTo): string {
  return JSON.stringify([regions, has_budget])
}
