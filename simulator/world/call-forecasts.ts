/**
 * The forecast that engines get with a call (src/core/call/forecast.ts). A simulation chooses its source: the truth, the truth
 * with an error (LAMPS §6.4), or what was learned from ended programs, through the code that serves.
 */
import type { CallForecast } from '../../src/core/call/forecast.ts'
import { forecastCall, type KnownTools } from '../../src/core/tools/forecast.ts'
import type { ProgramTurn } from '../../src/core/tools/program-turn.ts'
import { hash32 } from '../../src/core/wire/hash.ts'
import { normal, seededRandom } from '../random.ts'
import type { WorkloadProgram } from '../workloads/program.ts'
import { programTurns } from '../workloads/program-turns.ts'

/** `error`: standard deviation of the error, as a fraction of the true value. Values below 0 count as 0. */
export type ForecastSource = { kind: 'oracle'; error: number } | { kind: 'learned' } | { kind: 'none' }

const known_turns = new WeakMap<WorkloadProgram, readonly ProgramTurn[]>()

function turnOf(program: WorkloadProgram, index: number): ProgramTurn {
  const turns = known_turns.get(program) ?? programTurns(program)
  known_turns.set(program, turns)
  return turns[index] as ProgramTurn
}

/** `name` is unique among the programs of the simulation. Null: nothing is known. */
export function forecastOf(
  source: ForecastSource,
  { program, name }: { program: WorkloadProgram; name: string },
  index: number,
  known: () => KnownTools,
): CallForecast | null {
  if (source.kind === 'none') return null
  const turn = turnOf(program, index)
  if (source.kind === 'oracle') return oracle(turn, source.error, `${name}/${index}`)
  const { position, last } = turn
  return forecastCall({ position, last, offered: null, expect_tool_us: null }, known())
}

function oracle({ output_tokens, tools }: ProgramTurn, error: number, lease: string): CallForecast {
  const random = seededRandom(hash32(lease))
  const told = (value: number) => (error === 0 ? value : Math.max(0, value * (1 + error * normal(random))))
  const written = told(output_tokens)
  const [next] = tools
  if (next === undefined) return { output_tokens: written, ends: 1, tool: null, confidence: 1 }
  const duration_us = Math.round(told(next.duration_us ?? 0))
  const tool = { name: next.name, probability: 1, duration_us, duration_p90_us: duration_us }
  return { output_tokens: written, ends: 0, tool: { ...tool, answer_tokens: next.answer_tokens ?? 0 }, confidence: 1 }
}
