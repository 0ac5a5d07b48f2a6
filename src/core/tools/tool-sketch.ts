/** How long a tool takes and how long its answers are: two sketches, aged with each use, so that they follow changes. */
import { TOOL_BINS_MAX, type ToolSketchData } from '../../protocol/index.ts'
import { LogSketch } from '../classes/log-sketch.ts'
import type { TurnTool } from './program-turn.ts'

/** About so many uses count. */
export const USES_REMEMBERED = 256
export const USE_AGE = 1 - 1 / USES_REMEMBERED

export class ToolSketch {
  /** Since it is known. */
  uses = 0
  readonly duration_us = new LogSketch()
  readonly answer_tokens = new LogSketch()

  static from({ uses, duration_us, answer_tokens }: ToolSketchData): ToolSketch {
    const sketch = new ToolSketch()
    sketch.uses = uses
    sketch.duration_us.merge(LogSketch.of(duration_us))
    sketch.answer_tokens.merge(LogSketch.of(answer_tokens))
    return sketch
  }

  /** A use that did not return counts as a use and tells nothing of the rest. */
  add({ duration_us, answer_tokens }: TurnTool): void {
    this.uses += 1
    if (duration_us !== null) addAged(this.duration_us, duration_us)
    if (answer_tokens !== null) addAged(this.answer_tokens, answer_tokens)
  }

  /** `factor`: what the other counts for. */
  merge(other: ToolSketch, factor = 1): void {
    this.uses += other.uses
    this.duration_us.merge(other.duration_us, factor)
    this.answer_tokens.merge(other.answer_tokens, factor)
  }

  data(): ToolSketchData {
    return {
      uses: this.uses,
      duration_us: this.duration_us.coarseBins(TOOL_BINS_MAX),
      answer_tokens: this.answer_tokens.coarseBins(TOOL_BINS_MAX),
    }
  }
}

export function addAged(sketch: LogSketch, value: number): void {
  sketch.age(USE_AGE)
  sketch.add(value)
}
