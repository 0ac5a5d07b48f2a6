/**
 * What tools a call used: what its answer asked for, checked against what the next call brought. Each asked tool takes the
 * first result of its name that is left. A result that nothing asked for counts for nothing.
 */
import type { CallEntry } from '../program/program-state.ts'

export interface ToolUse {
  name: string
  /** Null: it did not return. */
  answer_tokens: number | null
}

export interface ToolUses {
  /** Empty: the answer named none. */
  tools: ToolUse[]
  /** From the end of the call to the next one of its thread, 0 if a clock was set back. Null: there is none. */
  duration_us: number | null
}

/** Where no record says what the answer asked for, the results themselves do. */
export function toolUses({
  tools,
  returned,
  ended_at_ms,
}: Pick<CallEntry, 'tools' | 'returned' | 'ended_at_ms'>): ToolUses {
  const left = [...(returned?.results ?? [])]
  const names = tools?.names ?? left.flatMap(({ name }) => name ?? [])
  return {
    tools: names.map((name) => {
      const at = left.findIndex((result) => result.name === name)
      const [result] = at === -1 ? [] : left.splice(at, 1)
      return { name, answer_tokens: result?.tokens ?? null }
    }),
    duration_us: returned === null ? null : Math.max(0, returned.at_ms - (ended_at_ms ?? returned.at_ms)) * 1000,
  }
}
