/**
 * What tools a call used: what its answer asked for, checked against what the next call brought. Each asked tool takes the
 * first result of its name that is left. A result that nothing asked for counts for nothing. Where the answer names no tool,
 * those count that the client says it ran.
 */
import type { CallEntry } from '../program/program-state.ts'

export interface ToolUse {
  name: string
  returned: boolean
  /** Null: not known. */
  answer_tokens: number | null
  /** Null: it did not return, or others ran at once and the client did not measure it. */
  duration_us: number | null
}

export interface ToolUses {
  /** Empty: nothing names them. */
  tools: ToolUse[]
  /** From the end of the call to the next one of its thread, 0 if a clock was set back. Null: there is none. */
  duration_us: number | null
}

type Call = Pick<CallEntry, 'tools' | 'returned' | 'ended_at_ms'>

export function toolUses(call: Call): ToolUses {
  const { tools, returned, ended_at_ms } = call
  if (returned === null) return { tools: (tools?.names ?? []).map(notReturned), duration_us: null }
  const duration_us = Math.max(0, returned.at_ms - (ended_at_ms ?? returned.at_ms)) * 1000
  const results = [...returned.results]
  const times = [...returned.times]
  const names = namesOf(call)
  const used = names.map((name) => {
    const answer_tokens = taken(results, name)?.tokens ?? null
    const measured_us = taken(times, name)?.duration_us ?? null
    const returned = answer_tokens !== null || measured_us !== null
    return {
      name,
      returned,
      answer_tokens,
      duration_us: measured_us ?? (returned && names.length === 1 ? duration_us : null),
    }
  })
  return { tools: used, duration_us }
}

/** Where no record says what the answer asked for, the results themselves do. */
function namesOf({ tools, returned }: Call): string[] {
  const asked = tools?.names ?? returned?.results.flatMap(({ name }) => name ?? []) ?? []
  return asked.length > 0 ? asked : (returned?.times.map(({ name }) => name) ?? [])
}

function notReturned(name: string): ToolUse {
  return { name, returned: false, answer_tokens: null, duration_us: null }
}

/** The first of this name, which is taken out of the list. */
function taken<One extends { name: string | null }>(list: One[], name: string): One | undefined {
  const at = list.findIndex((one) => one.name === name)
  return at === -1 ? undefined : list.splice(at, 1)[0]
}
