/**
 * `lamps`: LAMPS' Algorithm 1. Before a call runs, its forecast decides what happens to its context while its tool runs
 * (memory/handling/waste.ts). Calls run in the order of the memory that they are expected to take over time
 * (memory-over-time.ts), the least first.
 *
 * A score is computed when the call arrives, when its resident tokens change, and then once in `refresh_tokens` tokens that
 * it writes (§4.3: "we cache their scores and refresh them at predefined intervals").
 *
 * Starvation (§4.4): a counter grows by one with each iteration in which the call waits, and starts again at 0 when it runs.
 * From the threshold on the call is at the head of the queue. The paper says two things about how long. By the text it stays
 * there until its request (our program) is complete, by Algorithm 1 (lines 27 to 30) for the iteration in which it is
 * promoted. `starvation` has both; README.md says which is better.
 *
 * A policy is not called for calls that wait. So it counts the iterations that it sees charged, and a waiting call asks to
 * be looked at when the threshold may have been reached at the earliest.
 */
import { type CallForecast, expectedTool } from '../../../../../src/core/call/forecast.ts'
import { chooseHandling, HANDLINGS, type HandlingChoice, type HandlingRule } from '../../../memory/handling/waste.ts'
import {
  type Charge,
  type EngineMemory,
  type Place,
  type Policy,
  type PolicyCall,
  yieldsToBetterRank,
} from '../../policy.ts'
import type { ProgramView } from '../../program-table.ts'
import { memoryOverTime } from './memory-over-time.ts'

export interface LampsConfig {
  /** A call that runs is scored again once in so many of its tokens. */
  refresh_tokens: number
  /** Iterations for which a call waits before it goes to the head of the queue. */
  starvation_iterations: number
  /** How long it stays there: until its program is complete, or until it has run for an iteration. */
  starvation: 'until_completion' | 'at_promotion'
  /** `first_come`: by when programs opened, with the same handling (LAMPS' ablation, figure 10). */
  order: 'memory_over_time' | 'first_come'
  /** What differs from HANDLING. */
  handling: Partial<HandlingRule>
}

export const LAMPS: LampsConfig = {
  ...{ refresh_tokens: 10, starvation_iterations: 100, starvation: 'until_completion' },
  ...{ order: 'memory_over_time', handling: {} },
}

/** Contexts move beside the forward pass, as InferCept's do, so that the two differ in when they decide and in their order. */
export const HANDLING: HandlingRule = { allowed: HANDLINGS, hidden_swaps: true, revises: true, pins: 'relieved' }

/** What a call without a forecast is expected to write. */
export const OUTPUT_TOKENS_DEFAULT = 256
/** Below every score: more token-seconds than a year of an engine's memory has. */
const PROMOTED = 1e13
const US_PER_MS = 1000

export interface LampsPlace extends Place {
  readonly of: PolicyCall
  readonly choice: HandlingChoice | null
  output_tokens: number
  /** When it was last scored: what it had written, and its resident tokens. */
  scored_at_tokens: number
  scored_resident_tokens: number
  score: number
  promoted: boolean
  /** The iteration after which it last ran, or in which it came. */
  waits_since: number
  due_us: number
  readonly came_ms: number
}

/** Token-seconds that the program is expected to take after the call. */
export type LaterWork = (place: LampsPlace) => number

export class Lamps implements Policy<LampsPlace> {
  readonly name: string = 'lamps'
  readonly ties = 'program'
  readonly retention = 'rank'
  readonly evicts = 'for_started'
  readonly handling: HandlingRule
  readonly yieldsTo = yieldsToBetterRank
  readonly #config: LampsConfig
  readonly #memory: EngineMemory
  /** Programs whose calls are at the head of the queue until they are complete. */
  readonly #promoted = new WeakSet<ProgramView>()
  /** Steps seen so far, and when the last one ended. */
  #iterations = 0
  #seen_us = Number.NEGATIVE_INFINITY

  readonly #laterWork: LaterWork

  constructor(config: LampsConfig, memory: EngineMemory, laterWork: LaterWork = () => 0) {
    for (const name of ['refresh_tokens', 'starvation_iterations'] as const) {
      if (!(Number.isSafeInteger(config[name]) && config[name] >= 1)) {
        throw new RangeError(`lamps: ${name} must be a positive integer`)
      }
    }
    this.handling = { ...HANDLING, ...config.handling }
    this.#config = config
    this.#memory = memory
    this.#laterWork = laterWork
  }

