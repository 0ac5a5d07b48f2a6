/**
 * Multi-level feedback queue over calls (FastServe; the baseline of Autellix §6). A call inherits nothing from its program.
 * Every call starts in Q1, and anti-starvation looks at the call alone. A call that has used its level's quantum goes to
 * the tail of the next level. The last level has no quantum.
 *
 * `ties: 'call'` is the paper's form. `ties: 'program'` keeps the programs of a level in their sequence.
 */
import type { ServiceReading } from '../../../../../src/core/call/service.ts'
import type { Charge, Place, Policy, Retention, Ties } from '../../policy.ts'
import { type LevelConfig, Levels } from '../levels/levels.ts'
import { addToWindow, openWindow, promotionUs, resetWindow, type Window } from '../levels/starvation.ts'
import { shownUs } from '../shown-us.ts'

export interface MlfqConfig extends LevelConfig {
  ties: Ties
}

/** The paper gives neither quanta nor β. Algorithm 1 preempts for every call that is earlier in order, even within a level. */
export const MLFQ_DEFAULTS: Readonly<Record<ServiceReading, MlfqConfig>> = {
  modelled: {
    ...{ levels: 10, first_quantum_us: 25_000, quantum_ratio: 2, promotion_ratio: 800 },
    ...{ preemption_levels_min: 0, ties: 'call' },
  },
  wall: {
    ...{ levels: 10, first_quantum_us: 1_000_000, quantum_ratio: 2, promotion_ratio: 20 },
    ...{ preemption_levels_min: 0, ties: 'call' },
  },
}

export interface MlfqPlace extends Place, Window {
  quantum_left_us: number
}

export class Mlfq implements Policy<MlfqPlace> {
  readonly name = 'mlfq'
  readonly ties: Ties
  readonly retention: Retention
  readonly #levels: Levels
  readonly #promotion_ratio: number
  readonly #preemption_levels_min: number

  constructor(config: MlfqConfig = MLFQ_DEFAULTS.modelled) {
    this.ties = config.ties
    this.retention = config.ties === 'program' ? 'rank' : 'lru'
    this.#levels = new Levels('mlfq', config)
    this.#promotion_ratio = config.promotion_ratio
    this.#preemption_levels_min = config.preemption_levels_min
  }

  arrive(_call: unknown, now_us: number): MlfqPlace {
    return { rank: 0, quantum_left_us: this.#levels.quantum_us[0] as number, ...openWindow(now_us) }
  }

  charge(place: MlfqPlace, { wall_us, charge_us }: Charge): boolean {
    addToWindow(place, wall_us, charge_us)
    place.quantum_left_us -= charge_us
    if (place.quantum_left_us > 0) return false
    place.rank += 1
    place.quantum_left_us = this.#levels.quantum_us[place.rank] as number
    return true
  }

  yieldsTo(worst: MlfqPlace, best: MlfqPlace): boolean {
    if (this.ties === 'call') return worst.rank - best.rank >= this.#preemption_levels_min
    return worst.rank - best.rank >= Math.max(1, this.#preemption_levels_min)
  }

  chargeLeftUs(place: MlfqPlace): number {
    return place.quantum_left_us
  }

  position({ rank, quantum_left_us }: MlfqPlace): string {
    const left = Number.isFinite(quantum_left_us) ? `, ${shownUs(quantum_left_us)} of service left in it` : ''
    return `${this.#levels.shown(rank)}${left}`
  }

  dueUs(place: MlfqPlace): number {
    if (place.rank === 0) return Number.POSITIVE_INFINITY
    return promotionUs(place, place.window_charge_us, 0, this.#promotion_ratio)
  }

  due(place: MlfqPlace, now_us: number): boolean {
    if (now_us < this.dueUs(place)) return false
    place.rank = 0
    place.quantum_left_us = this.#levels.quantum_us[0] as number
    resetWindow(place, now_us)
    return true
  }
}
