/**
 * Beginnings of a conversation as one array of numbers. It goes to the ConversationActor with every call, and an array of
 * objects costs an RPC more than all the rest of it. A reader unpacks only the ones that it looks at.
 */
import type { AnswerMarks } from './message-hash.ts'

export interface Beginning {
  /** Messages of it. */
  length: number
  hash: number
  /** The answer that follows it; null: another message does, or none. */
  answer: AnswerMarks | null
}

/** Beginnings, the shortest first, each as BEGINNING_NUMBERS numbers in the order of `packed`. */
export type Beginnings = Float64Array

const BEGINNING_NUMBERS = 8
const NO_ANSWER = 0
const ANSWER = 1
const DISTINCT_ANSWER = 2

export function packBeginnings(beginnings: readonly Beginning[]): Beginnings {
  return Float64Array.from(beginnings.flatMap(packed))
}

export function countOf(beginnings: Beginnings): number {
  return Math.floor(beginnings.length / BEGINNING_NUMBERS)
}

export function beginningAt(beginnings: Beginnings, index: number): Beginning {
  const from = index * BEGINNING_NUMBERS
  const at = (column: number): number => beginnings[from + column] ?? 0
  const [length, hash, kind] = [at(0), at(1), at(2)]
  if (kind === NO_ANSWER) return { length, hash, answer: null }
  const distinct = kind === DISTINCT_ANSWER
  return { length, hash, answer: { id: at(3), tools: at(4), first_tool: at(5), text: at(6), head: at(7), distinct } }
}

function packed({ length, hash, answer }: Beginning): number[] {
  if (answer === null) return [length, hash, NO_ANSWER, 0, 0, 0, 0, 0]
  const { id, tools, first_tool, text, head, distinct } = answer
  return [length, hash, distinct ? DISTINCT_ANSWER : ANSWER, id, tools, first_tool, text, head]
}
