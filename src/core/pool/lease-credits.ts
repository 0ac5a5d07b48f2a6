/**
 * Leases that a pool lets an isolate of the Worker grant itself. A program whose context is on an engine with free seats stays
 * there, since no other engine costs it less. So an answer also has credits: how many more calls the isolate may send to that
 * engine in the next second. Those calls make no request of the pool, which is told of them afterwards.
 *
 * A credit is no lease and is not counted as load. Isolates know nothing of each other's credits, so each gets a small share of
 * the seats. If they take more than are free, calls wait at the engine, in its scheduler's order.
 */
import { putLast } from '../put-last.ts'
import { withoutOffline } from './engine-load.ts'
import type { EngineSnapshot, Pin } from './pool-types.ts'

/** How long a credit is good for. What an agent reports changes the pool's view four times in that time. */
export const CREDITS_MS = 1_000
/** Of an engine's free seats. */
const CREDITS_SHARE = 0.25
/** Of one reply. */
const CREDITS_MAX = 64
/** Leases of one message to the pool. */
export const LEASES_BY_CREDIT_MAX = 256
/** Engines of which an isolate holds credits, and programs whose engine it remembers. Past it what was heard of longest ago is forgotten. */
export const CREDITED_ENGINES_MAX = 4_096
export const CREDITED_PROGRAMS_MAX = 10_000
/** Of a program: a record is some tens of milliseconds late, so a quick program has more than one lease open. */
const HOME_LEASES_MAX = 8

/** How many more calls an isolate may send to the engine. One that waits for its provider's limits is never free. */
export function creditsOn(engine: Readonly<EngineSnapshot>): number {
  if (engine.state !== 'ready' || (engine.limit_wait_us ?? 0) > 0) return 0
  const { seats, waiting, running, leases_since_report } = withoutOffline(engine)
  const free = seats - waiting - running - leases_since_report
  return Math.max(0, Math.min(CREDITS_MAX, Math.floor(free * CREDITS_SHARE)))
}

interface Credited<F> {
  epoch: string
  facts: F
  left: number
  until_ms: number
}

interface Home {
  engine: string
  leases: readonly string[]
}

/** What an isolate holds. `F`: what it must know of an engine to send it a call. */
export class LeaseCredits<F> {
  readonly #engines = new Map<string, Credited<F>>()
  /** By program and model: the engine that served the last call, and the latest leases there. */
  readonly #homes = new Map<string, Home>()

  /** A reply of the pool. It takes the place of what earlier ones gave. */
  granted(at: Pin, facts: F, credits: number, now_ms: number): void {
    const { epoch } = at
    const held = { epoch, facts, left: credits, until_ms: now_ms + CREDITS_MS }
    putLast(this.#engines, nameOf(at), held, CREDITED_ENGINES_MAX)
  }

  /** The pool's answer to what it was told. An engine that began anew, or was forgotten here, gets none. */
  renewed(at: Pin, credits: number, now_ms: number): void {
    const held = this.#engines.get(nameOf(at))
    if (held?.epoch === at.epoch) this.granted(at, held.facts, credits, now_ms)
  }

  /** The program is pinned to the engine, where this is its latest lease. */
  stays(program: string, at: Pin, lease: string): void {
    const engine = nameOf(at)
    const known = this.#homes.get(program)
    const before = known?.engine === engine ? known.leases.slice(1 - HOME_LEASES_MAX) : []
    putLast(this.#homes, program, { engine, leases: [...before, lease] }, CREDITED_PROGRAMS_MAX)
  }

  /** Whether all of these leases are known to be on the engine. */
  areThere(program: string, at: Pin, leases: readonly string[]): boolean {
    if (leases.length === 0) return true
    const known = this.#homes.get(program)
    return known?.engine === nameOf(at) && leases.every((lease) => known.leases.includes(lease))
  }

  /** Whether a call of the program can probably do without a request, if its pin is what this isolate remembers. */
  mayTake(program: string, now_ms: number): boolean {
    const home = this.#homes.get(program)
    return home !== undefined && this.#good(home.engine, now_ms) !== null
  }

  /** What is known of the engine, also without a credit. */
  look(at: Omit<Pin, 'epoch'>): F | null {
    return this.#engines.get(nameOf(at))?.facts ?? null
  }

  forget(at: Omit<Pin, 'epoch'>): void {
    this.#engines.delete(nameOf(at))
  }

  /** Uses up a credit for the engine. Null: there is none. */
  take(pin: Pin, now_ms: number): F | null {
    const held = this.#good(nameOf(pin), now_ms)
    if (held === null || held.epoch !== pin.epoch) return null
    held.left -= 1
    return held.facts
  }

  #good(engine: string, now_ms: number): Credited<F> | null {
    const held = this.#engines.get(engine)
    // A clock that was set back must not make them last.
    const is_good = held !== undefined && now_ms < held.until_ms && held.until_ms - now_ms <= CREDITS_MS
    return is_good && held.left > 0 ? held : null
  }
}

function nameOf({ region, model, engine }: Omit<Pin, 'epoch'>): string {
  return JSON.stringify([region, model, engine])
}
