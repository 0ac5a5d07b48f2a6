/**
 * `learned`: programs by a weighted, cache-aware Gittins index of the output tokens that they have had and of the prompt
 * tokens that are really left (src/core/classes/index-table.ts). A class of which little is known is ordered by a prior
 * that amounts to least attained service.
 *
 * A program cannot end before its open calls do. All but the last are sure to come, each with about a mean call's output.
 * Of the last, the output may be the program's end, which the index already counts with. It says more only so far as programs
 * differ by how many calls they make, and not by how long these are (`call_share`). So a program counts as one that has had
 * this output, and that still has to be given it:
 *
 *     G(o + committed, k + committed · c)
 *     committed = (open calls − 1 + call share) ÷ open calls · max(0, open calls · mean output of a call − what they have had)
 *
 * The rank is the logarithm of the index, in quarters of an octave. Programs of one rank run in the order in which they were
 * opened. A seat is taken only for a program that is better by a whole octave.
 *
 * A call is ordered by what was known of its class when it came. So that one that waits does not stay where a class of which
 * little was known had it, its table is read again after its program's usual service, and then each time after twice as long.
 *
 * A call that starves (levels/starvation.ts) is promoted: it runs first until its prompt and a quantum are computed. Then its rank
 * is that of what it has been charged since, until its index is better.
 */

import type { ServiceRates, ServiceReading } from '../../../../../src/core/call/service.ts'
import {
  type IndexStep,
  type IndexTable,
  indexOf,
  indexTable,
  promptTokensAt,
  RANKS_PER_OCTAVE,
  rankFrom,
  rankOf,
  stepAt,
} from '../../../../../src/core/classes/index-table.ts'
import type { Objective } from '../../../../../src/protocol/objective.ts'
import type { Outlook } from '../../../types.ts'
import type { Charge, ClassTables, Place, Policy, PolicyCall } from '../../policy.ts'
import { PROGRAM_LEVELS } from '../levels/levels.ts'
import { addToWindow, openWindow, promotionUs, resetWindow, type Window } from '../levels/starvation.ts'

export interface LearnedConfig {
  /** What is made small, for calls that do not say: the mean latency per output token of programs, or their mean response time. */
  objective: Objective
  /** β: wait over service at which a call is promoted. The service is at least what is usual for its class. */
  promotion_ratio: number
  /** What a promoted call may be charged before its charge counts, beside the prompt that it still lacks. */
  promoted_quantum_us: number
  /**
   * A program's index halves each time that 1 + its wait ÷ its usual service grows by so many octaves. 0: never. A whole
   * number up to AGE_OCTAVES_MAX, so that both languages compute the same times.
   */
  age_octaves: number
  /** A program's usual service is taken so many times. From AGE_SCALE_MIN to AGE_SCALE_MAX. */
  age_scale: number
  /** What computing a prompt token costs; a generated one costs 500 us. Left out: as it is charged. */
  prefill_us_per_token?: number
}

export const AGE_OCTAVES_MAX = 32
export const AGE_SCALE_MIN = 1e-6
export const AGE_SCALE_MAX = 1e6

/** β as the policies of levels have it: a modelled second is worth many wall seconds. */
export const LEARNED: Readonly<Record<ServiceReading, LearnedConfig>> = {
  modelled: {
    objective: 'token_latency',
    promotion_ratio: PROGRAM_LEVELS.modelled.promotion_ratio,
    promoted_quantum_us: PROGRAM_LEVELS.modelled.first_quantum_us,
    age_octaves: 0,
    age_scale: 1,
  },
  wall: {
    objective: 'token_latency',
    promotion_ratio: PROGRAM_LEVELS.wall.promotion_ratio,
    promoted_quantum_us: PROGRAM_LEVELS.wall.first_quantum_us,
    age_octaves: 0,
    age_scale: 1,
  },
}

export interface LearnedPlace extends Place, Window {
  readonly of: PolicyCall
  table: IndexTable
  /** What one output token of the program costs, prompts of its later calls included. */
  token_us: number
  /** When its table is read again, and how long after the time before. */
  reads_us: number
  read_interval_us: number
  /** The position of the table's step that holds. -1: not known. */
  at: number
  committed_tokens: number
  /** The rank without its wait. It holds while the prompt tokens are between these bounds, and the step is the same. */
  index_rank: number
  prompt_tokens_min: number
  prompt_tokens_max: number
  /** How many times its wait has halved its index. */
  halvings: number
  promoted: boolean
  /** Once promoted: what it may be charged at its best rank. */
  quantum_us: number
}

