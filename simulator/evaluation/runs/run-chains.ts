/**
 * Plays what figures ask for. A chain is a list of steps, each a few specs (one per seed) that are played together. A step may
 * end its chain, as rates far beyond what a system can serve need not be played. Afterwards a chain may ask for runs that follow
 * from the outcomes, such as rates between two that were played. Chains are played side by side.
 */

import type { RunOutcome } from './run-outcome.ts'
import type { RunPool } from './run-pool.ts'
import { type RunSpec, specKey } from './run-spec.ts'
import type { RunStore } from './run-store.ts'

export interface Chain {
  steps: readonly (readonly RunSpec[])[]
  /** Given a step's outcomes: is it the last? Default: no. */
  ends?: (outcomes: readonly RunOutcome[]) => boolean
  /** After the steps: what else is to be played; asked again until it is nothing. */
  refine?: (runs: Runs) => readonly RunSpec[]
}

/** More rounds than a bisection needs are a chain that does not converge. */
const REFINEMENTS_MAX = 24

export interface Progress {
  done: number
  /** At most: chains may end early. */
  of: number
  /** Played in this process, not read from disk. */
  played: number
}

export type Verdict = { status: 'done' } | { status: 'out_of_time'; left: number }

/** A figure asks for a run that was not played. */
export class MissingRun extends Error {
  override readonly name = 'MissingRun'
}

/** Null: an unfinished evaluation has not come to what is read. */
export function ifPlayed<T>(read: () => T): T | null {
  try {
    return read()
  } catch (error) {
    if (error instanceof MissingRun) return null
    throw error
  }
}

/** What was played, by spec. */
export class Runs {
  readonly #outcomes = new Map<string, { spec: RunSpec; outcome: RunOutcome }>()

  add(spec: RunSpec, outcome: RunOutcome): void {
    this.#outcomes.set(specKey(spec), { spec, outcome })
  }

  /** Undefined: its chain ended before. */
  of(spec: RunSpec): RunOutcome | undefined {
    return this.#outcomes.get(specKey(spec))?.outcome
  }

  /** Throws MissingRun. */
  need(spec: RunSpec): RunOutcome {
    const outcome = this.of(spec)
    if (outcome === undefined) throw new MissingRun(`no run of ${spec.workload}, ${spec.system}, rate ${spec.rate}`)
    return outcome
  }

  all(): { spec: RunSpec; outcome: RunOutcome }[] {
    return [...this.#outcomes.values()]
  }
}

export interface PlayOptions {
  pool: Pick<RunPool, 'play'>
  store: Pick<RunStore, 'read' | 'write'>
  /** No run begins after that. */
  timeIsUp?: () => boolean
  onProgress?: (progress: Progress) => void
}

export async function playChains(chains: readonly Chain[], runs: Runs, options: PlayOptions): Promise<Verdict> {
  const player = new ChainPlayer(chains, runs, options)
  return player.play()
}

class ChainPlayer {
  readonly #chains: readonly Chain[]
  readonly #runs: Runs
  readonly #options: PlayOptions
  readonly #progress: Progress
  /** Runs that several chains ask for are played once. */
  readonly #under_way = new Map<string, Promise<RunOutcome | null>>()

  constructor(chains: readonly Chain[], runs: Runs, options: PlayOptions) {
    this.#chains = chains
    this.#runs = runs
    this.#options = options
    this.#progress = { done: 0, of: chains.reduce((sum, chain) => sum + size(chain.steps), 0), played: 0 }
  }

  async play(): Promise<Verdict> {
    const left = await Promise.all(this.#chains.map((chain) => this.#playChain(chain)))
    const sum = left.reduce((total, one) => total + one, 0)
    return sum === 0 ? { status: 'done' } : { status: 'out_of_time', left: sum }
  }

  /** How many runs are left. */
  async #playChain(chain: Chain): Promise<number> {
    const left = await this.#playSteps(chain)
    return left > 0 ? left : this.#refine(chain)
  }

  async #refine({ refine = () => [] }: Chain): Promise<number> {
    for (let round = 0; round < REFINEMENTS_MAX; round++) {
      const specs = refine(this.#runs)
      if (specs.length === 0) return 0
      this.#progress.of += specs.length
      const played = (await Promise.all(specs.map((spec) => this.#one(spec)))).filter((outcome) => outcome !== null)
      this.#told(played.length)
      if (played.length < specs.length) return specs.length - played.length
    }
    throw new Error(`a chain asks for more runs after ${REFINEMENTS_MAX} refinements`)
  }

  async #playSteps({ steps, ends }: Chain): Promise<number> {
    for (const [at, specs] of steps.entries()) {
      const outcomes = await Promise.all(specs.map((spec) => this.#one(spec)))
      const played = outcomes.filter((outcome) => outcome !== null)
      this.#told(played.length)
      if (played.length < specs.length) return size(steps.slice(at)) - played.length
      if (ends?.(played)) {
        this.#told(size(steps.slice(at + 1)))
        return 0
      }
    }
    return 0
  }

  #one(spec: RunSpec): Promise<RunOutcome | null> {
    const key = specKey(spec)
    const under_way = this.#under_way.get(key) ?? this.#play(spec)
    this.#under_way.set(key, under_way)
    return under_way
  }

  async #play(spec: RunSpec): Promise<RunOutcome | null> {
    const { pool, store, timeIsUp } = this.#options
    const stored = store.read(spec)
    if (stored === null && timeIsUp?.()) return null
    const outcome = stored ?? (await pool.play(spec, timeIsUp))
    if (outcome === null) return null
    if (stored === null) {
      this.#progress.played += 1
      store.write(spec, outcome)
    }
    this.#runs.add(spec, outcome)
    return outcome
  }

  #told(runs: number): void {
    this.#progress.done += runs
    this.#options.onProgress?.({ ...this.#progress })
  }
}

function size(steps: Chain['steps']): number {
  return steps.reduce((sum, step) => sum + step.length, 0)
}
