/** The turns of an ended program (program-turn.ts), from its rows in the process table. */
import { type CallRow, type LeaseRow, TOOL_RETURN_MS_MAX } from '../program/program-state.ts'
import { type ProgramTurn, sampledTurns, TOOLS_PER_TURN_MAX, type TurnTool } from './program-turn.ts'
import { toolUses } from './tool-uses.ts'

/** A tool that took longer than TOOL_RETURN_MS_MAX counts as one that did not return. */
const TOOL_RETURN_US_MAX = TOOL_RETURN_MS_MAX * 1000

/** Of its completed calls. `settled`: the lease that counts of each. */
export function programTurns(calls: readonly CallRow[], settled: ReadonlyMap<string, LeaseRow>): ProgramTurn[] {
  const byId = new Map(calls.map((call) => [call.call, call]))
  const nextOf = new Map(calls.flatMap((call) => (call.brings === null ? [] : [[call.brings.of, call] as const])))
  const completed = calls.filter(({ outcome }) => outcome === 'completed').sort((a, b) => a.position - b.position)
  return sampledTurns(completed, completed[0]?.call ?? '').map((call) => ({
    position: call.position,
    last: lastTool(call, byId),
    output_tokens: settled.get(call.call)?.output_tokens ?? 0,
    tools: turnTools(call, nextOf.get(call.call), settled),
  }))
}

function lastTool({ brings }: CallRow, byId: ReadonlyMap<string, CallRow>): string | null {
  const asked = byId.get(brings?.of ?? '')?.tools?.names[0]
  return asked ?? brings?.results[0]?.name ?? brings?.times[0]?.name ?? null
}

function turnTools(call: CallRow, next: CallRow | undefined, settled: ReadonlyMap<string, LeaseRow>): TurnTool[] {
  const { tools, duration_us } = toolUses(call)
  if (tools.length > 0) return tools.slice(0, TOOLS_PER_TURN_MAX).map((tool) => turnTool(tool))
  if (next === undefined) return []
  return [turnTool({ name: null, duration_us, answer_tokens: addedTokens(call, next, settled) })]
}

function turnTool({ name, duration_us, answer_tokens }: TurnTool): TurnTool {
  const in_time = duration_us !== null && duration_us <= TOOL_RETURN_US_MAX
  return { name, duration_us: in_time ? duration_us : null, answer_tokens }
}

/** Prompt tokens of the next call behind the context that it goes on from. Null: it has another context. */
function addedTokens({ call }: CallRow, next: CallRow, settled: ReadonlyMap<string, LeaseRow>): number | null {
  const before = settled.get(call)
  const after = settled.get(next.call)
  if (before === undefined || after === undefined) return null
  const added_tokens = after.prompt_tokens - before.prompt_tokens - before.output_tokens
  return added_tokens < 0 ? null : added_tokens
}
