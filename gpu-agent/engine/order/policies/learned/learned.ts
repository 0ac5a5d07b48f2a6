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
  octaveOf,
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
import { addToWindow, openWindow, type Window } from '../levels/starvation.ts'

export interface LearnedConfig {
  /** What is made small: the mean latency per output token of programs, or their mean response time. */
  objective: Objective
  /** A program's rank falls by one each time that 1 + its wait ÷ its typical service grows by so many octaves. 0: never. */
  octaves_per_rank: number
  /** Its typical service is taken so many times. */
  age_scale: number
}

export const LEARNED: LearnedConfig = { objective: 'token_latency', octaves_per_rank: 0, age_scale: 1 }

export interface LearnedPlace extends Place, Window {
  readonly of: PolicyCall
  readonly table: IndexTable
  /** What one output token of the program costs, prompts of its later calls included. */
  readonly token_us: number
  /** The position of the table's step that holds. */
  at: number
  missing_tokens: number
  /** The rank without its wait. */
  index_rank: number
  /** By how much its wait has made its rank better. */
  aged: number
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
  readonly #config: LearnedConfig

  constructor(config: LearnedConfig, rates: ServiceRates, classes: ClassTables | null) {
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
      ...{ rank: 0, index_rank: 0, of: call, table, token_us, at: -1, missing_tokens: 0, aged: 0 },
      ...openWindow(now_us),
    }
    this.#look(place)
    this.#age(place, now_us)
    place.rank = place.index_rank - place.aged
    return place
  }

  charge(place: LearnedPlace, { wall_us, charge_us }: Charge, now_us: number): boolean {
    addToWindow(place, wall_us, charge_us)
    return this.refresh(place, now_us)
  }

  refresh(place: LearnedPlace, now_us: number): boolean {
    if (!this.#look(place)) return false
    this.#age(place, now_us)
    return this.#ranks(place)
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

  dueUs(place: LearnedPlace): number {
    if (this.#config.octaves_per_rank === 0) return Number.POSITIVE_INFINITY
    const wait_us = this.#waitForUs(place, place.aged + 1)
    return Math.ceil(place.window_started_us + place.window_wall_us + wait_us - place.of.program.wait_us)
  }

  due(place: LearnedPlace, now_us: number): boolean {
    this.#age(place, now_us)
    return this.#ranks(place)
  }

  /** The wait that makes its rank better by `aged`. */
  #waitForUs({ table, at, token_us }: LearnedPlace, aged: number): number {
    const { octaves_per_rank, age_scale } = this.#config
    const typical_us = (table.steps[at] as IndexStep).median_tokens * token_us * age_scale
    return typical_us * (2 ** (aged * octaves_per_rank) - 1)
  }

  #age(place: LearnedPlace, now_us: number): void {
    if (this.#config.octaves_per_rank === 0) return
    const { window_started_us, window_wall_us, of } = place
    const wait_us = of.program.wait_us + now_us - window_started_us - window_wall_us
    place.aged = 0
    while (this.#waitForUs(place, place.aged + 1) <= wait_us) place.aged += 1
  }

  /** Whether its rank changed. */
  #ranks(place: LearnedPlace): boolean {
    const rank = place.index_rank - place.aged
    if (rank === place.rank) return false
    place.rank = rank
    return true
  }

  /** Whether anything changed on which the index depends. */
  #look(place: LearnedPlace): boolean {
    const { of, table, token_us } = place
    const at = stepAt(table, of.program.output_tokens, Math.max(0, place.at))
    const missing_tokens = of.prompt_tokens - of.resident_tokens
    if (at === place.at && missing_tokens === place.missing_tokens) return false
    place.at = at
    place.missing_tokens = missing_tokens
    const missing_us = missing_tokens * this.#rates.prefill_us_per_token
    const index_us = token_us * indexOf(table.steps[at] as IndexStep, missing_us / token_us)
    place.index_rank = octaveOf(index_us)
    return true
  }
}
