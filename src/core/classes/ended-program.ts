/** What an ended program tells about its class, from its rows in the process table. */
import { modelledServiceUs } from '../call/service.ts'
import { CriticalPath } from '../program/critical-path.ts'
import type { CallRow, LeaseRow, ProgramRows } from '../program/program-state.ts'
import type { ProgramTurn } from '../tools/program-turn.ts'
import { programTurns } from '../tools/program-turns.ts'

export interface EndedProgram {
  output_tokens: number
  calls: number
  /** The longest chain of calls, in modelled service. */
  path_us: number
  /** Modelled. */
  service_us: number
  /** Summed over calls: from the end of the last of its parents to its start. */
  tool_us: number
  /** Prompt tokens that the calls after the first added to the contexts that they went on from. */
  later_prompt_tokens: number
  /** What followed its calls, of a bounded sample of them. Left out: not known. */
  turns?: readonly ProgramTurn[] | undefined
}

/** A call as a workload states it, whose context is at hand when it comes. */
export interface StatedCall {
  /** Indices, each below its own. */
  parents: readonly number[]
  added_prompt_tokens: number
  output_tokens: number
  /** Between it and one of its neighbours in the chain. */
  tool_us: number
}

/** The same of a program that is stated call by call, as simulations and benchmarks have them. */
export function endedAsStated(calls: readonly StatedCall[]): EndedProgram {
  const ended = { output_tokens: 0, calls: calls.length, path_us: 0, service_us: 0, tool_us: 0, later_prompt_tokens: 0 }
  const paths_us: number[] = []
  for (const [index, { parents, added_prompt_tokens, output_tokens, tool_us }] of calls.entries()) {
    const tokens = { uncached_prompt_tokens: added_prompt_tokens, cached_prompt_tokens: 0, output_tokens }
    const service_us = modelledServiceUs(tokens)
    const path_us = service_us + Math.max(0, ...parents.map((parent) => paths_us[parent] as number))
    paths_us.push(path_us)
    ended.path_us = Math.max(ended.path_us, path_us)
    ended.service_us += service_us
    ended.output_tokens += output_tokens
    ended.tool_us += tool_us
    if (index > 0) ended.later_prompt_tokens += added_prompt_tokens
  }
  return ended
}

interface Turn {
  /** Prompt and output of its last settled lease. */
  context_tokens: number
  ended_at_ms: number | null
}

/** The costs are those of work that was needed: what lost caches cost is left out, so that congestion does not feed on itself. */
export function endedProgram({ calls, leases }: Pick<ProgramRows, 'calls' | 'leases'>): EndedProgram {
  const settled = new Map<string, LeaseRow>()
  for (const lease of [...leases].sort((a, b) => a.position - b.position)) {
    if (lease.state === 'settled') settled.set(lease.call, lease)
  }
  const turns = new Map<string, Turn>()
  const paths = new CriticalPath()
  const ended = { output_tokens: 0, calls: calls.length, service_us: 0, tool_us: 0, later_prompt_tokens: 0 }
  const ordered = [...calls].sort((a, b) => a.position - b.position)
  for (const [index, call] of ordered.entries()) {
    const { prompt_tokens = 0, cached_tokens = 0, output_tokens = 0 } = settled.get(call.call) ?? {}
    const parents = call.parents.map((parent) => turns.get(parent)).filter((turn) => turn !== undefined)
    const context_tokens = Math.max(0, ...parents.map((parent) => parent.context_tokens))
    const goes_on = context_tokens > 0 && prompt_tokens >= context_tokens
    const added_tokens = goes_on ? prompt_tokens - context_tokens : prompt_tokens - cached_tokens
    const tokens = { uncached_prompt_tokens: added_tokens, cached_prompt_tokens: 0, output_tokens }
    const service_us = modelledServiceUs(tokens)
    paths.add(call.call, call.parents, 0)
    paths.setService(call.call, service_us)
    turns.set(call.call, { context_tokens: prompt_tokens + output_tokens, ended_at_ms: call.ended_at_ms })
    ended.output_tokens += output_tokens
    ended.service_us += service_us
    ended.tool_us += toolUs(call, parents)
    if (index > 0) ended.later_prompt_tokens += added_tokens
  }
  return { ...ended, path_us: paths.scalarUs(), turns: programTurns(calls, settled) }
}

function toolUs({ opened_at_ms }: CallRow, parents: readonly Turn[]): number {
  const ended_at_ms = Math.max(...parents.map((parent) => parent.ended_at_ms ?? opened_at_ms))
  return Number.isFinite(ended_at_ms) ? Math.max(0, opened_at_ms - ended_at_ms) * 1000 : 0
}
