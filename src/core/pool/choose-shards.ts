/**
 * Which shards of a pool a call asks for an engine, and in which order.
 *
 * A call with a pin begins at its pin's shard: nobody else knows what its engine holds. Every other call, and one whose pin is
 * too slow, has the choice of two shards, drawn by the program's hash and weighted by the shards' seats (rendezvous hashing).
 * It takes the first, unless the second was seen to be emptier by SHARD_LOAD_MARGIN. The draw goes by program and not by
 * call: a short call is leased before its pin is known, and comes back to the shard that knows where its program's KV is. When
 * a shard is added or given up, only the programs that it gains or loses are drawn anew.
 *
 * Loads are what the isolate last saw, and its own leases since. An old view is none: the shard that was drawn first is asked.
 */
import { hash32 } from '../wire/hash.ts'
import { FIRST_SHARD, type ShardsView } from './pool-shards.ts'
import type { Pin, PoolSnapshot } from './pool-types.ts'

/** Shards of one pool that one call asks: its pin's, the two drawn, and the first, which tells of changes. */
export const SHARDS_ASKED_MAX = 4
/** Calls per seat by which the second shard must be emptier. */
export const SHARD_LOAD_MARGIN = 0.1
/** An older view of a shard says nothing of its load. */
export const SHARD_VIEW_MS_MAX = 5_000

export interface ShardsToAsk {
  /** The pin's shard. Null: none, or not known. */
  home: number | null
  /** Beside `home`, the best first. */
  others: readonly number[]
}

export const ONE_SHARD: ShardsToAsk = { home: null, others: [FIRST_SHARD] }

export interface ShardQuestion {
  /** What no two programs share. */
  program: string
  pin: Pin | null
  /** As last seen; null: not known. */
  loadOf: (shard: number) => number | null
}

/** `view` null: the first shard is asked, and tells whether there are more. */
export function shardsToAsk(view: ShardsView | null, { program, pin, loadOf }: ShardQuestion): ShardsToAsk {
  if (view === null || view.shards.length === 1) return ONE_SHARD
  const home = pin === null ? null : (view.agents[agentOfEngine(pin.engine)] ?? null)
  const [first, second] = drawTwo(view, program, home)
  const drawn = [first, second].filter((shard) => shard !== undefined)
  if (first !== undefined && second !== undefined && isEmptier(second, first, loadOf)) drawn.reverse()
  const told = drawn.includes(FIRST_SHARD) || home === FIRST_SHARD ? [] : [FIRST_SHARD]
  return { home, others: [...drawn, ...told] }
}

/** Calls per seat over the ready engines, as one engine's load is counted (engine-load.ts). Null: too old, or none is ready. */
export function shardLoad({ engines, taken_at_ms }: PoolSnapshot, now_ms: number): number | null {
  if (now_ms - taken_at_ms > SHARD_VIEW_MS_MAX) return null
  let calls = 0
  let seats = 0
  for (const engine of engines) {
    if (engine.state !== 'ready') continue
    calls += engine.waiting + engine.running + engine.leases_since_report
    seats += Math.max(1, engine.seats)
  }
  return seats === 0 ? null : (calls - seats) / seats
}

/** An engine's id is its agent's, `-` and a label without `-`. */
export function agentOfEngine(engine: string): string {
  return engine.slice(0, Math.max(0, engine.lastIndexOf('-')))
}

function isEmptier(second: number, first: number, loadOf: (shard: number) => number | null): boolean {
  const [mine, other] = [loadOf(first), loadOf(second)]
  return mine !== null && other !== null && other + SHARD_LOAD_MARGIN < mine
}

function drawTwo(view: ShardsView, program: string, home: number | null): number[] {
  const scored = view.shards
    .filter(({ shard }) => shard !== home)
    .map(({ shard, seats }) => ({ shard, score: waitFor(`${shard}\n${program}`, seats) }))
  return scored
    .sort((a, b) => a.score - b.score)
    .slice(0, 2)
    .map(({ shard }) => shard)
}

/** Exponentially distributed with the rate `seats`: the least of several is each one's in proportion to its seats. */
function waitFor(key: string, seats: number): number {
  return -Math.log((hash32(key) + 1) / 2 ** 32) / Math.max(1, seats)
}
