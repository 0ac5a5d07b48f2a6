/**
 * Answers what a program's calls would have waited under first come, first served. A replay takes the time of the process that
 * also streams answers, so they take a share of it at most: after one, the next waits for a multiple of what it took.
 */
import type { Replay, ReplayQuestion } from '../../../src/protocol/index.ts'
import { replayFcfs } from '../../engine/replay/fcfs-replay.ts'
import { engineProgram } from '../fronts/local/engine-call.ts'
import type { ServedEngine } from '../served-engine.ts'
import type { OpenLeaseSums } from './charge-reports.ts'

/** Replays take one part in so many of the time. */
export const REPLAY_SHARE = 20

export interface ReplaysOptions {
  engine: (id: string) => Pick<ServedEngine, 'arrivals' | 'front' | 'description'> | undefined
  /** Every open lease with what it has been charged. */
  open: () => Iterable<Pick<OpenLeaseSums, 'lease' | 'wall_us'>>
  monotonic_us: () => number
}

export class Replays {
  readonly #options: ReplaysOptions
  #next_us = Number.NEGATIVE_INFINITY

  constructor(options: ReplaysOptions) {
    this.#options = options
  }

  answer({ engine: id, tenant, program, run }: Omit<ReplayQuestion, 'type' | 'id'>): Replay {
    const { monotonic_us, open } = this.#options
    const engine = this.#options.engine(id)
    if (engine === undefined) return { status: 'unknown', reason: 'gone' }
    const { front, description, arrivals } = engine
    if (front.status().limit_wait_us !== undefined) return { status: 'unknown', reason: 'limits' }
    const begun_us = monotonic_us()
    if (begun_us < this.#next_us) return { status: 'unknown', reason: 'busy' }
    const served = new Map(Array.from(open(), ({ lease, wall_us }) => [lease, wall_us]))
    const { kv_capacity_tokens } = description
    const size = { seats: front.seats ?? description.seats, kv_capacity_tokens }
    const replay = replayFcfs(
      arrivals,
      size,
      engineProgram({ tenant, program, run }),
      (lease) => served.get(lease) ?? 0,
    )
    const ended_us = monotonic_us()
    this.#next_us = ended_us + REPLAY_SHARE * (ended_us - begun_us)
    return replay
  }
}
