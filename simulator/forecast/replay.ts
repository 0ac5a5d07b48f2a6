/**
 * How good forecasts are: programs are replayed one after the other, as if each had ended before the next began. Every call is
 * forecast from what the programs before have shown, and compared with what it did. Nothing is known at first, so the first
 * calls count as they are.
 */
import { expectedTool } from '../../src/core/call/forecast.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import {
  type CallSituation,
  expectedToolUs,
  forecastCall,
  type KnownTools,
  outputBySituation,
  whatFollows,
} from '../../src/core/tools/forecast.ts'
import { type ProgramTurn, sampledTurns, type TurnTool } from '../../src/core/tools/program-turn.ts'
import { ENDS, named, OTHER, UNNAMED } from '../../src/core/tools/situation.ts'
import { ToolBook } from '../../src/core/tools/tool-book.ts'
import type { WorkloadProgram } from '../workloads/program.ts'
import { programTurns } from '../workloads/program-turns.ts'

/** A probability below counts as this, so that one surprise does not decide a mean. */
export const SHARE_MIN = 1e-3

/** One call: what was forecast and what came. */
export interface Scored {
  class: string
  /** Null: nothing was known. */
  forecast: {
    /** Whether the likeliest outcome came. */
    is_right: boolean
    /** Of what came, at least SHARE_MIN. */
    share: number
    confidence: number
    output_tokens: number
    /** Of the likeliest tool, or of all where the forecast is not sure. Null: none is expected. */
    tool_us: number | null
    answer_tokens: number | null
  } | null
  /** Once the tools that the answer asked for are known. Null: nothing was known. */
  named_tool_us: number | null
  output_tokens: number
  /** Null: none followed, or not known. */
  tool_us: number | null
  answer_tokens: number | null
}

/** `classOf`: which programs share what they show. */
export function replay(programs: Iterable<WorkloadProgram>, classOf: (program: WorkloadProgram) => string): Scored[] {
  const classes = new Map<string, ClassSketch>()
  const tenant = new ToolBook()
  const scored: Scored[] = []
  for (const program of programs) {
    const name = classOf(program)
    const known: KnownTools = { of_class: classes.get(name)?.tools ?? null, of_tenant: () => tenantOf(tenant) }
    const turns = programTurns(program)
    for (const turn of turns) scored.push(scoredTurn(name, turn, known))
    const sketch = classes.get(name) ?? new ClassSketch()
    classes.set(name, sketch)
    for (const turn of sampledTurns(turns, program.id)) {
      sketch.tools.add(turn)
      tenant.add(turn)
    }
  }
  return scored
}

function tenantOf(tenant: ToolBook): ToolBook | null {
  return tenant.isEmpty ? null : tenant
}

function scoredTurn(of_class: string, turn: ProgramTurn, known: KnownTools): Scored {
  const { position, last, tools, output_tokens } = turn
  const [next = null] = tools
  const situation: CallSituation = { position, last, offered: null, expect_tool_us: null }
  const named_tool_us = next === null ? null : expectedToolUs(next.name === null ? [] : [next.name], null, known)
  return {
    class: of_class,
    forecast: forecastOf(situation, next, known),
    named_tool_us,
    output_tokens,
    tool_us: next?.duration_us ?? null,
    answer_tokens: next?.answer_tokens ?? null,
  }
}

function forecastOf(situation: CallSituation, next: TurnTool | null, known: KnownTools): Scored['forecast'] {
  const forecast = forecastCall(situation, known)
  const written = outputBySituation.outputTokens(situation, known)?.quantile(0.5) ?? null
  if (forecast === null || written === null) return null
  const { shares } = whatFollows(situation, known)
  const came = next === null ? ENDS : next.name === null ? UNNAMED : named(next.name)
  const likeliest = [...shares].reduce((best, one) => (one[1] > best[1] ? one : best))
  // A tool without a place of its own was foreseen as one of the others. That does not name it, so it is not right.
  const share = shares.get(came) ?? shares.get(OTHER) ?? 0
  return {
    is_right: likeliest[0] === came,
    share: Math.max(SHARE_MIN, share),
    confidence: forecast.confidence,
    output_tokens: written,
    tool_us: expectedTool(forecast)?.duration_us ?? null,
    answer_tokens: expectedTool(forecast)?.answer_tokens ?? null,
  }
}
