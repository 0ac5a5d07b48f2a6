/**
 * Which GPUs the replicas of a stage use. A replica on tp GPUs takes a block of tp that begins at a multiple of tp within one host, so tp 2 gets a pair
 * that NVLink connects (§4.3: GPUs 0-1, 2-3, …) and tp 4 two whole pairs. What runs on stays where it is. Where free GPUs lie in the wrong places,
 * replicas move that cost the least time to load again.
 */
import { type Plan, type Stage, samePlan } from './plan.ts'

export interface Host {
  gpus: number
}

export interface Placed {
  readonly plan: Plan
  /** First GPU of each replica. */
  readonly first_gpus: readonly number[]
}

export type Placement = ReadonlyMap<number, Placed>

export const NOTHING_PLACED: Placement = new Map()

export interface PlacedStage {
  placement: Placement
  /** Nodes that were running with their plan and had to move. */
  moved: ReadonlySet<number>
}

const FREE = -1

/** `loadingS`: of a node that has to move. Null: the stage does not fit the hosts. */
export function placeStage(
  hosts: readonly Host[],
  before: Placement,
  stage: Stage,
  loadingS: (node: number) => number,
): PlacedStage | null {
  const board = new Board(hosts)
  const placed = new Map<number, Placed>()
  const waiting: (readonly [node: number, plan: Plan])[] = []
  for (const [node, plan] of stage) {
    const old = before.get(node)
    if (old === undefined || !samePlan(old.plan, plan)) waiting.push([node, plan])
    else {
      for (const first of old.first_gpus) board.take(first, plan.tp, node)
      placed.set(node, old)
    }
  }
  const moved = new Set<number>()
  while (waiting.length > 0) {
    // The largest first: they have the fewest places.
    waiting.sort(([a, plan_a], [b, plan_b]) => plan_b.tp - plan_a.tp || a - b)
    const [node, plan] = waiting.shift() as [number, Plan]
    const first_gpus: number[] = []
    for (let replica = 0; replica < plan.dp; replica += 1) {
      const first = board.bestFree(plan.tp) ?? board.cheapest(plan.tp, placed, loadingS)
      if (first === null) return null
      for (const other of board.nodesIn(first, plan.tp)) {
        board.remove(other)
        waiting.push([other, placed.get(other)?.plan as Plan])
        placed.delete(other)
        moved.add(other)
      }
      board.take(first, plan.tp, node)
      first_gpus.push(first)
    }
    placed.set(node, { plan, first_gpus })
  }
  return { placement: placed, moved }
}

export function gpusOfReplica(first_gpu: number, tp: number): number[] {
  return Array.from({ length: tp }, (_, at) => first_gpu + at)
}

class Board {
  readonly #owners: number[] = []
  /** First and last GPU + 1 of each host. */
  readonly #hosts: readonly (readonly [number, number])[]

  constructor(hosts: readonly Host[]) {
    let first = 0
    this.#hosts = hosts.map(({ gpus }) => {
      first += gpus
      return [first - gpus, first]
    })
    this.#owners = new Array<number>(first).fill(FREE)
  }

  take(first: number, tp: number, node: number): void {
    this.#owners.fill(node, first, first + tp)
  }

  remove(node: number): void {
    for (let gpu = 0; gpu < this.#owners.length; gpu += 1) if (this.#owners[gpu] === node) this.#owners[gpu] = FREE
  }

  nodesIn(first: number, tp: number): Set<number> {
    return new Set(this.#owners.slice(first, first + tp).filter((owner) => owner !== FREE))
  }

  /** A free block, in the smallest free block around it, so that large ones stay whole. */
  bestFree(tp: number): number | null {
    let best: number | null = null
    let best_size = Number.POSITIVE_INFINITY
    for (const first of this.#blocks(tp)) {
      if (!this.#isFree(first, tp)) continue
      const size = this.#freeAround(first, tp)
      if (size >= best_size) continue
      best = first
      best_size = size
    }
    return best
  }

  /** The block whose nodes, all of smaller tp and so placed again elsewhere, load in the least time together. */
  cheapest(tp: number, placed: Placement, loadingS: (node: number) => number): number | null {
    let best: number | null = null
    let best_s = Number.POSITIVE_INFINITY
    for (const first of this.#blocks(tp)) {
      let cost_s = 0
      for (const node of this.nodesIn(first, tp)) {
        const owner = placed.get(node)
        cost_s += owner === undefined || owner.plan.tp >= tp ? Number.POSITIVE_INFINITY : loadingS(node)
      }
      if (cost_s >= best_s) continue
      best = first
      best_s = cost_s
    }
    return best
  }

  *#blocks(tp: number): Generator<number> {
    for (const [from, to] of this.#hosts) for (let first = from; first + tp <= to; first += tp) yield first
  }

  #isFree(first: number, tp: number): boolean {
    for (let gpu = first; gpu < first + tp; gpu += 1) if (this.#owners[gpu] !== FREE) return false
    return true
  }

  #freeAround(first: number, tp: number): number {
    const [from, to] = this.#hosts.find(([start, end]) => first >= start && first < end) as [number, number]
    let size = tp
    for (;;) {
      const around = from + Math.floor((first - from) / (size * 2)) * size * 2
      if (around + size * 2 > to || !this.#isFree(around, size * 2)) return size
      size *= 2
    }
  }
}
