/**
 * Where a program runs and where its KV cache lives: the engines that served it, most recent first, and one pin per model.
 * Both lists are bounded. The entry unused longest goes first.
 */

import type { Pin } from '../pool/pool-types.ts'
import { putLast } from '../put-last.ts'
import { ENGINES_LISTED_MAX, PINS_PER_PROGRAM_MAX, type ProgramSummary } from './program-state.ts'

type EngineUsed = ProgramSummary['engines'][number]

export class ProgramPlacement {
  /** In order of use, the latest last. */
  #engines = new Map<string, EngineUsed>()
  #pins = new Map<string, Pin>()

  used({ engine, region, model, epoch }: EngineUsed): void {
    putLast(this.#engines, JSON.stringify([engine, epoch]), { engine, region, model, epoch }, ENGINES_LISTED_MAX)
  }

  /** In order of use, the latest last: what `used` was told. */
  enginesByUse(): EngineUsed[] {
    return [...this.#engines.values()].map((engine) => ({ ...engine }))
  }

  /** True if the pin of that model changed. */
  pin({ region, model, engine, epoch }: Pin): boolean {
    const before = this.#pins.get(model)
    putLast(this.#pins, model, { region, model, engine, epoch }, PINS_PER_PROGRAM_MAX)
    return before?.engine !== engine || before.epoch !== epoch || before.region !== region
  }

  pinOf(model: string): Pin | null {
    const pin = this.#pins.get(model)
    return pin === undefined ? null : { ...pin }
  }

  pins(): Pin[] {
    return [...this.#pins.values()].map((pin) => ({ ...pin }))
  }

  /** Most recent first. */
  engines(): EngineUsed[] {
    return this.enginesByUse().reverse()
  }
}
