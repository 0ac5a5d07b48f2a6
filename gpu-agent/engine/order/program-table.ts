/**
 * An engine's process table (Autellix §4.2.1): what each program with calls here has received, up to this moment.
 *
 * A ticket has what the control plane knew when it was made: service of settled leases, and what open leases on other
 * engines had been charged by their last report. Since then calls may have ended here whose records are still on their way,
 * and open calls are charged with every step. So a program's service is
 *
 *     max(sums from tickets, sums known to this engine) + charges of its open calls here
 *
 * No lease counts twice, for any order of tickets. The reason is that `known` never exceeds the cost of all closed leases
 * plus the reported part of those elsewhere. One ticket is one snapshot, so settled + elsewhere of one ticket is safe. Of
 * two tickets, the one that knows more settled service is the later one. So only its `elsewhere` may be added to settled
 * service that this engine knows. A ticket that knows less never lowers a sum.
 *
 * Programs without open calls are remembered. So an agent's next call finds the cost of its last one before that record has
 * arrived. Past PROGRAMS_KEPT_MAX the program idle for longest is forgotten, and its sums come from its next ticket.
 */
import { invariant } from '../invariant.ts'
import type { OrderedCall } from '../types.ts'

/** Programs without open calls that are remembered. */
export const PROGRAMS_KEPT_MAX = 8192

/** What the table needs to know of an open call. */
export interface ProgramCall {
  readonly call: OrderedCall
  /** Charged so far, in the ordering reading. */
  readonly charged_us: number
  readonly output_tokens: number
  /** The program's path when the call arrived, which led to it. */
  path_before_us: number
}

/** What a policy may see of a program: service, path and wait in the ordering reading, in microseconds. */
export interface ProgramView {
  readonly program: string
  /** Attained service, open calls included. */
  readonly service_us: number
  /** The longest chain of dependent calls observed, open calls included (eq. 2's scalar). At most `service_us`. */
  readonly path_us: number
  /** Summed wait of ended calls. */
  readonly wait_us: number
  readonly output_tokens: number
  /** Of them, those of its open calls. */
  readonly open_output_tokens: number
  readonly open_calls: number
}

export class ProgramSums<C extends ProgramCall = ProgramCall> implements ProgramView {
  readonly program: string
  /** Open calls, in the order in which they arrived. */
  readonly open = new Set<C>()
  path_us = 0
  wait_us = 0
  /** The last `settle` that looked at its calls (program-order.ts). */
  settled = -1
  /** Times that the order has moved one of its open calls. */
  order_changes = 0
  #known_us = 0
  #settled_us = 0
  #ticket_settled_us = 0
  #ticket_elsewhere_us = 0
  #known_output_tokens = 0
  #live_us = 0
  #live_output_tokens = 0

  constructor(program: string) {
    this.program = program
  }

  get service_us(): number {
    return this.#known_us + this.#live_us
  }

  get output_tokens(): number {
    return this.#known_output_tokens + this.#live_output_tokens
  }

  get open_output_tokens(): number {
    return this.#live_output_tokens
  }

  get open_calls(): number {
    return this.open.size
  }

  arrived(state: C): void {
    const { settled_service_us, open_elsewhere_us, critical_path_us, program_wait_us, program_output_tokens } =
      state.call
    this.#settled_us = Math.max(this.#settled_us, settled_service_us)
    if (settled_service_us > this.#ticket_settled_us) this.#ticket_elsewhere_us = open_elsewhere_us
    else if (settled_service_us === this.#ticket_settled_us) {
      this.#ticket_elsewhere_us = Math.max(this.#ticket_elsewhere_us, open_elsewhere_us)
    }
    this.#ticket_settled_us = Math.max(this.#ticket_settled_us, settled_service_us)
    const told_us = settled_service_us + open_elsewhere_us
    this.#known_us = Math.max(this.#known_us, told_us, this.#settled_us + this.#ticket_elsewhere_us)
    this.path_us = Math.max(this.path_us, critical_path_us)
    this.wait_us = Math.max(this.wait_us, program_wait_us)
    this.#known_output_tokens = Math.max(this.#known_output_tokens, program_output_tokens)
    state.path_before_us = this.path_us
    this.open.add(state)
  }

  charged(state: C, charge_us: number, output_tokens: number): void {
    this.#live_us += charge_us
    this.#live_output_tokens += output_tokens
    this.path_us = Math.max(this.path_us, state.path_before_us + state.charged_us)
  }

  ended(state: C, wait_us: number): void {
    invariant(this.open.delete(state), 'only an open call of the program ends')
    this.#live_us -= state.charged_us
    this.#known_us += state.charged_us
    this.#settled_us += state.charged_us
    this.#live_output_tokens -= state.output_tokens
    this.#known_output_tokens += state.output_tokens
    this.wait_us += wait_us
  }
}

export class ProgramTable<C extends ProgramCall> {
  readonly #programs = new Map<string, ProgramSums<C>>()
  /** Programs without open calls, the one idle for longest first. */
  readonly #idle = new Map<string, ProgramSums<C>>()

  /** Programs remembered, and how many of them have no open call. */
  get size(): { programs: number; idle: number } {
    return { programs: this.#programs.size, idle: this.#idle.size }
  }

  /** The program of a call that arrives. */
  open(program: string): ProgramSums<C> {
    this.#idle.delete(program)
    const known = this.#programs.get(program)
    if (known !== undefined) return known
    const sums = new ProgramSums<C>(program)
    this.#programs.set(program, sums)
    return sums
  }

  /** A call of the program has ended. `comes_back` false: the call is a program of its own and has no other call. */
  close(sums: ProgramSums<C>, comes_back: boolean): void {
    if (sums.open.size > 0) return
    if (!comes_back) {
      this.#programs.delete(sums.program)
      return
    }
    this.#idle.set(sums.program, sums)
    if (this.#idle.size <= PROGRAMS_KEPT_MAX) return
    const [oldest] = this.#idle.keys()
    this.#idle.delete(oldest as string)
    this.#programs.delete(oldest as string)
  }
}
