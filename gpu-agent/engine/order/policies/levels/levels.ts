/**
 * Algorithm 1's levels (Autellix §4.2.2): queues Q1…QK, each with a quantum of service that a call may use there before it
 * goes to the next. Level k ends at the sum of the first k quanta. So the number of calls over which a program spreads its
 * service makes no difference.
 */
import type { ServiceReading } from '../../../../../src/core/call/service.ts'

export interface LevelConfig {
  /** K: number of queues. */
  levels: number
  /** Quantum of Q1, in the pool's ordering reading of service. */
  first_quantum_us: number
  /** Each level's quantum is the one before times this. */
  quantum_ratio: number
  /** β: wait over service at which a call is promoted. */
  promotion_ratio: number
  /** Hysteresis: a call with a seat yields only to a call that is better by at least this many levels. */
  preemption_levels_min: number
}

/** Of levels of programs: what their key is made of (program-levels.ts). */
export interface ProgramLevelConfig extends LevelConfig {
  /** What computing a prompt token costs, in the ordering reading; a generated one costs 500 us of modelled service. */
  prefill_us_per_token: number
  /** Resident prompt tokens lift their program by so many times what computing them costs. */
  resident_weight: number
}

/**
 * On a CPU: the small model needs 5.2 ms for a prompt token and 8.5 ms for a generated one with four calls in the batch. A
 * GPU computes prompts far better than it generates.
 */
export const CPU_PREFILL_US_PER_TOKEN: Readonly<Record<ServiceReading, number>> = { modelled: 300, wall: 5_200 }
/** Of 2, a long chat with 400 resident tokens would go before every newcomer for 480 tokens more (plas/README.md). */
const CPU_RESIDENT_WEIGHT = 0.5

/** What differs on an engine that computes on a CPU. */
export function programLevelsOnCpu(
  reading: ServiceReading,
): Pick<ProgramLevelConfig, 'prefill_us_per_token' | 'resident_weight'> {
  return { prefill_us_per_token: CPU_PREFILL_US_PER_TOKEN[reading], resident_weight: CPU_RESIDENT_WEIGHT }
}

/**
 * Levels of programs. One set per reading of service, since a modelled second is worth many wall seconds. plas/README.md has
 * the reasons.
 */
export const PROGRAM_LEVELS: Readonly<Record<ServiceReading, ProgramLevelConfig>> = {
  modelled: {
    levels: 22,
    first_quantum_us: 5_000,
    quantum_ratio: 1.4,
    promotion_ratio: 800,
    preemption_levels_min: 1,
    prefill_us_per_token: 72,
    resident_weight: 2,
  },
  wall: {
    levels: 22,
    first_quantum_us: 200_000,
    quantum_ratio: 1.4,
    promotion_ratio: 20,
    preemption_levels_min: 1,
    prefill_us_per_token: 72,
    resident_weight: 2,
  },
}
export const LEVELS_MAX = 64

export class Levels {
  /** By level. The last quantum is Infinity. */
  readonly quantum_us: readonly number[]
  /** Service at which a level ends. The last is Infinity. */
  readonly end_us: readonly number[]

  /** `name`: of the policy, for error messages. Throws RangeError. */
  constructor(name: string, { levels, first_quantum_us, quantum_ratio, promotion_ratio, ...rest }: LevelConfig) {
    if (!Number.isInteger(levels) || levels < 1 || levels > LEVELS_MAX) {
      throw new RangeError(`${name}: levels must be an integer from 1 to ${LEVELS_MAX}`)
    }
    if (!(first_quantum_us > 0)) throw new RangeError(`${name}: first_quantum_us must be positive`)
    if (!(quantum_ratio >= 1)) throw new RangeError(`${name}: quantum_ratio must be at least 1`)
    if (!(promotion_ratio > 0)) throw new RangeError(`${name}: promotion_ratio must be positive`)
    if (!(rest.preemption_levels_min >= 0)) {
      throw new RangeError(`${name}: preemption_levels_min must not be negative`)
    }
    const quantum_us = Array.from({ length: levels }, (_, level) =>
      level === levels - 1 ? Number.POSITIVE_INFINITY : Math.round(first_quantum_us * quantum_ratio ** level),
    )
    let end_us = 0
    this.quantum_us = quantum_us
    this.end_us = quantum_us.map((quantum) => (end_us += quantum))
  }

  /** `Q2 of 22`: Q1 goes first. */
  shown(level: number): string {
    return `Q${level + 1} of ${this.end_us.length}`
  }

  /** A program that weighs twice as much gets twice the quanta. */
  levelOf(service_us: number, weight = 1): number {
    const { end_us } = this
    let level = 0
    while (service_us >= (end_us[level] as number) * weight) level++
    return level
  }
}
