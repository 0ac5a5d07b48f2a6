/**
 * Calls of a program behind which a tool may be running: they are complete, and the last of their threads. The call that goes
 * on from one brings what its tools returned. Its row keeps that, since it is written anyway, and a restored table passes it
 * back (`restore`).
 *
 * A call that forks a thread returns nothing: it may be what the tool consists of. A thread that is joined is followed, and
 * its last answer was no tool's.
 */
import { ACTING_CALLS_MAX, TOOLS_LISTED_MAX, type ToolReturn, type ToolUnderWay } from './program-state.ts'
import type { CallState } from './stored-rows.ts'

/** Calls that are not in memory are undefined. */
export interface Behind {
  parents: readonly (CallState | undefined)[]
  previous: CallState | undefined
  begins: boolean
}

export class ActingCalls {
  /** In the order in which they ended. */
  readonly #calls = new Set<CallState>()

  /** `calls` in order of arrival, all of a run. Sets what of them follows from the others. */
  static restore(calls: readonly CallState[]): ActingCalls {
    const byId = new Map(calls.map((call) => [call.call, call]))
    const last = new Map<string, CallState>()
    for (const call of calls) {
      const previous = last.get(call.thread)
      last.set(call.thread, call)
      if (previous !== undefined) previous.followed = true
      for (const parent of call.parents) {
        const before = byId.get(parent)
        if (before !== undefined && isFollowed(before, call, previous === undefined)) before.followed = true
      }
    }
    return ActingCalls.resume(calls)
  }

  /** `calls`: some of a run, of which is known whether they are followed. */
  static resume(calls: readonly CallState[]): ActingCalls {
    const acting = new ActingCalls()
    const byId = new Map(calls.map((call) => [call.call, call]))
    for (const { brings, opened_at_ms } of calls) {
      const of = byId.get(brings?.of ?? '')
      if (brings === null || of === undefined) continue
      const { of: _, ...came } = brings
      of.returned = { at_ms: opened_at_ms, ...came }
    }
    for (const call of calls.toSorted(byEnd)) acting.update(call)
    return acting
  }

  /** In the order in which they ended. */
  all(): readonly CallState[] {
    return [...this.#calls]
  }

  /** A call has ended, or how it ended is known better. */
  update(call: CallState): void {
    if (call.state !== 'ended' || call.outcome !== 'completed' || call.followed) this.#calls.delete(call)
    else this.#calls.add(call)
    const [oldest] = this.#calls
    if (this.#calls.size > ACTING_CALLS_MAX && oldest !== undefined) this.#calls.delete(oldest)
  }

  /** `call` has opened behind these calls: its parents, and the last one of its thread. `begins`: it is the first one there. */
  opened(call: CallState, behind: Behind, came: Omit<ToolReturn, 'at_ms'>): void {
    for (const before of behind.parents) {
      if (before === undefined || !isFollowed(before, call, behind.begins)) continue
      if (mayAct(before) && !before.followed && before.thread === call.thread && call.brings === null) {
        call.brings = { of: before.call, ...came }
        before.returned = { at_ms: call.opened_at_ms, ...came }
      }
      this.#follow(before)
    }
    if (behind.previous !== undefined) this.#follow(behind.previous)
  }

  #follow(call: CallState): void {
    call.followed = true
    this.#calls.delete(call)
  }

  /** The latest first, at most TOOLS_LISTED_MAX. */
  tools(): ToolUnderWay[] {
    const running: ToolUnderWay[] = []
    for (const { call, thread, tools, ended_at_ms, opened_at_ms } of this.all().toSorted(byEnd).reverse()) {
      const since_ms = ended_at_ms ?? opened_at_ms
      const { names = [], expected_us = null, handled = null } = tools ?? {}
      for (const name of names.length === 0 ? [null] : names) {
        if (running.length === TOOLS_LISTED_MAX) return running
        running.push({ call, thread, name, since_ms, expected_us, handled })
      }
    }
    return running
  }
}

/** Of a call that was cut or failed it is not known what it asked for, and a run that goes on from a checkpoint does not have it. */
function mayAct({ state, outcome }: CallState): boolean {
  return state === 'open' || outcome === 'completed'
}

function isFollowed(before: CallState, call: CallState, begins: boolean): boolean {
  return before.thread === call.thread || !begins
}

function byEnd(a: CallState, b: CallState): number {
  return (a.ended_at_ms ?? 0) - (b.ended_at_ms ?? 0) || a.position - b.position
}
