/** The turns of an ended program (program-turn.ts), from its rows in the process table. */
import { type CallRow, type LeaseRow, TOOL_RETURN_MS_MAX } from '../program/program-state.ts'
import { type ProgramTurn, sampledTurns, type TurnTool } from './program-turn.ts'
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
    next: turnTool(call, nextOf.get(call.call), settled),
  }))
}

function lastTool({ brings }: CallRow, byId: ReadonlyMap<string, CallRow>): string | null {
  return byId.get(brings?.of ?? '')?.tools?.names[0] ?? brings?.results[0]?.name ?? null
}

function turnTool(call: CallRow, next: CallRow | undefined, settled: ReadonlyMap<string, LeaseRow>): TurnTool | null {
  const { tools, duration_us } = toolUses(call)
  const [first] = tools
  if (first === undefined && next === undefined) return null
  const alone = tools.every(({ name }) => name === first?.name)
  const in_time = duration_us !== null && duration_us <= TOOL_RETURN_US_MAX
  return {
    name: first?.name ?? null,
    duration_us: alone && in_time ? duration_us : null,
    answer_tokens: first === undefined ? addedTokens(call, next, settled) : first.answer_tokens,
  }
}

/** Prompt tokens of the next call behind the context that it goes on from. Null: it has another context. */
function addedTokens(
  { call }: CallRow,
  next: CallRow | undefined,
  settled: ReadonlyMap<string, LeaseRow>,
): number | null {
  const before = settled.get(call)
  const after = settled.get(next?.call ?? '')
  if (before === undefined || after === undefined) return null
  const added_tokens = after.prompt_tokens - before.prompt_tokens - before.output_tokens
  return added_tokens < 0 ? null : added_tokens
}
