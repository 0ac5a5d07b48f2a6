/**
 * What becomes of a node with a plan from the begin of a stage on, if nothing stops it. Played when it is asked for.
 *
 * Replicas that got their requests in turn are alike. A sketch (sketch.ts) is enough to compare plans and costs a fraction. The stages of a plan that is
 * returned are always played in full.
 */
import { cloneReplicas, type NodeRequests, type Replicas } from './node-requests.ts'
import type { ReplicaRun } from './replica-run.ts'
import { Sketch, type SketchInput } from './sketch.ts'

/** Makes replicas as they are at the begin of the stage: all, or one of them. */
export interface Beginning {
  all: () => Replicas
  /** What is enough for a sketch. Null: they are not alike. */
  sketch: (() => SketchInput) | null
}

export class NodeForecast {
  readonly #beginning: Beginning
  #played: Replicas | null = null
  #sketch: Sketch | null = null
  /** The times of what was played are later by this, and its work counts from there on. */
  #later_s = 0
  #work_before = 0
  #busy_before_s = 0
  #finish_s: Float64Array | null = null

  constructor(beginning: Beginning) {
    this.#beginning = beginning
  }

  /** The same node, from `at_s` on; the times of `from` are later by `later_s`. Nothing is played again. */
  static goingOn(from: NodeForecast, later_s: number, at_s: number, beginning: Beginning): NodeForecast {
    const forecast = new NodeForecast(beginning)
    forecast.#played = from.played()
    forecast.#later_s = from.#later_s + later_s
    forecast.#work_before = forecast.#workSince(at_s)
    forecast.#busy_before_s = forecast.busyBy(at_s)
    return forecast
  }

  begin(): Replicas {
    return this.#beginning.all()
  }

  played(): Replicas {
    if (this.#played !== null) return this.#played
    const replicas = this.#beginning.all()
    for (const run of replicas.runs) run.run()
    this.#played = replicas
    return replicas
  }

  /** When its last request ends; Infinity: some never do. */
  endS(exact: boolean): number {
    const sketch = exact ? null : this.#sketched()
    if (sketch !== null) return sketch.end_s
    const { runs } = this.played()
    return this.#later_s + Math.max(...runs.map((run) => (run.done ? run.now_s : Number.POSITIVE_INFINITY)))
  }

  workBy(at_s: number, exact: boolean): number {
    const sketch = exact ? null : this.#sketched()
    if (sketch !== null) return sketch.workBy(at_s)
    this.played()
    return this.#workSince(at_s)
  }

  /** Seconds in which the replicas computed, added up. */
  busyBy(at_s: number): number {
    const { runs } = this.played()
    return runs.reduce((sum, run) => sum + run.work.busyBy(at_s - this.#later_s), 0) - this.#busy_before_s
  }

  /** By the node's requests; Infinity: not among those of the replicas. */
  finishS(requests: number): Float64Array {
    if (this.#finish_s !== null) return this.#finish_s
    const finish_s = new Float64Array(requests).fill(Number.POSITIVE_INFINITY)
    const { runs, members } = this.played()
    for (const [at, run] of runs.entries())
      for (const [place, request] of (members[at] as Int32Array).entries())
        finish_s[request] = this.#later_s + (run.finish_s[place] as number)
    this.#finish_s = finish_s
    return finish_s
  }

  /** By which what `played` says is to be shifted. */
  get later_s(): number {
    return this.#later_s
  }

  #workSince(at_s: number): number {
    const runs = this.#played?.runs ?? []
    return runs.reduce((sum, run) => sum + run.work.flopsBy(at_s - this.#later_s), 0) - this.#work_before
  }

  /** Null: it was played in full, or has to be. */
  #sketched(): Sketch | null {
    if (this.#played !== null) return null
    const { sketch } = this.#beginning
    if (sketch === null) return null
    this.#sketch ??= new Sketch(sketch())
    return this.#sketch
  }
}

/** The replica with the most tokens to generate, and how many times its tokens all have together. */
export function heaviestOf(
  { left_tokens }: NodeRequests,
  members: readonly Int32Array[],
): { at: number; times: number } {
  const loads = members.map((hand) => {
    let tokens = 0
    for (const request of hand) tokens += left_tokens[request] as number
    return tokens
  })
  const most = Math.max(...loads)
  const sum = loads.reduce((total, load) => total + load, 0)
  return { at: loads.indexOf(most), times: most === 0 ? 1 : sum / most }
}

/** Of replicas that run already. */
export function continued(replicas: Replicas, requests: NodeRequests, alike: boolean): Beginning {
  return {
    all: () => cloneReplicas(replicas),
    sketch: alike
      ? () => {
          const { at, times } = heaviestOf(requests, replicas.members)
          return { run: (replicas.runs[at] as ReplicaRun).clone(), longer: 1, times }
        }
      : null,
  }
}
