/**
 * `learned`: programs by a weighted, cache-aware Gittins index of the output tokens that they have had and of the prompt
 * tokens that are really left (src/core/classes/index-table.ts). A class of which little is known is ordered by a prior
 * that amounts to least attained service.
 *
 * An open call has a mean call's output before it, and a wave of parallel calls so many times that. So a program counts as
 * one that has had the output of its open calls, and that still has to be given it:
 *
 *     G(o + committed, k + committed · c)      committed = max(0, open calls · mean output of a call − what they have had)
 *
 * The rank is the logarithm of the index, in quarters of an octave. Programs of one rank run in the order in which they were
 * opened. A seat is taken only for a program that is better by a whole octave.
 */

import type { ServiceRates } from '../../../../../src/core/call/service.ts'
import {
  type IndexStep,
  type IndexTable,
  indexOf,
  indexTable,
  type Objective,
  promptTokensAbove,
  RANKS_PER_OCTAVE,
  rankFrom,
  rankOf,
  stepAt,
} from '../../../../../src/core/classes/index-table.ts'
import type { Outlook } from '../../../types.ts'
import type { Charge, ClassTables, Place, Policy, PolicyCall } from '../../policy.ts'
import { addToWindow, openWindow, type Window } from '../levels/starvation.ts'

export interface LearnedConfig {
  /** What is made small: the mean latency per output token of programs, or their mean response time. */
  objective: Objective
  /**
   * A program's index halves each time that 1 + its wait ÷ its usual service grows by so many octaves. 0: never. A whole
   * number, so that both languages compute the same times.
   */
  age_octaves: number
  /** A program's usual service is taken so many times. */
  age_scale: number
}

export const LEARNED: LearnedConfig = { objective: 'token_latency', age_octaves: 0, age_scale: 1 }

export interface LearnedPlace extends Place, Window {
  readonly of: PolicyCall
  readonly table: IndexTable
  /** What one output token of the program costs, prompts of its later calls included. */
  readonly token_us: number
  /** The position of the table's step that holds. */
  at: number
  committed_tokens: number
  missing_tokens: number
  /** The rank without its wait. */
  index_rank: number
  /** How many times its wait has halved its index. */
  halvings: number
}

const PRIOR_TABLES: Record<Objective, IndexTable | null> = { token_latency: null, response: null }

function priorTable(objective: Objective): IndexTable {
  PRIOR_TABLES[objective] ??= indexTable(null, objective)
  return PRIOR_TABLES[objective]
}

export class Learned implements Policy<LearnedPlace> {
  readonly name = 'learned'
  readonly ties = 'program'
  readonly retention = 'rank'
  readonly #classes: ClassTables | null
  readonly #rates: ServiceRates
  readonly #config: LearnedConfig

  constructor(config: LearnedConfig, rates: ServiceRates, classes: ClassTables | null) {
    if (!(Number.isInteger(config.age_octaves) && config.age_octaves >= 0)) {
      throw new RangeError('learned: age_octaves must be a whole number, 0 or above')
    }
    if (!(config.age_scale > 0)) throw new RangeError('learned: age_scale must be above 0')
    this.#config = config
    this.#rates = rates
    this.#classes = classes
  }

  arrive(call: PolicyCall, now_us: number): LearnedPlace {
    const { tenant, class: program_class } = call.call
    const { objective } = this.#config
    const table = this.#classes?.tableOf(tenant, program_class, objective) ?? priorTable(objective)
    const { decode_us_per_token, prefill_us_per_token } = this.#rates
    const token_us = decode_us_per_token + prefill_us_per_token * table.prompt_tokens_per_output_token
    const place = {
      ...{ rank: 0, index_rank: 0, halvings: 0, of: call, table, token_us },
      ...{ at: 0, committed_tokens: -1, missing_tokens: -1 },
      ...openWindow(now_us),
    }
    this.#look(place)
    this.#age(place, now_us)
    this.#ranks(place)
    return place
  }

  charge(place: LearnedPlace, { wall_us, charge_us }: Charge, now_us: number): boolean {
    addToWindow(place, wall_us, charge_us)
    return this.refresh(place, now_us)
  }

