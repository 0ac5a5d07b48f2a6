/**
 * Calls whose clients have their whole answers, until their programs' next calls tell the ProgramActors of it. A record says the
 * same and comes some milliseconds after the answer, which may be after the next call: that one would then count as a call
 * beside it, on a thread of its own.
 *
 * Nothing depends on it being told. Another isolate may get the next call, and the record closes the call in any case.
 */
import type { CallEnded } from '../core/program/program-state.ts'

/** By the next call after it the record has come. */
export const ENDED_KEPT_MS = 10_000
/** Programs that an isolate remembers. Past it the one heard of longest ago is forgotten. */
export const ENDED_PROGRAMS_MAX = 4096
/** Of one program. Past it the oldest is forgotten. */
export const ENDED_CALLS_MAX = 16

export class EndedCalls {
  readonly #programs = new Map<string, CallEnded[]>()

  remember(tenant: string, program: string, ended: CallEnded): void {
    const key = keyOf(tenant, program)
    const calls = [...(this.#programs.get(key) ?? []), ended].slice(-ENDED_CALLS_MAX)
    this.#programs.delete(key)
    if (this.#programs.size >= ENDED_PROGRAMS_MAX) {
      const oldest = this.#programs.keys().next()
      if (!oldest.done) this.#programs.delete(oldest.value)
    }
    this.#programs.set(key, calls)
  }

  /** What the program's actor may not know. */
  of(tenant: string, program: string, now_ms: number): CallEnded[] {
    const calls = this.#programs.get(keyOf(tenant, program)) ?? []
    return calls.filter((one) => now_ms - one.now_ms < ENDED_KEPT_MS)
  }

  /** The actor knows of these. */
  told(tenant: string, program: string, ended: readonly CallEnded[]): void {
    const key = keyOf(tenant, program)
    const left = this.#programs.get(key)?.filter((one) => !ended.includes(one)) ?? []
    if (left.length === 0) this.#programs.delete(key)
    else this.#programs.set(key, left)
  }

  get size(): number {
    return this.#programs.size
  }
}

function keyOf(tenant: string, program: string): string {
  return JSON.stringify([tenant, program])
}
