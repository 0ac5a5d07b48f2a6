/**
 * Round robin (a baseline of Autellix §6): a call that has spent its quantum gives way to the others.
 *
 * `ties: 'call'` is the paper's form: one queue over calls, and a call whose quantum is spent goes to its tail. Nothing is
 * inherited from programs. Nothing starves: between two turns of a call every other open call has at most one. `ties:
 * 'program'` gives turns to programs: a program's rank is the number of quanta that it has spent.
 */
import type { ServiceReading } from '../../../../../src/core/call/service.ts'
import type { Charge, Place, Policy, PolicyCall, Retention, Ties } from '../../policy.ts'
import { shownUs } from '../shown-us.ts'

export interface RrConfig {
  /** In the pool's ordering reading. */
  quantum_us: number
  ties: Ties
}

/** A fifth of plas's first quantum. With turns as long as a chat's call, round robin would be first come, first served. */
export const RR_DEFAULTS: Readonly<Record<ServiceReading, RrConfig>> = {
  modelled: { quantum_us: 5_000, ties: 'call' },
  wall: { quantum_us: 200_000, ties: 'call' },
}

export interface RrPlace extends Place {
  readonly of: PolicyCall
  quantum_left_us: number
}

export class Rr implements Policy<RrPlace> {
  readonly name = 'rr'
  readonly ties: Ties
  readonly retention: Retention
  readonly #quantum_us: number

  constructor({ quantum_us, ties }: RrConfig = RR_DEFAULTS.modelled) {
    if (!(quantum_us > 0)) throw new RangeError('rr: quantum_us must be positive')
    this.#quantum_us = quantum_us
    this.ties = ties
    this.retention = ties === 'program' ? 'rank' : 'lru'
  }

  arrive(call: PolicyCall): RrPlace {
    return { rank: this.#turnsOf(call), of: call, quantum_left_us: this.#quantum_us }
  }

  charge(place: RrPlace, { charge_us }: Charge): boolean {
    if (this.ties === 'program') return this.refresh(place)
    place.quantum_left_us -= charge_us
    if (place.quantum_left_us > 0) return false
    place.quantum_left_us = this.#quantum_us
    return true
  }

  refresh(place: RrPlace): boolean {
    const rank = this.#turnsOf(place.of)
    if (rank === place.rank) return false
    place.rank = rank
    return true
  }

  /**
   * By call, a turn ends at the quantum and the next call in the queue takes the seat. By program, only a lower count takes
   * it.
   */
  yieldsTo(worst: RrPlace, best: RrPlace): boolean {
    return this.ties === 'call' || best.rank < worst.rank
  }

  chargeLeftUs(place: RrPlace): number {
    if (this.ties === 'call') return place.quantum_left_us
    const { service_us, open_calls } = place.of.program
    return ((place.rank + 1) * this.#quantum_us - service_us) / Math.max(1, open_calls)
  }

  position({ rank, quantum_left_us }: RrPlace): string {
    const quantum = shownUs(this.#quantum_us)
    if (this.ties === 'call') return `in turn, ${shownUs(quantum_left_us)} left of its turn of ${quantum}`
    return `turn ${rank + 1} of its program, of ${quantum} each`
  }

  dueUs(): number {
    return Number.POSITIVE_INFINITY
  }

  due(): boolean {
    return false
  }

  #turnsOf({ program }: PolicyCall): number {
    return this.ties === 'call' ? 0 : Math.floor(program.service_us / this.#quantum_us)
  }
}
