/**
 * One program as its client plays it: which calls may be issued, and when. A call is issued once every parent has ended and
 * that parent's tool has run. Calls without parents are issued when the program starts.
 */
import { invariant } from '../../gpu-agent/engine/invariant.ts'
import type { WorkloadProgram } from '../workloads/program.ts'
import { ProgramPrompts } from './prompts.ts'

const US_PER_S = 1e6

export interface ProgramPlace {
  index: number
  tenant: string
  tenant_weight: number
  /** Where its client is. */
  region: string
}

/** By program: a workload may state one program and play it thousands of times. */
const known_children = new WeakMap<WorkloadProgram, readonly (readonly number[])[]>()

function childrenOf(program: WorkloadProgram): readonly (readonly number[])[] {
  const known = known_children.get(program)
  if (known !== undefined) return known
  const children: number[][] = program.calls.map(() => [])
  for (const [index, { parents }] of program.calls.entries()) {
    for (const parent of new Set(parents)) (children[parent] as number[]).push(index)
  }
  known_children.set(program, children)
  return children
}

export class ProgramRun {
  readonly program: WorkloadProgram
  readonly place: ProgramPlace
  /** Unique among the programs of the simulation, even where ids repeat. */
  readonly name: string
  readonly prompts: ProgramPrompts
  readonly arrived_us: number
  ended_us = -1
  #open_calls: number
  #records_left: number
  /** Parents that have not ended, by call; and when the latest of the others let it start. */
  readonly #parents_open: Uint16Array
  readonly #ready_us: Float64Array
  readonly #children: readonly (readonly number[])[]

  constructor(program: WorkloadProgram, place: ProgramPlace, arrived_us: number) {
    this.program = program
    this.place = place
    this.arrived_us = arrived_us
    this.name = `${place.index}:${program.id}`.slice(0, 100)
    this.prompts = new ProgramPrompts(program, place.tenant, this.name)
    const { calls } = program
    this.#open_calls = calls.length
    this.#records_left = calls.length
    this.#parents_open = new Uint16Array(calls.length)
    this.#ready_us = new Float64Array(calls.length).fill(arrived_us)
    this.#children = childrenOf(program)
    for (const children of this.#children) {
      for (const child of children) (this.#parents_open[child] as number) += 1
    }
  }

  get isEnded(): boolean {
    return this.#open_calls === 0
  }

  /** The record of one of its calls has come. Returns whether it was the last. */
  recorded(): boolean {
    invariant(this.#records_left > 0, 'a call has one record')
    this.#records_left -= 1
    return this.#records_left === 0
  }

  /** Calls that need no other. */
  roots(): number[] {
    return this.program.calls.flatMap(({ parents }, index) => (parents.length === 0 ? [index] : []))
  }

  /** The client has the whole answer of call `index`. Returns the calls that follow and when each is issued. */
  ended(index: number, now_us: number): { index: number; at_us: number }[] {
    invariant(this.#open_calls > 0, 'a call ends once')
    this.#open_calls -= 1
    if (this.isEnded) this.ended_us = now_us
    const tool_us = Math.round((this.program.calls[index]?.tool_seconds ?? 0) * US_PER_S)
    const next: { index: number; at_us: number }[] = []
    for (const child of this.#children[index] as readonly number[]) {
      const at_us = Math.max(this.#ready_us[child] as number, now_us + tool_us)
      this.#ready_us[child] = at_us
      const parents_open = (this.#parents_open[child] as number) - 1
      this.#parents_open[child] = parents_open
      if (parents_open === 0) next.push({ index: child, at_us })
    }
    return next
  }
}