  refresh(place: LearnedPlace, now_us: number): boolean {
    const { at } = place
    if (!this.#look(place)) return false
    if (place.at !== at) this.#age(place, now_us)
    return this.#ranks(place)
  }

  yieldsTo(worst: LearnedPlace, best: LearnedPlace): boolean {
    return worst.rank - best.rank >= RANKS_PER_OCTAVE
  }

  /** Service does not move it, only tokens. */
  chargeLeftUs(): number {
    return Number.POSITIVE_INFINITY
  }

  /** While its open calls get what they are expected to, the index falls with each token. */
  outputTokensLeft(place: LearnedPlace): number {
    const { of, table, at, committed_tokens, token_us, index_rank } = place
    const { output_tokens, open_calls } = of.program
    const calls = Math.max(1, open_calls)
    const step = table.steps[at] as IndexStep
    if (committed_tokens > 0) {
      const left = promptTokensAbove(step, this.#promptTokens(place), rankFrom(index_rank) / token_us)
      return Math.max(1, Math.floor(Math.min(committed_tokens, left - 1) / calls))
    }
    const next = table.steps[at + 1]
    return next === undefined ? Number.POSITIVE_INFINITY : Math.ceil((next.from_tokens - output_tokens) / calls)
  }

  dueUs(place: LearnedPlace): number {
    if (this.#config.age_octaves === 0) return Number.POSITIVE_INFINITY
    const wait_us = this.#waitForUs(place, place.halvings + 1)
    return Math.ceil(place.window_started_us + place.window_wall_us + wait_us - place.of.program.wait_us)
  }

  due(place: LearnedPlace, now_us: number): boolean {
    this.#age(place, now_us)
    return this.#ranks(place)
  }

  outlook({ rank, table, at, committed_tokens }: LearnedPlace): Outlook {
    const { remaining_tokens } = table.steps[at] as IndexStep
    return { rank, expected_remaining_tokens: committed_tokens + remaining_tokens }
  }

  /** The wait that halves its index so many times. */
  #waitForUs({ table, at, token_us }: LearnedPlace, halvings: number): number {
    const { age_octaves, age_scale } = this.#config
    const usual_us = (table.steps[at] as IndexStep).median_tokens * token_us * age_scale
    return usual_us * (2 ** (halvings * age_octaves) - 1)
  }

  #age(place: LearnedPlace, now_us: number): void {
    if (this.#config.age_octaves === 0) return
    const { window_started_us, window_wall_us, of } = place
    const wait_us = of.program.wait_us + now_us - window_started_us - window_wall_us
    place.halvings = 0
    while (this.#waitForUs(place, place.halvings + 1) <= wait_us) place.halvings += 1
  }

  /** Whether its rank changed. */
  #ranks(place: LearnedPlace): boolean {
    const rank = place.index_rank - RANKS_PER_OCTAVE * place.halvings
    if (rank === place.rank) return false
    place.rank = rank
    return true
  }

  /** Whether anything changed on which the index depends. */
  #look(place: LearnedPlace): boolean {
    const { of, table, token_us } = place
    const { output_tokens, open_calls, open_output_tokens } = of.program
    const committed_tokens = Math.max(0, Math.floor(table.call_tokens * open_calls + 0.5) - open_output_tokens)
    const at = stepAt(table, output_tokens + committed_tokens, place.at)
    const missing_tokens = of.prompt_tokens - of.resident_tokens
    if (at === place.at && committed_tokens === place.committed_tokens && missing_tokens === place.missing_tokens) {
      return false
    }
    place.at = at
    place.committed_tokens = committed_tokens
    place.missing_tokens = missing_tokens
    place.index_rank = rankOf(token_us * indexOf(table.steps[at] as IndexStep, this.#promptTokens(place)))
    return true
  }

  /** What is computed before anything is gained, in tokens of output's cost. */
  #promptTokens({ missing_tokens, committed_tokens, token_us }: LearnedPlace): number {
    return (missing_tokens * this.#rates.prefill_us_per_token) / token_us + committed_tokens
  }
}
