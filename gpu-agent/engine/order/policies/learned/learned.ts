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
 *
 * A call that starves (levels/starvation.ts) is promoted: its rank is that of what it is charged from then on, until its
 * index is better.
 */

import type { ServiceRates, ServiceReading } from '../../../../../src/core/call/service.ts'
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
import { PROGRAM_LEVELS } from '../levels/levels.ts'
import { addToWindow, openWindow, promotionUs, resetWindow, type Window } from '../levels/starvation.ts'

export interface LearnedConfig {
  /** What is made small: the mean latency per output token of programs, or their mean response time. */
  objective: Objective
  /** β: wait over service at which a call is promoted. The service is at least what is usual for its class. */
  promotion_ratio: number
  /**
   * A program's index halves each time that 1 + its wait ÷ its usual service grows by so many octaves. 0: never. A whole
   * number, so that both languages compute the same times.
   */
  age_octaves: number
  /** A program's usual service is taken so many times. */
  age_scale: number
}

/** β as the policies of levels have it: a modelled second is worth many wall seconds. */
export const LEARNED: Readonly<Record<ServiceReading, LearnedConfig>> = {
  modelled: {
    objective: 'token_latency',
    promotion_ratio: PROGRAM_LEVELS.modelled.promotion_ratio,
    age_octaves: 0,
    age_scale: 1,
  },
  wall: {
    objective: 'token_latency',
    promotion_ratio: PROGRAM_LEVELS.wall.promotion_ratio,
    age_octaves: 0,
    age_scale: 1,
  },
}

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
  promoted: boolean
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
      ...{ at: 0, committed_tokens: -1, missing_tokens: -1, promoted: false },
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
    if (this.#look(place) && place.at !== at) this.#age(place, now_us)
    return this.#ranks(place)
  }

  yieldsTo(worst: LearnedPlace, best: LearnedPlace): boolean {
    return worst.rank - best.rank >= RANKS_PER_OCTAVE
  }

  /** Only a promoted call moves with its service. */
  chargeLeftUs({ promoted }: LearnedPlace): number {
    return promoted ? 0 : Number.POSITIVE_INFINITY
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
    return Math.min(this.#agesUs(place), this.#promotionUs(place))
  }

  due(place: LearnedPlace, now_us: number): boolean {
    this.#age(place, now_us)
    if (now_us < this.#promotionUs(place)) return this.#ranks(place)
    place.promoted = true
    resetWindow(place, now_us)
    this.#age(place, now_us)
    this.#ranks(place)
    return true
  }

  outlook({ rank, table, at, committed_tokens }: LearnedPlace): Outlook {
    const { remaining_tokens } = table.steps[at] as IndexStep
    return { rank, expected_remaining_tokens: committed_tokens + remaining_tokens }
  }

  #promotionUs(place: LearnedPlace): number {
    if (place.promoted && place.window_charge_us === 0) return Number.POSITIVE_INFINITY
    const { service_us, wait_us } = place.of.program
    const missing_us = place.missing_tokens * this.#rates.prefill_us_per_token
    const service_at_least_us = Math.max(service_us, this.#usualUs(place)) + missing_us
    return promotionUs(place, service_at_least_us, wait_us, this.#config.promotion_ratio)
  }

  #agesUs(place: LearnedPlace): number {
    if (this.#config.age_octaves === 0) return Number.POSITIVE_INFINITY
    const wait_us = this.#waitForUs(place, place.halvings + 1)
    return Math.ceil(place.window_started_us + place.window_wall_us + wait_us - place.of.program.wait_us)
  }

  /** The wait that halves its index so many times. */
  #waitForUs(place: LearnedPlace, halvings: number): number {
    const { age_octaves, age_scale } = this.#config
    return this.#usualUs(place) * age_scale * (2 ** (halvings * age_octaves) - 1)
  }

  /** What a program of its class that has come so far has had in the end, as often as not. */
  #usualUs({ table, at, token_us }: LearnedPlace): number {
    return (table.steps[at] as IndexStep).median_tokens * token_us
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
    const rank = this.#rankOf(place)
    if (rank === place.rank) return false
    place.rank = rank
    return true
  }

  #rankOf({ index_rank, halvings, promoted, window_charge_us }: LearnedPlace): number {
    const rank = index_rank - RANKS_PER_OCTAVE * halvings
    return promoted ? Math.min(rank, rankOf(1 + window_charge_us)) : rank
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
