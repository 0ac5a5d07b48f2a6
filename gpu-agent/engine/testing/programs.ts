/**
 * Programs on a virtual run: each call comes when its parents have ended (and a tool has run), with what the control
 * plane would put into its ticket: its program's summed service and wait, and its longest path (eq. 1 and 2).
 */
import type { CallForecast } from '../../../src/core/call/forecast.ts'
import type { LatencyProfile } from '../backends/emulated/profiles/index.ts'
import { TINY } from '../backends/emulated/profiles/index.ts'
import type { ProgramOrder } from '../order/program-order.ts'
import type { ScheduledCall } from '../scheduled-call.ts'
import type { EndedCall } from '../scheduler.ts'
import type { SchedulerConfig } from '../scheduler-config.ts'
import type { EngineCall, Measurement } from '../types.ts'
import { engineCall, tokens } from './calls.ts'
import { type VirtualEvent, type VirtualRun, virtualRun } from './virtual-run.ts'

export interface ProgramCall {
  output_tokens: number
  /** Default: one, so that a call of n output tokens is n steps. */
  prompt?: number[]
  /** Indices of calls of the program that must have ended; all before it in the list. Default: the call before. */
  parents?: number[]
  /** From the end of the last parent to this call. */
  gap_us?: number
  forecast?: CallForecast
  /** What it says, `output_tokens` tokens. Default: what the model draws. */
  answer?: readonly number[]
}

export interface Program {
  id: string
  at_us?: number
  calls: readonly ProgramCall[]
  given?: Partial<EngineCall>
}

export interface ProgramsRun extends VirtualRun {
  /** Summed wait, and the end, of each program. */
  wait_us: Map<string, number>
  program_ended_us: Map<string, number>
  preemptions: number
  /** The programs in each step, by name: the figures' Gantt charts. */
  gantt: string[]
}

/** All steps take the same time: the figures' unit. */
export const UNIT_US = 1000
export const UNIT_STEPS: LatencyProfile = {
  ...TINY,
  base_us: UNIT_US,
  per_sequence_us: 0,
  per_kv_token_ns: 0,
  per_prefill_token_us: 0,
}

export function runPrograms(
  config: SchedulerConfig,
  programs: readonly Program[],
  options: { profile?: LatencyProfile; order?: ProgramOrder<ScheduledCall> } = {},
): ProgramsRun {
  const tables = new Map(
    programs.map((program, index) => [program.id, new ProgramTable(program, index, config.ordering)]),
  )
  const tableOf = (lease: string) => tables.get(lease.slice(0, lease.lastIndexOf('/'))) as ProgramTable
  const answers = new Map<string, readonly number[] | undefined>(
    programs.flatMap(({ id, calls }) => calls.map(({ answer }, index) => [`${id}/${index}`, answer] as const)),
  )
  const said = ({ lease, max_output_tokens }: EngineCall) => answers.get(lease) ?? tokens(max_output_tokens)
  const says = programs.some(({ calls }) => calls.some(({ answer }) => answer !== undefined))
  const roots = programs.flatMap(({ id, at_us = 0 }) => (tables.get(id) as ProgramTable).roots(at_us))
  const run = virtualRun(config, roots, {
    ...options,
    ...(says ? { answer: said } : {}),
    next_events: (ended, at_us) => tableOf(ended.lease).ended(ended, at_us),
  })
  let preemptions = 0
  for (const { measurement } of run.ended.values()) preemptions += measurement.preemptions
  return {
    ...run,
    wait_us: new Map(Array.from(tables, ([id, { wait_us }]) => [id, wait_us])),
    program_ended_us: new Map(Array.from(tables, ([id, { ended_us }]) => [id, ended_us])),
    preemptions,
    gantt: run.plans.map(({ work }) =>
      Array.from(work, ({ lease }) => lease.slice(0, lease.lastIndexOf('/')))
        .sort()
        .join(''),
    ),
  }
}

/** The process table's entry of one program, and its calls that are still to come. */
class ProgramTable {
  wait_us = 0
  ended_us = 0
  #service_us = 0
  #output_tokens = 0
  readonly #program: Program
  readonly #sequence: readonly [number, number]
  readonly #ordering: SchedulerConfig['ordering']
  readonly #path_us = new Map<number, number>()

  constructor(program: Program, index: number, ordering: SchedulerConfig['ordering']) {
    this.#program = program
    this.#sequence = [program.at_us ?? 0, index]
    this.#ordering = ordering
  }

  roots(at_us: number): VirtualEvent[] {
    return this.#ready(null, at_us)
  }

  ended({ lease, measurement }: EndedCall, at_us: number): VirtualEvent[] {
    const index = Number(lease.slice(lease.lastIndexOf('/') + 1))
    const service_us = this.#serviceUs(measurement)
    this.#service_us += service_us
    this.#output_tokens += measurement.output_tokens
    this.wait_us += measurement.wait_us
    this.ended_us = at_us
    this.#path_us.set(index, this.#pathTo(index) + service_us)
    return this.#ready(index, at_us)
  }

  #serviceUs({ service_wall_us, service_modelled_us }: Measurement): number {
    return this.#ordering === 'wall' ? service_wall_us : service_modelled_us
  }

  #parentsOf(index: number): number[] {
    return this.#program.calls[index]?.parents ?? (index === 0 ? [] : [index - 1])
  }

  #pathTo(index: number): number {
    return Math.max(0, ...this.#parentsOf(index).map((parent) => this.#path_us.get(parent) ?? 0))
  }

  /** Submissions of the calls for which `ended` was the last parent; null: of those that have none. */
  #ready(ended: number | null, at_us: number): VirtualEvent[] {
    return this.#program.calls.flatMap((call, index): VirtualEvent[] => {
      const parents = this.#parentsOf(index)
      const comes = ended === null ? parents.length === 0 : parents.includes(ended)
      if (!comes || !parents.every((parent) => this.#path_us.has(parent))) return []
      return [{ at_us: at_us + (call.gap_us ?? 0), do: 'submit', call: this.#engineCall(call, index) }]
    })
  }

  #engineCall({ prompt, output_tokens, forecast }: ProgramCall, index: number): EngineCall {
    const { id, given } = this.#program
    return engineCall({
      lease: `${id}/${index}`,
      program: id,
      sequence: this.#sequence,
      prompt: prompt ?? [id.charCodeAt(0) * 1000 + index],
      max_output_tokens: output_tokens,
      settled_service_us: this.#service_us,
      critical_path_us: Math.max(0, ...this.#path_us.values()),
      program_output_tokens: this.#output_tokens,
      program_wait_us: this.wait_us,
      ...(forecast === undefined ? {} : { forecast }),
      ...given,
    })
  }
}
