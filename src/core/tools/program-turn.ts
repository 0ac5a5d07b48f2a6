/** One call of an ended program and what followed it: what its class learns of tools. */
import { hash32 } from '../wire/hash.ts'

/** Of one program, so that a long one does not count for more than many short ones. */
export const TURNS_PER_PROGRAM_MAX = 32
/** Tools of one turn that count, the first ones. */
export const TOOLS_PER_TURN_MAX = 4

export interface ProgramTurn {
  /** Calls of the program before it. */
  position: number
  /** The tool before it. Null: nothing names it, or none came before. */
  last: string | null
  output_tokens: number
  /** What followed, at most TOOLS_PER_TURN_MAX at once. Empty: the call was the last of its chain. */
  tools: readonly TurnTool[]
}

export interface TurnTool {
  /** Null: nothing names it. */
  name: string | null
  /** Null: it did not return in time, or other tools ran at once, whose time it may be. */
  duration_us: number | null
  /** Null: not known. */
  answer_tokens: number | null
}

/** At most TURNS_PER_PROGRAM_MAX, evenly spread. `seed` shifts them, so that over many programs each turn counts alike. */
export function sampledTurns<Turn>(turns: readonly Turn[], seed: string): Turn[] {
  if (turns.length <= TURNS_PER_PROGRAM_MAX) return [...turns]
  const step = turns.length / TURNS_PER_PROGRAM_MAX
  const shift = hash32(seed) / 2 ** 32
  return Array.from({ length: TURNS_PER_PROGRAM_MAX }, (_, at) => turns[Math.floor((at + shift) * step)] as Turn)
}