  arrive(of: PolicyCall, now_us: number): LampsPlace {
    const choice = this.#choose(of)
    const place = {
      ...{ of, choice, rank: 0, score: 0, output_tokens: 0, scored_at_tokens: 0, scored_resident_tokens: 0 },
      ...{ promoted: this.#promoted.has(of.program), waits_since: this.#iterations, due_us: 0 },
      came_ms: now_us / US_PER_MS,
    }
    this.#score(place)
    this.#watch(place, now_us)
    return place
  }

  charge(place: LampsPlace, { output_tokens }: Charge, now_us: number): boolean {
    if (now_us !== this.#seen_us) {
      // Charges of several steps at once are of calls that got a token in each.
      this.#iterations += Math.max(1, output_tokens)
      this.#seen_us = now_us
    }
    place.output_tokens += output_tokens
    place.waits_since = this.#iterations
    const was_promoted = place.promoted
    if (this.#config.starvation === 'at_promotion') place.promoted = false
    this.#watch(place, now_us)
    const stale = place.output_tokens - place.scored_at_tokens >= this.#config.refresh_tokens
    return stale || place.promoted !== was_promoted ? this.#score(place) : false
  }

  stepped(steps: number): void {
    this.#iterations += steps
  }

  refresh(place: LampsPlace): boolean {
    return place.of.resident_tokens === place.scored_resident_tokens ? false : this.#score(place)
  }

  /** Charges move a call by its tokens alone, or because it ran at the head of the queue. */
  chargeLeftUs({ promoted }: LampsPlace): number {
    return promoted && this.#config.starvation === 'at_promotion' ? 0 : Number.POSITIVE_INFINITY
  }

  outputTokensLeft({ output_tokens, scored_at_tokens }: LampsPlace): number {
    if (this.#config.order === 'first_come') return Number.POSITIVE_INFINITY
    return scored_at_tokens + this.#config.refresh_tokens - output_tokens
  }

  dueUs({ promoted, due_us }: LampsPlace): number {
    return promoted || this.#config.order === 'first_come' ? Number.POSITIVE_INFINITY : due_us
  }

  due(place: LampsPlace, now_us: number): boolean {
    if (place.promoted || now_us < place.due_us) return false
    if (this.#iterationsLeft(place) > 0) {
      this.#watch(place, now_us)
      return false
    }
    place.promoted = true
    if (this.#config.starvation === 'until_completion') this.#promoted.add(place.of.program)
    this.#score(place)
    return true
  }

  position({ score, promoted, of }: LampsPlace): string {
    if (this.#config.order === 'first_come') return 'in order of its program’s first call'
    const memory = `${Math.round(score)} token-seconds of memory expected, fewer go first`
    const output = `${outputOf(of.call.forecast)} output tokens foreseen`
    return `${memory} (${output})${promoted ? ', promoted since it waited long' : ''}`
  }

  handlingOf({ choice }: LampsPlace): HandlingChoice | null {
    return choice
  }

  /** Decided before the call runs, by the batch as it usually is (§3.2.1). */
  #choose({ call, prompt_tokens }: PolicyCall): HandlingChoice | null {
    const { forecast } = call
    const tool_us = forecast === undefined ? null : (expectedTool(forecast)?.duration_us ?? null)
    if (tool_us === null) return null
    const context_tokens = prompt_tokens + outputOf(forecast)
    const { costs, other_tokens } = this.#memory
    return chooseHandling(costs, { context_tokens, other_tokens }, tool_us, this.handling.allowed)
  }

  /** Whether its rank changed. */
  #score(place: LampsPlace): boolean {
    const { of, choice, output_tokens, promoted } = place
    const { prompt_tokens, resident_tokens, call } = of
    place.scored_at_tokens = output_tokens
    place.scored_resident_tokens = resident_tokens
    if (this.#config.order === 'first_come') return this.#rank(place, call.sequence?.[0] ?? place.came_ms)
    place.score = memoryOverTime(
      {
        ...{ prompt_tokens, output_tokens, missing_tokens: prompt_tokens - resident_tokens },
        // A call that writes more than expected may end with any token.
        output_tokens_left: Math.max(1, outputOf(call.forecast) - output_tokens),
      },
      choice,
      this.#memory,
    )
    place.score += this.#laterWork(place)
    place.score /= call.program_weight ?? 1
    return this.#rank(place, promoted ? place.score - PROMOTED : place.score)
  }

  #rank(place: LampsPlace, rank: number): boolean {
    if (rank === place.rank) return false
    place.rank = rank
    return true
  }

  #iterationsLeft({ waits_since }: LampsPlace): number {
    return this.#config.starvation_iterations - (this.#iterations - waits_since)
  }

  /** The threshold is not reached before so many of the shortest steps. */
  #watch(place: LampsPlace, now_us: number): void {
    const shortest_us = Math.max(1, this.#memory.costs.forward.base_us)
    place.due_us = now_us + Math.ceil(Math.max(1, this.#iterationsLeft(place)) * shortest_us)
  }
}

export function outputOf(forecast: CallForecast | undefined): number {
  return forecast?.output_tokens ?? OUTPUT_TOKENS_DEFAULT
}
