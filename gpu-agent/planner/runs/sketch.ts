/**
 * A cheap forecast of a node whose replicas are alike: the replica with the most left to do, and of its requests at most SKETCH_REQUESTS. Thousands of
 * requests are answered at a steady pace, so those that are left out lengthen the middle of the run by that pace. Its begin and its end, in which the
 * last requests hold their seats alone, are played.
 */
import type { ReplicaRun } from './replica-run.ts'

export const SKETCH_REQUESTS = 1500
/** The pace is that between these shares of the ends. */
const STEADY_FROM = 0.3
const STEADY_TO = 0.7

export interface SketchInput {
  /** Of the requests that are played. */
  run: ReplicaRun
  /** Requests of the replica ÷ requests played. */
  longer: number
  /** Work of all replicas ÷ work of this one. */
  times: number
}

export class Sketch {
  readonly #run: ReplicaRun
  readonly #times: number
  /** Where the steady middle is lengthened, and by how much. */
  readonly #middle_s: number
  readonly #added_s: number
  /** FLOPs per second of the middle. */
  readonly #pace: number

  constructor({ run, longer, times }: SketchInput) {
    run.run()
    this.#run = run
    this.#times = times
    const ends_s = run.finish_s.toSorted()
    const at = (share: number) => ends_s[Math.floor(share * (ends_s.length - 1))] ?? 0
    const [from_s, to_s] = [at(STEADY_FROM), at(STEADY_TO)]
    this.#middle_s = (from_s + to_s) / 2
    // So many requests in proportion to those that ended between the two times.
    this.#added_s = longer > 1 ? ((longer - 1) * (to_s - from_s)) / (STEADY_TO - STEADY_FROM) : 0
    this.#pace = to_s > from_s ? (run.work.flopsBy(to_s) - run.work.flopsBy(from_s)) / (to_s - from_s) : 0
  }

  get end_s(): number {
    return this.#run.done ? this.#run.now_s + this.#added_s : Number.POSITIVE_INFINITY
  }

  workBy(at_s: number): number {
    const { work } = this.#run
    if (at_s <= this.#middle_s || this.#added_s === 0) return work.flopsBy(at_s) * this.#times
    const added_s = Math.min(this.#added_s, at_s - this.#middle_s)
    return (work.flopsBy(at_s - added_s) + this.#pace * added_s) * this.#times
  }
}
