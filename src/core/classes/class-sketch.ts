/**
 * What is known about a class of programs: how much output, how many calls, how long a path, how much service and tool
 * time its ended programs had. Bounded, mergeable and aged: each end makes what was known before count a little less, so
 * the sketch follows a workload that changes.
 */
import type { ClassSketchData } from '../../protocol/classes.ts'
import { ToolBook } from '../tools/tool-book.ts'
import { toolBookOf, toolsData } from '../tools/tool-data.ts'
import type { EndedProgram } from './ended-program.ts'
import { LogSketch } from './log-sketch.ts'

/** About so many ends count. After twice as many, what was known before has a weight of e^-2. */
export const ENDS_REMEMBERED = 256
const AGE = 1 - 1 / ENDS_REMEMBERED

/** Programs whose output spreads less are alike, but for rounding errors. */
const SPREAD_MIN = 1e-3

const MEASURES = ['output_tokens', 'calls', 'path_us', 'service_us', 'tool_us', 'later_prompt_tokens'] as const

export class ClassSketch {
  /** Programs that have ended, since the class is known. */
  ends = 0
  readonly output_tokens = new LogSketch()
  readonly calls = new LogSketch()
  readonly path_us = new LogSketch()
  readonly service_us = new LogSketch()
  readonly tool_us = new LogSketch()
  readonly later_prompt_tokens = new LogSketch()
  /** Output tokens so far of programs that have not ended. They tell that the class has programs of more. */
  going_on = new LogSketch()
  /** What its programs call between their calls. */
  tools = new ToolBook()

  static from(data: ClassSketchData): ClassSketch {
    const sketch = new ClassSketch()
    sketch.ends = data.ends
    for (const measure of MEASURES) sketch[measure].merge(LogSketch.of(data[measure]))
    sketch.going_on.merge(LogSketch.of(data.going_on ?? []))
    if (data.tools !== undefined) sketch.tools = toolBookOf(data.tools)
    return sketch
  }

  /** A program without output tells nothing of what a program's output costs, and is left out. */
  add(program: EndedProgram): void {
    if (program.output_tokens <= 0) return
    this.ends += 1
    for (const measure of MEASURES) {
      this[measure].age(AGE)
      this[measure].add(program[measure])
    }
    for (const turn of program.turns ?? []) this.tools.add(turn)
  }

  merge(other: ClassSketch): void {
    this.mergeEnds(other)
    this.going_on.merge(other.going_on)
    this.tools.merge(other.tools)
  }

  /** Of programs that have ended, without their tools. */
  mergeEnds(other: ClassSketch): void {
    this.ends += other.ends
    for (const measure of MEASURES) this[measure].merge(other[measure])
  }

  /** Of later calls, for each token of output. */
  get prompt_tokens_per_output_token(): number {
    const output_tokens = this.output_tokens.sum
    return output_tokens > 0 ? this.later_prompt_tokens.sum / output_tokens : 0
  }

  /** Mean output of a call. 0: not known. */
  get call_tokens(): number {
    return this.calls.sum > 0 ? this.output_tokens.sum / this.calls.sum : 0
  }

  /**
   * How far a mean call's output tells what an open call still brings: the spread of the number of calls over that of the output.
   * 1: programs differ by their number of calls alone. 0: by how long their calls are, or nothing is known.
   */
  get call_share(): number {
    const spread = this.output_tokens.spread_octaves
    return spread > SPREAD_MIN ? Math.min(1, this.calls.spread_octaves / spread) : 0
  }

  data(): ClassSketchData {
    const measures = MEASURES.map((measure) => [measure, this[measure].bins()])
    const tools = this.tools.isEmpty ? {} : { tools: toolsData(this.tools) }
    return {
      ends: this.ends,
      ...Object.fromEntries(measures),
      going_on: this.going_on.bins(),
      ...tools,
    } as ClassSketchData
  }
}
