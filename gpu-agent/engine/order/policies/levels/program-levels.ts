/**
 * Levels of a program's own work, for the policies that differ only in how they sum it up (plas, atlas).
 *
 * A call's level is that of its key. All calls of a program share its service, so when one is charged its waiting siblings
 * move too (Algorithm 1 reads the process table on every pass). The key counts the work that is left and the work that
 * would be lost:
 *
 *     key = max(0, attained − w · resident · c) + ⅜ · missing · c        c: cost of computing one prompt token
 *
 * `resident` prompt tokens have their KV at hand, and `missing` ones are still to be computed. A program with a resident
 * context can go on for free, and loses what it paid for that context if it has to give way: it was paid for once, and is
 * computed again, so w is 2 (less on a CPU). A program without one pays for it before its first token. Without these terms a
 * program's own long context takes it down the levels, newcomers take its place, contexts leave memory, and the engine
 * computes prompts instead of tokens. Missing tokens count for less than their cost, or programs with long prompts and short
 * answers would wait behind all others (plas/README.md has figures).
 *
 * The key is compared with quanta times the program's weight within its tenant (`switchyard nice`).
 *
 * A call that starves is promoted to Q1 (starvation.ts). From there it goes down only by its own charges.
 */
import type { Outlook } from '../../../types.ts'
import type { Charge, Place, Policy, PolicyCall } from '../../policy.ts'
import type { ProgramView } from '../../program-table.ts'
import { shownUs } from '../shown-us.ts'
import { Levels, type ProgramLevelConfig } from './levels.ts'
import { addToWindow, openWindow, promotionUs, resetWindow, type Window } from './starvation.ts'

/** Fitted: between 1/4 and 1/2 the outcome hardly changes (plas/README.md). */
const MISSING_WEIGHT = 0.375

export interface ProgramPlace extends Place, Window {
  readonly of: PolicyCall
  promoted: boolean
}

/** How a program's attained service is summed up. */
export interface Attained {
  /** For people. */
  name: string
  /** Microseconds, in the ordering reading. Grows with `service_us` and `path_us`. */
  us(program: ProgramView): number
  /** How much each open call may be charged before `us` can reach `target_us`. Up to this charge, `us` is surely below it. */
  leftUs(program: ProgramView, target_us: number): number
}

export class ProgramLevels implements Policy<ProgramPlace> {
  readonly name: string
  readonly ties = 'program'
  readonly retention = 'rank'
  readonly #attained: Attained
  readonly #levels: Levels
  readonly #promotion_ratio: number
  readonly #preemption_levels_min: number
  readonly #prefill_us_per_token: number
  readonly #resident_us_per_token: number

  constructor(name: string, attained: Attained, config: ProgramLevelConfig) {
    for (const field of ['prefill_us_per_token', 'resident_weight'] as const) {
      if (!(config[field] >= 0)) throw new RangeError(`${name}: ${field} must not be negative`)
    }
    this.name = name
    this.#attained = attained
    this.#levels = new Levels(name, config)
    this.#promotion_ratio = config.promotion_ratio
    this.#preemption_levels_min = config.preemption_levels_min
    this.#prefill_us_per_token = config.prefill_us_per_token
    this.#resident_us_per_token = config.resident_weight * config.prefill_us_per_token
  }

  arrive(call: PolicyCall, now_us: number): ProgramPlace {
    const place: ProgramPlace = { rank: 0, of: call, promoted: false, ...openWindow(now_us) }
    place.rank = this.#rankOf(place)
    return place
  }

  charge(place: ProgramPlace, { wall_us, charge_us }: Charge): boolean {
    addToWindow(place, wall_us, charge_us)
    return this.refresh(place)
  }

  refresh(place: ProgramPlace): boolean {
    const rank = this.#rankOf(place)
    if (rank === place.rank) return false
    place.rank = rank
    return true
  }

  yieldsTo(worst: ProgramPlace, best: ProgramPlace): boolean {
    return best.rank < worst.rank && worst.rank - best.rank >= this.#preemption_levels_min
  }

  /** While no part of its prompt is computed, only `attained` grows. */
  chargeLeftUs(place: ProgramPlace): number {
    const { program, call } = place.of
    const level = this.#levelOf(place.of)
    const end_us = (this.#levels.end_us[level] as number) * (call.program_weight ?? 1)
    const left_us = this.#attained.leftUs(
      program,
      end_us + this.#residentUs(place.of) - MISSING_WEIGHT * this.#missingUs(place.of),
    )
    if (!place.promoted) return left_us
    const window_end_us = this.#levels.end_us[this.#levels.levelOf(place.window_charge_us)] as number
    return Math.min(left_us, window_end_us - place.window_charge_us)
  }

  outlook({ rank }: ProgramPlace): Outlook {
    return { rank }
  }

  /** Its level is that of what it has attained, less what is cached of its prompt, and with what is not. */
  position({ rank, of, promoted }: ProgramPlace): string {
    const attained = `${this.#attained.name} ${shownUs(this.#attained.us(of.program))}`
    const missing_tokens = of.prompt_tokens - of.resident_tokens
    const missing = missing_tokens > 0 ? `, ${missing_tokens} prompt tokens to compute` : ''
    return `${this.#levels.shown(rank)}: ${attained}${missing}${promoted ? ', promoted since it waited long' : ''}`
  }

  dueUs(place: ProgramPlace): number {
    if (place.rank === 0) return Number.POSITIVE_INFINITY
    const { program } = place.of
    const service_us = program.service_us + this.#missingUs(place.of)
    return promotionUs(place, service_us, program.wait_us, this.#promotion_ratio)
  }

  due(place: ProgramPlace, now_us: number): boolean {
    if (now_us < this.dueUs(place)) return false
    place.promoted = true
    place.rank = 0
    resetWindow(place, now_us)
    return true
  }

  #rankOf(place: ProgramPlace): number {
    const level = this.#levelOf(place.of)
    return place.promoted ? Math.min(level, this.#levels.levelOf(place.window_charge_us)) : level
  }

  #levelOf(of: PolicyCall): number {
    return this.#levels.levelOf(this.#keyUs(of), of.call.program_weight)
  }

  #keyUs(call: PolicyCall): number {
    return (
      Math.max(0, this.#attained.us(call.program) - this.#residentUs(call)) + MISSING_WEIGHT * this.#missingUs(call)
    )
  }

  #residentUs({ resident_tokens }: PolicyCall): number {
    return this.#resident_us_per_token * resident_tokens
  }

  /** What computing the rest of the prompt costs. */
  #missingUs({ prompt_tokens, resident_tokens }: PolicyCall): number {
    return (prompt_tokens - resident_tokens) * this.#prefill_us_per_token
  }
}
