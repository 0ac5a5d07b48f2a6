/**
 * The clairvoyant orders, which no server can have: they know all work that a program still has. `srpt` runs the program with
 * the least remaining work (optimal for mean response on one seat, Schrage 1968); `wsrpt` the least remaining work × total
 * tokens, which is the order for the weighted metric, since a program's response counts by 1 ÷ its tokens. References to
 * measure others against, over the engine's own Policy.
 *
 * Work is in modelled service, as if every shared prefix were cached. What a program has left is known for a call when it
 * arrives and whenever it is charged; a call that waits while others of its program run keeps the rank that it came with.
 */
import type { Place, Policy } from '../../gpu-agent/engine/policy.ts'
import type { EngineCall } from '../../gpu-agent/engine/types.ts'
import { modelledServiceUs, type ServiceRates } from '../../src/core/service.ts'
import type { WorkloadProgram } from '../workloads/program.ts'

/** What is left of one program; its calls share it. */
interface Remaining {
  work_us: number
  /** Rank = work × weight. */
  readonly weight: number
}

interface SrptPlace extends Place {
  readonly remaining: Remaining
}

/** Work of a whole program. */
function programWorkUs(program: WorkloadProgram, rates: ServiceRates): number {
  let work_us = 0
  for (const { prompt_tokens, shared_prefix_tokens, output_tokens } of program.calls) {
    const uncached_prompt_tokens = prompt_tokens - shared_prefix_tokens
    work_us += modelledServiceUs({ uncached_prompt_tokens, cached_prompt_tokens: 0, output_tokens }, rates)
  }
  return work_us
}

export function programTokens(program: WorkloadProgram): number {
  return program.calls.reduce((sum, { output_tokens }) => sum + output_tokens, 0)
}

/** Over all engines of a simulation, since a program's calls may be on several. */
export class Clairvoyance {
  readonly #remaining = new Map<string, Remaining>()

  begin(name: string, program: WorkloadProgram, weighted: boolean, rates: ServiceRates): void {
    const weight = weighted ? programTokens(program) : 1
    this.#remaining.set(name, { work_us: programWorkUs(program, rates), weight })
  }

  end(name: string): void {
    this.#remaining.delete(name)
  }

  of(name: string): Remaining {
    const remaining = this.#remaining.get(name)
    if (remaining === undefined) throw new Error(`nothing is known of program ${name}`)
    return remaining
  }
}

export class Srpt implements Policy<SrptPlace> {
  readonly name: string
  readonly #clairvoyance: Clairvoyance

  constructor(name: 'srpt' | 'wsrpt', clairvoyance: Clairvoyance) {
    this.name = name
    this.#clairvoyance = clairvoyance
  }

  arrive(call: EngineCall): SrptPlace {
    const remaining = this.#clairvoyance.of(call.program)
    return { rank: remaining.work_us * remaining.weight, remaining }
  }

  charge(place: SrptPlace, _wall_us: number, charge_us: number): boolean {
    place.remaining.work_us = Math.max(0, place.remaining.work_us - charge_us)
    place.rank = place.remaining.work_us * place.remaining.weight
    return true
  }

  dueUs(): number {
    return Number.POSITIVE_INFINITY
  }

  due(): boolean {
    return false
  }
}
