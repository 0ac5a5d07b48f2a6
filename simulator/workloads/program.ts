/**
 * A program as a workload states it: token counts, dependencies and tool times of its calls, no text. A profile draws such
 * programs, a trace file lists them (docs/traces.md). The simulation decides what the tokens are, bound by two rules of
 * sameness: what a call repeats of an earlier one (`prefix_of`, `same_prompt_as`), and what programs of one app share (`appHead`).
 */

export interface WorkloadCall {
  /** The chain of calls that this one belongs to. */
  thread: number
  /** Indices, each below the call's own, of the calls that end, with their tool time, before this one is issued. Empty: ready when the program starts. */
  parents: readonly number[]
  /** The whole prompt. */
  prompt_tokens: number
  /** How many of its first tokens repeat an earlier call's prompt and output; the others are new to the program. */
  shared_prefix_tokens: number
  output_tokens: number
  tool: string | null
  /** From the call's end until its children may start; null: not known, which plays as 0. */
  tool_seconds: number | null
  kind?: string
  /** The earlier call whose prompt followed by output starts with this prompt's first `shared_prefix_tokens`; null: none. Set by resolvePrefixes. */
  prefix_of?: number | null
  /** The earlier call whose prompt is, token by token, this one's; null: none. Set by resolvePrefixes. */
  same_prompt_as?: number | null
}

export interface WorkloadProgram {
  id: string
  workload: string
  /** Programs of one app share their heads; absent: the workload is the app. */
  app?: string
  /** Tokens at the start of a prompt that every program of the app has. */
  app_prefix_tokens?: number
  /** The same for calls of one kind, whose head is another text than the other kinds'. */
  app_prefix_tokens_by_kind?: Readonly<Record<string, number>>
  /** From the start of the trace; absent: the arrival is drawn. */
  arrival_seconds?: number
  calls: readonly WorkloadCall[]
  /** Absent: as `ProgramClient` has it by default. */
  client?: ProgramClient
}

/** How a program's client presents it to the control plane. */
export interface ProgramClient {
  /** Null: it gives none. Absent: the app's name. */
  label?: string | null
  /** Absent: drawn by the tenants' shares. */
  tenant?: string
  /** False: it never says that the program has ended. */
  tells_end?: boolean
}

export interface AppHead {
  /** Equal keys mean equal tokens. */
  key: string
  tokens: number
}

/** The head that a call's prompt shares with other programs of the app, for a call that repeats no earlier one. */
export function appHead(program: WorkloadProgram, call: WorkloadCall): AppHead {
  const app = program.app ?? program.workload
  const by_kind = call.kind === undefined ? undefined : program.app_prefix_tokens_by_kind?.[call.kind]
  const tokens = Math.min(call.prompt_tokens, by_kind ?? program.app_prefix_tokens ?? 0)
  return { key: by_kind === undefined ? app : `${app}/${call.kind}`, tokens }
}