/** Of a call that was promoted, while it is charged no more than its quantum. Then it is that of its charge. */
const PROMOTED_RANK = 0
/** While a missing prompt is computed, others wait for it and its memory serves no one: it counts so many times. */
const MISSING_WEIGHT = 1.5

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
    const {
      promotion_ratio,
      promoted_quantum_us,
      age_octaves,
      age_scale,
      prefill_us_per_token = rates.prefill_us_per_token,
    } = config
    if (!(prefill_us_per_token >= 0)) throw new RangeError('learned: prefill_us_per_token must not be negative')
    if (!(promotion_ratio > 0)) throw new RangeError('learned: promotion_ratio must be positive')
    if (!(promoted_quantum_us >= 0)) throw new RangeError('learned: promoted_quantum_us must not be negative')
    if (!(Number.isInteger(age_octaves) && age_octaves >= 0 && age_octaves <= AGE_OCTAVES_MAX)) {
      throw new RangeError(`learned: age_octaves must be an integer from 0 to ${AGE_OCTAVES_MAX}`)
    }
    if (!(age_scale >= AGE_SCALE_MIN && age_scale <= AGE_SCALE_MAX)) {
      throw new RangeError(`learned: age_scale must be from ${AGE_SCALE_MIN} to ${AGE_SCALE_MAX}`)
    }
    this.#config = config
    this.#rates = { ...rates, prefill_us_per_token }
    this.#classes = classes
  }

  arrive(call: PolicyCall, now_us: number): LearnedPlace {
    const table = this.#tableOf(call)
    const place = {
      ...{ rank: 0, index_rank: 0, halvings: 0, of: call, table, token_us: this.#tokenUs(table) },
      ...{ at: -1, committed_tokens: 0, prompt_tokens_min: 0, prompt_tokens_max: 0, promoted: false, quantum_us: 0 },
      ...{ reads_us: Number.POSITIVE_INFINITY, read_interval_us: 0 },
      ...openWindow(now_us),
    }
    this.refresh(place, now_us)
    if (this.#classes !== null) {
      place.read_interval_us = Math.ceil(this.#usualUs(place))
      place.reads_us = now_us + place.read_interval_us
    }
    return place
  }

  charge(place: LearnedPlace, { wall_us, charge_us }: Charge, now_us: number): boolean {
    addToWindow(place, wall_us, charge_us)
    return this.refresh(place, now_us)
  }

  refresh(place: LearnedPlace, now_us: number): boolean {
    const { of, table, at: before, prompt_tokens_min, prompt_tokens_max } = place
    const { output_tokens, open_calls, open_output_tokens } = of.program
    place.committed_tokens = committedTokens(table, open_calls, expectedTokens(table, open_calls, open_output_tokens))
    const at = stepAt(table, output_tokens + place.committed_tokens, Math.max(0, before))
    const prompt_tokens = this.#promptTokens(place)
    if (at === before && prompt_tokens >= prompt_tokens_min && prompt_tokens <= prompt_tokens_max) {
      return place.promoted && this.#ranks(place)
    }
    place.at = at
    findRank(place, prompt_tokens)
    const aged = at !== before && this.#age(place, now_us)
    return this.#ranks(place) || aged
  }

  yieldsTo(worst: LearnedPlace, best: LearnedPlace): boolean {
    return worst.rank - best.rank >= RANKS_PER_OCTAVE
  }

  /** Only a promoted call moves with its service. */
  chargeLeftUs({ promoted, quantum_us, window_charge_us }: LearnedPlace): number {
    return promoted ? Math.max(0, quantum_us - window_charge_us) : Number.POSITIVE_INFINITY
  }

  /** While its open calls get what they are expected to, their prompt tokens fall, and it moves on by less than they get. */
  outputTokensLeft(place: LearnedPlace): number {
    const { of, table, at, committed_tokens, prompt_tokens_min } = place
    const { output_tokens, open_calls, open_output_tokens } = of.program
    const calls = Math.max(1, open_calls)
    const next_tokens = table.steps[at + 1]?.from_tokens ?? Number.POSITIVE_INFINITY
    if (committed_tokens === 0) return Math.ceil((next_tokens - output_tokens) / calls)
    const share = committedShare(table, calls)
    // What is committed is rounded down, so it may be a token more or less.
    const rank_tokens = (this.#promptTokens(place) - prompt_tokens_min - 1) / share
    const step_tokens =
      share === 1 ? Number.POSITIVE_INFINITY : (next_tokens - output_tokens - committed_tokens - 1) / (1 - share)
    const expected_tokens = expectedTokens(table, calls, open_output_tokens)
    return Math.max(1, Math.floor(Math.min(expected_tokens, rank_tokens, step_tokens) / calls))
  }

  dueUs(place: LearnedPlace): number {
    return Math.min(place.reads_us, this.#agesUs(place), this.#promotionUs(place))
  }

  due(place: LearnedPlace, now_us: number): boolean {
    const read = now_us >= place.reads_us && this.#readAgain(place, now_us)
    if (now_us >= this.#agesUs(place)) this.#age(place, now_us)
    const moved = this.#ranks(place) || read
    if (now_us < this.#promotionUs(place)) return moved
    place.promoted = true
    place.quantum_us = this.#config.promoted_quantum_us + this.#missingUs(place.of)
    resetWindow(place, now_us)
    this.#age(place, now_us)
    this.#ranks(place)
    return true
  }

  outlook({ rank, table, at, committed_tokens }: LearnedPlace): Outlook {
    const { remaining_tokens } = table.steps[at] as IndexStep
    return { rank, expected_remaining_tokens: committed_tokens + remaining_tokens }
  }

  position(place: LearnedPlace): string {
    const { rank, expected_remaining_tokens = 0 } = this.outlook(place)
    const expected = `about ${Math.round(expected_remaining_tokens)} output tokens of its program to come`
    return `rank ${rank}, lower goes first: ${expected}${place.promoted ? ', promoted since it waited long' : ''}`
  }

  #tableOf({ call: { tenant, class: program_class, objective = this.#config.objective } }: PolicyCall): IndexTable {
    return this.#classes?.tableOf(tenant, program_class, objective) ?? priorTable(objective)
  }

  #tokenUs({ prompt_tokens_per_output_token }: IndexTable): number {
    const { decode_us_per_token, prefill_us_per_token } = this.#rates
    return decode_us_per_token + prefill_us_per_token * prompt_tokens_per_output_token
  }

  /** Its class may be known better than when its table was read. Whether its rank changed. */
  #readAgain(place: LearnedPlace, now_us: number): boolean {
    place.read_interval_us *= 2
    place.reads_us = now_us + place.read_interval_us
    const table = this.#tableOf(place.of)
    if (table === place.table) return false
    place.table = table
    place.token_us = this.#tokenUs(table)
    place.at = -1
    return this.refresh(place, now_us)
  }

  #promotionUs(place: LearnedPlace): number {
    if (place.rank <= PROMOTED_RANK) return Number.POSITIVE_INFINITY
    const { service_us, wait_us } = place.of.program
    const service_at_least_us = Math.max(service_us, this.#usualUs(place)) + this.#missingUs(place.of)
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

  /** Whether its age changed, and with it the time at which it must be looked at. */
  #age(place: LearnedPlace, now_us: number): boolean {
    if (this.#config.age_octaves === 0) return false
    const { window_started_us, window_wall_us, of } = place
    const wait_us = of.program.wait_us + now_us - window_started_us - window_wall_us
    let halvings = 0
    while (this.#waitForUs(place, halvings + 1) <= wait_us) halvings += 1
    const aged = halvings !== place.halvings
    place.halvings = halvings
    return aged
  }

  /** Whether its rank changed. */
  #ranks(place: LearnedPlace): boolean {
    const rank = this.#rankOf(place)
    if (rank === place.rank) return false
    place.rank = rank
    return true
  }

  #rankOf({ index_rank, halvings, promoted, quantum_us, window_charge_us }: LearnedPlace): number {
    const rank = index_rank - RANKS_PER_OCTAVE * halvings
    if (!promoted) return rank
    return Math.min(rank, window_charge_us < quantum_us ? PROMOTED_RANK : rankOf(1 + window_charge_us))
  }

  /** What is computed before anything is gained, in tokens of output's cost. */
  #promptTokens({ of, committed_tokens, token_us }: LearnedPlace): number {
    return (MISSING_WEIGHT * this.#missingUs(of)) / token_us + committed_tokens
  }

  /** Of its prompt, what is still to be computed. */
  #missingUs({ prompt_tokens, resident_tokens }: PolicyCall): number {
    return (prompt_tokens - resident_tokens) * this.#rates.prefill_us_per_token
  }
}

/** What its open calls are expected to have beyond what they have had. */
function expectedTokens({ call_tokens }: IndexTable, open_calls: number, open_output_tokens: number): number {
  return Math.max(0, Math.floor(call_tokens * open_calls + 0.5) - open_output_tokens)
}

/** Of that, the share that is sure to come before the program ends. */
function committedShare({ call_share }: IndexTable, open_calls: number): number {
  return (open_calls - 1 + call_share) / open_calls
}

function committedTokens(table: IndexTable, open_calls: number, expected_tokens: number): number {
  return expected_tokens === 0 ? 0 : Math.floor(committedShare(table, open_calls) * expected_tokens)
}

/**
 * The rank of its index over its weight at so many prompt tokens, and down to how many it holds: calls that get tokens have ever
 * fewer.
 */
function findRank(place: LearnedPlace, prompt_tokens: number): void {
  const { table, at, of } = place
  const token_us = place.token_us / (of.call.program_weight ?? 1)
  const step = table.steps[at] as IndexStep
  const rank = rankOf(token_us * indexOf(step, prompt_tokens))
  place.index_rank = rank
  place.prompt_tokens_min = prompt_tokens
  place.prompt_tokens_max = prompt_tokens
  // Rounding may put the exact end of the rank on either side.
  const fewer_tokens = promptTokensAt(step, rankFrom(rank) / token_us) + 1
  if (fewer_tokens < prompt_tokens && rankOf(token_us * indexOf(step, fewer_tokens)) === rank) {
    place.prompt_tokens_min = fewer_tokens
  }
}
