/**
 * What a scheduling policy decides: the order of calls inside one tenant, and nothing else. Seats are shared between
 * tenants before a policy is asked (design.md, invariant 5), so no policy can favour a tenant.
 *
 * A policy holds no queue. It gives each call a Place whose `rank` orders it: lower runs first. Calls of equal rank run by
 * their program's sequence (`ties: 'program'`), or in the order in which they came to that rank (`ties: 'call'`). With ties
 * by call, the next call of a program joins the back of the queue. So programs take turns, every open context must stay in
 * memory, and the prefix cache collapses once contexts do not fit. The baselines of the literature queue that way.
 *
 * The order keeps the queues, and calls the policy on each event that can move a call: it was charged, another call of its
 * program was charged, or its due time came. So a step costs the policy O(calls in the step), never O(waiting calls).
 *
 * Every policy passes policy.contract.ts.
 */
import type { ServiceRates, ServiceReading } from '../../../src/core/call/service.ts'
import type { IndexTable } from '../../../src/core/classes/index-table.ts'
import type { Objective } from '../../../src/protocol/objective.ts'
import type { HandlingChoice, HandlingRule, MemoryCosts } from '../memory/handling/waste.ts'
import type { OrderedCall, Outlook } from '../types.ts'
import type { ProgramView } from './program-table.ts'

/** A policy's view of one call. A policy adds the fields that it must remember, and owns their contents. */
export interface Place {
  /** Lower runs first. */
  rank: number
}

/** What a policy may see of a call. `resident_tokens` changes while the call is open. */
export interface PolicyCall {
  readonly call: OrderedCall
  readonly prompt_tokens: number
  /** Prompt tokens whose KV is at hand: in a prefix that the call would take, swapped out, or computed for it. */
  readonly resident_tokens: number
  readonly program: ProgramView
}

/** What a step cost a call, or several steps in which no call moved. */
export interface Charge {
  wall_us: number
  /** In the pool's ordering reading of service. */
  charge_us: number
  /** Prompt tokens computed. */
  prefill_tokens: number
  output_tokens: number
}

export type Ties = 'program' | 'call'

/** Which cached prefixes leave memory first: the least recently used, or those of programs that run last. */
export type Retention = 'lru' | 'rank'

/**
 * For which calls others lose their KV. `for_all`: for every call with a seat that runs before them. `for_started`: for
 * calls that have KV in a slot, or preserved for them. Then a call that begins waits for room, as in vLLM.
 */
export type Evicts = 'for_all' | 'for_started'

/** The context for which a policy is made. */
export interface PolicyContext {
  /** The reading of service in which it is charged. */
  reading: ServiceReading
  rates: ServiceRates
  /** What is known about classes of programs, for policies that learn. Null: nothing. */
  classes: ClassTables | null
  /** What its engine's memory costs, for policies that weigh it. */
  memory: EngineMemory
}

/** What a policy knows of an engine's memory before a call runs. */
export interface EngineMemory {
  costs: MemoryCosts
  /** How long a step usually lasts. */
  step_us: number
  /** KV tokens that the other calls of a batch usually have, as profiled. */
  other_tokens: number
}

/**
 * The reference engine of the service rates, with 60 GB for KV, most of it in use: what a policy assumes of an engine that
 * does not say what its memory costs.
 */
export const REFERENCE_MEMORY: EngineMemory = Object.freeze({
  costs: {
    forward: { base_us: 6_000, free_tokens: 0, per_token_us: 125, per_pair_us: 0 },
    swap: { base_us: 30, free_tokens: 0, per_token_us: 5.2, per_pair_us: 0 },
    kv_bytes_per_token: 131_072,
  },
  step_us: 20_000,
  other_tokens: 300_000,
})

/** What is known about classes of programs. It changes as programs end. */
export interface ClassTables {
  /** The table by which programs of this class are ordered. Null: nothing is known of the class, nor of its tenant's others. */
  tableOf(tenant: string, program_class: string, objective: Objective): IndexTable | null
}

export interface Policy<P extends Place = Place> {
  readonly name: string
  readonly ties: Ties
  readonly retention: Retention
  /** Absent: `for_all`. */
  readonly evicts?: Evicts
  /** How contexts are handled while tools run. Absent: they stay as prefixes, as `retention` has it. */
  readonly handling?: HandlingRule
  /** The place of a call that arrived at `now_us`. */
  arrive(call: PolicyCall, now_us: number): P
  /** The call was charged. Returns true when it moves: its rank changed, or it goes to the tail of its rank. */
  charge(place: P, charge: Charge, now_us: number): boolean
  /**
   * So many steps were made without a `charge`: they were taken at once, and the calls in them ended with the one after.
   * Absent: the policy does not count steps.
   */
  stepped?(steps: number): void
  /**
   * Its program was charged for another call, another call of its program ended, or the call's resident tokens changed.
   * Returns true when its rank changed. Absent: the policy's ranks depend on none of these.
   */
  refresh?(place: P, now_us: number): boolean
  /**
   * Whether `worst`, which has a seat, gives it to `best`, which waits and runs before it. Each policy has its own
   * hysteresis, since only it knows the unit of its ranks.
   */
  yieldsTo(worst: P, best: P): boolean
  /**
   * How much more each open call of the program may be charged until `charge` or `refresh` returns true, provided that only
   * charges change them. Several charges that stay below it may come as one summed charge. Absent: unknown, so every step
   * is charged separately.
   */
  chargeLeftUs?(place: P): number
  /**
   * How many more output tokens each open call of the program may have until `charge` or `refresh` returns true, provided
   * that only these change them. Absent: any number.
   */
  outputTokensLeft?(place: P): number
  /**
   * When the call must be offered to `due` if it is not in a step until then. Infinity: never. Between two times at which
   * `arrive`, `charge`, `refresh` or `due` moved the call, only the arrival or end of another call of its program may make
   * it earlier.
   */
  dueUs(place: P): number
  /**
   * What it has decided, before the call ran, for its context while the tool runs. Absent or null: that is decided when the
   * call ends.
   */
  handlingOf?(place: P): HandlingChoice | null
  /**
   * What it knows of a call that has just arrived, for people: its rank, and the output that it expects where it learns. A
   * rank without that is a level. Absent: nothing that means anything outside of it.
   */
  outlook?(place: P): Outlook
  /**
   * For people who ask why the call waits: by what it is ordered at this moment, in words and numbers. At most
   * POSITION_CHARS_MAX characters. Absent: by nothing that an engine could know.
   */
  position?(place: P): string
  /** Offered at or after `dueUs`. Returns true when the call goes to the tail of its (possibly same) rank. */
  due(place: P, now_us: number): boolean
}

/** Calls of equal rank keep their seats: only a better rank takes one. */
export function yieldsToBetterRank(worst: Place, best: Place): boolean {
  return best.rank < worst.rank
}
