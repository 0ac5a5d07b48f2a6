/**
 * One engine as the daemon sees it: its front, whether it may take calls, and the leases that have reached it since the
 * last status. A lease counts as seen in the same turn in which its call enters the front's queue, so a status never
 * shows a call both in `waiting` and as still on its way. Offline calls are counted too: where the engine takes their seats for online ones, they are
 * no load for those.
 */
import {
  type EngineDescription,
  type EngineStatus,
  LEASES_SEEN_MAX,
  type LeaseCharge,
} from '../../src/protocol/index.ts'
import { ArrivalLog } from '../engine/replay/arrival-log.ts'
import type { EngineFront } from './fronts/engine-front.ts'

/** Over all engines of one status: 64 engines with full lists would not fit a frame. */
export const LEASES_SEEN_PER_STATUS_MAX = 2048

export class ServedEngine {
  readonly front: EngineFront
  readonly id: string
  /** What came here last, for a replay. */
  readonly arrivals = new ArrivalLog()
  #draining: Promise<void> | null = null
  /** The operator wants no further calls here, until further notice. */
  #held = false
  #leases_seen: string[] = []
  /** As the last status had it. */
  #told_state: EngineStatus['state'] | null = null
  /** Sequences of open offline calls. */
  #offline = 0

  constructor(id: string, front: EngineFront) {
    const description = front.describe()
    if (description.id !== id) throw new Error(`the front of engine ${id} describes itself as ${description.id}`)
    this.id = id
    this.front = front
  }

  get description(): EngineDescription {
    return this.front.describe()
  }

  get epoch(): string {
    return this.front.describe().epoch
  }

  get state(): EngineStatus['state'] {
    const { state } = this.front.status()
    return (this.#held || this.#draining !== null) && state === 'ready' ? 'draining' : state
  }

  /** The pool must learn at once that the engine takes calls, or none any more. */
  get hasNewState(): boolean {
    return this.state !== this.#told_state
  }

  /** For metrics. */
  get load(): Pick<EngineStatus, 'waiting' | 'running' | 'queued_tokens' | 'kv_used_tokens'> & {
    kv_capacity_tokens: number
    seats: number
  } {
    const { waiting, running, queued_tokens, kv_used_tokens } = this.front.status()
    const { kv_capacity_tokens, seats } = this.description
    const load = { waiting, running, queued_tokens, kv_used_tokens }
    return { ...load, kv_capacity_tokens, seats: this.front.seats ?? seats }
  }

  /**
   * A call goes to the front. `offline_sequences`: that an engine counts for it (prompts × choices); 0 of an online call. The pool adds what it does not hear of to this engine's load, and forgets it by itself: the oldest leases may be
   * dropped.
   */
  callBegan(lease: string, offline_sequences: number): void {
    this.#leases_seen.push(lease)
    if (this.#leases_seen.length > LEASES_SEEN_MAX) this.#leases_seen.shift()
    this.#offline += offline_sequences
  }

  /** Once for each call that began. */
  callEnded(offline_sequences: number): void {
    this.#offline -= offline_sequences
  }

  /** Takes at most `leases_max` of the seen leases out; the rest goes with the next status. */
  takeStatus(leases_max: number, charges?: LeaseCharge[]): EngineStatus {
    const leases_seen = this.#leases_seen.splice(0, leases_max)
    const { state } = this
    this.#told_state = state
    return {
      ...{ ...this.front.status(), state, leases_seen },
      ...(this.#offline > 0 && this.front.preempts_offline === true ? { offline: this.#offline } : {}),
      ...(charges === undefined ? {} : { charges }),
    }
  }

  /** Takes no further calls while held; those under way go on. */
  hold(held: boolean): void {
    this.#held = held
  }

  /** For good: the daemon ends. */
  drain(): Promise<void> {
    this.#draining ??= this.front.drain()
    return this.#draining
  }
}

/** The statuses of `engines`, with no more seen leases in all than fit a frame. `charges`: by engine; null: not this time. */
export function takeStatuses(
  engines: readonly ServedEngine[],
  charges: ReadonlyMap<string, LeaseCharge[]> | null = null,
): EngineStatus[] {
  let left = LEASES_SEEN_PER_STATUS_MAX
  return engines.map((engine) => {
    const status = engine.takeStatus(left, charges?.get(engine.id))
    left -= status.leases_seen.length
    return status
  })
}
