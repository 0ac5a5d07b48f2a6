/**
 * `learned`: programs by a weighted, cache-aware Gittins index of the output tokens that they have had and of the prompt
 * tokens that are really left (src/core/classes/index-table.ts). A class of which little is known is ordered by a prior
 * that amounts to least attained service.
 *
 * The rank is the logarithm of the index, to a whole octave. Programs of one octave run in the order in which they were
 * opened, and a seat is taken only from a program of a worse octave.
 */

import type { ServiceRates } from '../../../../../src/core/call/service.ts'
import {
  type IndexStep,
  type IndexTable,
  indexOf,
  indexTable,
  type Objective,
  stepAt,
} from '../../../../../src/core/classes/index-table.ts'
import {
  type Charge,
  type ClassTables,
  type Place,
  type Policy,
  type PolicyCall,
  yieldsToBetterRank,
} from '../../policy.ts'

export interface LearnedConfig {
  /** What is made small: the mean latency per output token of programs, or their mean response time. */
  objective: Objective
}

export const LEARNED: LearnedConfig = { objective: 'token_latency' }

export interface LearnedPlace extends Place {
  readonly of: PolicyCall
  readonly table: IndexTable
  /** What one output token of the program costs, prompts of its later calls included. */
  readonly token_us: number
  /** The position of the table's step that holds. */
  at: number
  missing_tokens: number
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
  readonly yieldsTo = yieldsToBetterRank
  readonly #classes: ClassTables | null
  readonly #rates: ServiceRates
  readonly #objective: Objective

  constructor({ objective }: LearnedConfig, rates: ServiceRates, classes: ClassTables | null) {
    this.#objective = objective
    this.#rates = rates
    this.#classes = classes
  }

  arrive(call: PolicyCall): LearnedPlace {
    const { tenant, class: program_class } = call.call
    const table = this.#classes?.tableOf(tenant, program_class, this.#objective) ?? priorTable(this.#objective)
    const { decode_us_per_token, prefill_us_per_token } = this.#rates
    const token_us = decode_us_per_token + prefill_us_per_token * table.prompt_tokens_per_output_token
    const place = { rank: 0, of: call, table, token_us, at: 0, missing_tokens: 0 }
    this.#look(place)
    place.rank = this.#rankOf(place)
    return place
  }

  charge(place: LearnedPlace, _charge: Charge): boolean {
    return this.refresh(place)
  }

  refresh(place: LearnedPlace): boolean {
    if (!this.#look(place)) return false
    const rank = this.#rankOf(place)
    if (rank === place.rank) return false
    place.rank = rank
    return true
  }

  chargeLeftUs(): number {
    return Number.POSITIVE_INFINITY
  }

  outputTokensLeft({ of, table, at }: LearnedPlace): number {
    const next = table.steps[at + 1]
    if (next === undefined) return Number.POSITIVE_INFINITY
    const { output_tokens, open_calls } = of.program
    return Math.ceil((next.from_tokens - output_tokens) / Math.max(1, open_calls))
  }

  dueUs(): number {
    return Number.POSITIVE_INFINITY
  }

  due(): boolean {
    return false
  }

  /** Whether anything changed on which the rank depends. */
  #look(place: LearnedPlace): boolean {
    const { of, table } = place
    const at = stepAt(table, of.program.output_tokens, place.at)
    const missing_tokens = of.prompt_tokens - of.resident_tokens
    if (at === place.at && missing_tokens === place.missing_tokens) return false
    place.at = at
    place.missing_tokens = missing_tokens
    return true
  }

  #rankOf({ table, at, token_us, missing_tokens }: LearnedPlace): number {
    const missing_us = missing_tokens * this.#rates.prefill_us_per_token
    const index_us = token_us * indexOf(table.steps[at] as IndexStep, missing_us / token_us)
    return Math.round(Math.log2(index_us))
  }
}
