/**
 * First come, first served: the baseline of Autellix §6 and the order of stock vLLM. Calls run in order of arrival and are
 * never moved. `fcfs-program` serves programs in order of arrival: all calls of a program run before those of a later one.
 * Neither preempts for a seat.
 */
import type { Place, Policy, Retention, Ties } from '../../policy.ts'
import { Unmoved } from './unmoved.ts'

export class Fcfs extends Unmoved implements Policy {
  readonly name: 'fcfs' | 'fcfs-program'
  readonly ties: Ties
  readonly retention: Retention

  constructor(ties: Ties = 'call') {
    super()
    this.name = ties === 'call' ? 'fcfs' : 'fcfs-program'
    this.ties = ties
    this.retention = ties === 'call' ? 'lru' : 'rank'
  }

  arrive(): Place {
    return { rank: 0 }
  }

  position(): string {
    return this.ties === 'call' ? 'in order of arrival' : 'in order of its program’s first call'
  }

  /** A seat that a tenant's share took is given back in order. Otherwise the earlier call already has its seat. */
  yieldsTo(): boolean {
    return this.ties === 'call'
  }
}
