/**
 * The clairvoyant orders, which a server cannot have. They know all work that a program still has. `srpt` runs the program with
 * the least remaining work (optimal for mean response on one seat, Schrage 1968); `wsrpt` the least remaining work × total
 * tokens, which is the order for the weighted metric, since a program's response counts by 1 ÷ its tokens. References to
 * measure others against, over the engine's own Policy.
 *
 * Work is in modelled service, as if every shared prefix were cached, and before a provider what a call takes of its scarcest limit. What a program has left is known for a call when it
 * arrives and whenever it is charged; a call that waits while others of its program run keeps the rank that it came with.
 */
import {
  type Charge,
  type Place,
  type Policy,
  type PolicyCall,
  yieldsToBetterRank,
} from '../../gpu-agent/engine/order/policy.ts'
import { modelledServiceUs, type ServiceRates } from '../../src/core/call/service.ts'
import type { WorkloadCall, WorkloadProgram } from '../workloads/program.ts'

/** What is left of one program; its calls share it. */
interface Remaining {
  /** The sum of `calls_us`. */
  work_us: number
  /** By call. A call that ends has none left, even if it was charged less or more: caches may have missed. */
  readonly calls_us: Float64Array
  /** Rank = work × weight. */
  readonly weight: number
}

interface SrptPlace extends Place {
  readonly remaining: Remaining
  readonly call: number
}

export function programTokens(program: WorkloadProgram): number {
  return program.calls.reduce((sum, { output_tokens }) => sum + output_tokens, 0)
}

/** The work of a call on an engine, as if every shared prefix were cached. */
export function engineWorkUs(rates: ServiceRates): (call: WorkloadCall) => number {
  return ({ prompt_tokens, shared_prefix_tokens, output_tokens }) => {
    const uncached_prompt_tokens = prompt_tokens - shared_prefix_tokens
    return modelledServiceUs({ uncached_prompt_tokens, cached_prompt_tokens: 0, output_tokens }, rates)
  }
}

/** Over all engines of a simulation, since a program's calls may be on several. Leases are `program/call`. */
export class Clairvoyance {
  readonly #remaining = new Map<string, Remaining>()

  /** `costUs`: the work of a call. */
  begin(name: string, program: WorkloadProgram, weighted: boolean, costUs: (call: WorkloadCall) => number): void {
    const calls_us = Float64Array.from(program.calls, costUs)
    const work_us = calls_us.reduce((sum, call_us) => sum + call_us, 0)
    this.#remaining.set(name, { work_us, calls_us, weight: weighted ? programTokens(program) : 1 })
  }

  end(name: string): void {
    this.#remaining.delete(name)
  }

  callEnded(lease: string): void {
    const { remaining, call } = this.of(lease)
    take(remaining, call, Number.POSITIVE_INFINITY)
  }

  of(lease: string): { remaining: Remaining; call: number } {
    const at = lease.lastIndexOf('/')
    const remaining = this.#remaining.get(lease.slice(0, at))
    if (remaining === undefined) throw new Error(`nothing is known of the program of ${lease}`)
    return { remaining, call: Number(lease.slice(at + 1)) }
  }
}

function take(remaining: Remaining, call: number, us: number): void {
  const left_us = remaining.calls_us[call] as number
  const taken_us = Math.min(left_us, us)
  remaining.calls_us[call] = left_us - taken_us
  remaining.work_us -= taken_us
}

export class Srpt implements Policy<SrptPlace> {
  readonly name: string
  readonly ties = 'program'
  readonly retention = 'rank'
  readonly yieldsTo = yieldsToBetterRank
  readonly #clairvoyance: Clairvoyance

  constructor(name: 'srpt' | 'wsrpt', clairvoyance: Clairvoyance) {
    this.name = name
    this.#clairvoyance = clairvoyance
  }

  arrive({ call: { lease } }: PolicyCall): SrptPlace {
    const { remaining, call } = this.#clairvoyance.of(lease)
    return { rank: remaining.work_us * remaining.weight, remaining, call }
  }

  charge(place: SrptPlace, { charge_us }: Charge): boolean {
    const { remaining, call } = place
    take(remaining, call, charge_us)
    place.rank = remaining.work_us * remaining.weight
    return true
  }

  dueUs(): number {
    return Number.POSITIVE_INFINITY
  }

  due(): boolean {
    return false
  }
}
