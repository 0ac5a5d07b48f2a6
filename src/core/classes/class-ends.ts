/**
 * What a class learns from its programs, each counted once. The program's actor tells of an end until it is confirmed, so
 * the same end may come more than once. The runs that were counted last are remembered.
 */
import { z } from 'zod'
import { ClassSketchData, Id } from '../../protocol/index.ts'
import { ClassSketch } from './class-sketch.ts'
import type { EndedProgram } from './ended-program.ts'

/** Past it the run that was counted longest ago is forgotten. Ends are told again within hours. */
export const RUNS_REMEMBERED_MAX = 2048

export const ClassEndsData = z.object({
  sketch: ClassSketchData,
  /** In the order in which they were counted. */
  runs: z.array(Id).max(RUNS_REMEMBERED_MAX),
  last_end_ms: z.number(),
})
export type ClassEndsData = z.infer<typeof ClassEndsData>

export class ClassEnds {
  readonly #sketch: ClassSketch
  readonly #runs: Set<string>
  #last_end_ms: number

  constructor({ sketch, runs, last_end_ms }: ClassEndsData) {
    this.#sketch = ClassSketch.from(sketch)
    this.#runs = new Set(runs)
    this.#last_end_ms = last_end_ms
  }

  static none(): ClassEnds {
    return new ClassEnds({ sketch: new ClassSketch().data(), runs: [], last_end_ms: 0 })
  }

  /** Programs that have ended since the class is known. */
  get ends(): number {
    return this.#sketch.ends
  }

  get last_end_ms(): number {
    return this.#last_end_ms
  }

  /** False: the run was counted before. */
  add(run: string, program: EndedProgram, now_ms: number): boolean {
    if (this.#runs.has(run)) return false
    this.#runs.add(run)
    if (this.#runs.size > RUNS_REMEMBERED_MAX) {
      const [oldest] = this.#runs
      this.#runs.delete(oldest as string)
    }
    this.#sketch.add(program)
    this.#last_end_ms = now_ms
    return true
  }

  sketch(): ClassSketchData {
    return this.#sketch.data()
  }

  data(): ClassEndsData {
    return { sketch: this.sketch(), runs: [...this.#runs], last_end_ms: this.#last_end_ms }
  }
}
