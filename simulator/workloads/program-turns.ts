/** The turns of a program of a workload: what its calls would have shown to the control plane. */
import type { ProgramTurn } from '../../src/core/tools/program-turn.ts'
import type { WorkloadCall, WorkloadProgram } from './program.ts'

/** One for each call, in order. A call goes on from its first parent of the same thread. */
export function programTurns({ calls }: WorkloadProgram): ProgramTurn[] {
  const parentOf = calls.map(({ parents, thread }) => parents.find((parent) => calls[parent]?.thread === thread))
  const nextOf = new Map<number, WorkloadCall>()
  for (const [index, parent] of parentOf.entries()) {
    const call = calls[index]
    if (parent !== undefined && call !== undefined && !nextOf.has(parent)) nextOf.set(parent, call)
  }
  return calls.map((call, position) => ({
    position,
    last: calls[parentOf[position] ?? -1]?.tool ?? null,
    output_tokens: call.output_tokens,
    tools: turnTools(call, nextOf.get(position)),
  }))
}

function turnTools(call: WorkloadCall, next: WorkloadCall | undefined): ProgramTurn['tools'] {
  const { tool, tool_seconds, prompt_tokens, output_tokens } = call
  if (tool === null && next === undefined) return []
  const added_tokens = (next?.prompt_tokens ?? 0) - prompt_tokens - output_tokens
  const turn = {
    name: tool,
    duration_us: next === undefined || tool_seconds === null ? null : Math.round(tool_seconds * 1e6),
    answer_tokens: next === undefined || added_tokens < 0 ? null : added_tokens,
  }
  return [turn]
}
