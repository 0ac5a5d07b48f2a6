/**
 * What agents may send over their links. A runtime hands a pool every frame that arrives, as fast as it arrives and without
 * waiting for the one before. So an agent that sends without limit would take the whole pool's time.
 *
 * Each agent has one bucket of units for all of its links to a pool. A frame costs a unit per UNIT_BYTES. A hello and the
 * opening of a link cost more, since a hello is stored. An honest agent sends a status every STATUS_INTERVAL_MIN_MS at most,
 * so it stays below the rate. The bucket holds a minute of that, because frames queue while the control plane does not run.
 *
 * An agent that exceeds it is barred: it opens no link for a while, and for twice as long each time it does so again.
 * Agents of a pool are enrolled, but not bounded in number, so the agent that was heard of longest ago is forgotten first.
 */
import { STATUS_INTERVAL_MIN_MS } from '../../protocol/link.ts'

const STATUSES_PER_S_MAX = 1000 / STATUS_INTERVAL_MIN_MS
/** Above the rate of statuses: hellos and timers that fire early. */
export const LINK_UNITS_PER_S = 1.25 * STATUSES_PER_S_MAX
export const LINK_UNITS_MAX = 60 * STATUSES_PER_S_MAX
export const UNIT_BYTES = 64 * 1024
/** A hello is stored if it says anything else than the last one. */
export const HELLO_UNITS = 10
/** Opening a link costs requests to the Worker and to its pool. */
export const OPENING_UNITS = 5
export const BAR_FIRST_MS = 30_000
export const BAR_MAX_MS = 10 * 60_000
/** An agent that was not barred for so long starts again with BAR_FIRST_MS. */
export const BAR_FORGOTTEN_MS = 60 * 60_000
export const AGENTS_REMEMBERED_MAX = 1024

interface Bucket {
  units: number
  at_ms: number
}

export interface Bar {
  until_ms: number
  /** How long it was for. */
  bar_ms: number
}

export class LinkBudgets {
  readonly #buckets = new Map<string, Bucket>()
  readonly #bars: Map<string, Bar>

  /** `bars` as `stored` gave them. */
  constructor(bars: Iterable<readonly [string, Bar]> = []) {
    this.#bars = new Map(bars)
  }

  /** False: the agent has exceeded its budget. */
  take(agent: string, units: number, now_ms: number): boolean {
    const before = this.#buckets.get(agent)
    // A clock that was set back gives nothing and takes nothing.
    const elapsed_s = before === undefined ? 0 : Math.max(0, now_ms - before.at_ms) / 1000
    const had = before === undefined ? LINK_UNITS_MAX : before.units
    const units_left = Math.min(LINK_UNITS_MAX, had + elapsed_s * LINK_UNITS_PER_S) - units
    const granted = units_left >= 0
    remember(this.#buckets, agent, { units: Math.max(0, units_left), at_ms: now_ms })
    return granted
  }

  /** Returns how long the agent opens no link, in ms. A repeat within a bar changes nothing. */
  bar(agent: string, now_ms: number): number {
    const left_ms = this.barredMs(agent, now_ms)
    if (left_ms > 0) return left_ms
    const before = this.#bars.get(agent)
    const again = before !== undefined && now_ms - before.until_ms < BAR_FORGOTTEN_MS
    const bar_ms = again ? Math.min(BAR_MAX_MS, 2 * before.bar_ms) : BAR_FIRST_MS
    remember(this.#bars, agent, { until_ms: now_ms + bar_ms, bar_ms })
    return bar_ms
  }

  /** How long the agent still opens no link. 0: it may. */
  barredMs(agent: string, now_ms: number): number {
    const bar = this.#bars.get(agent)
    if (bar === undefined) return 0
    // After a clock was set back, a bar lasts no longer than it was meant to.
    return Math.min(bar.bar_ms, Math.max(0, bar.until_ms - now_ms))
  }

  /** Bars that must survive a restart. */
  stored(): [string, Bar][] {
    return [...this.#bars]
  }
}

export function frameUnits(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / UNIT_BYTES))
}

/** Sets the value as the newest. */
function remember<V>(map: Map<string, V>, agent: string, value: V): void {
  map.delete(agent)
  map.set(agent, value)
  for (const oldest of map.keys()) {
    if (map.size <= AGENTS_REMEMBERED_MAX) return
    map.delete(oldest)
  }
}
