/**
 * Threads of one program: chains of calls. A client's declaration wins. Otherwise a call that arrives while another call of
 * its program is open starts a thread. A call that arrives when none is open continues the thread that ended last, and that
 * thread's last call is its parent. The parent of a fork is unknown and not guessed.
 *
 * A call never depends on one that is still open. Titles, summaries and sub-agents carry their agent's session, and so name
 * its main thread. While that thread has an open call they start threads of their own. So does a call whose conversation does
 * not continue the thread's (turn-table.ts).
 */
import type { ConversationTurn } from '../conversation/conversation-turn.ts'
import { PARENTS_MAX, type ThreadTails } from './program-state.ts'
import { TurnTable } from './turn-table.ts'

interface Thread {
  last_call: string
  /** Null: none of its calls has ended. */
  last_ended: string | null
}

/** A call of the program, as `place` needs it. */
interface KnownCall {
  thread: string
  state: 'open' | 'ended'
}

export interface ThreadArrival {
  thread: string | null
  /** `thread` is where the session's calls go unless they say otherwise. */
  main_thread?: boolean
  parents: readonly string[] | null
  /** Where it stands in its conversation, of a call whose session names the program. Null or left out: not known. */
  turn?: ConversationTurn | null
}

export interface Placement {
  thread: string
  parents: string[]
  /** True: declared, or known from the thread. False: the call's dependencies are unknown. */
  parents_known: boolean
}

export class ThreadTable {
  #threads = new Map<string, Thread>()
  #turns = new TurnTable()
  #lastEnded: string | null = null
  #number = 0
  /** Whether there are threads that are not here. */
  #more = false

  static resume({ tails, more, last_ended, number }: ThreadTails): ThreadTable {
    const table = new ThreadTable()
    for (const { thread, ...state } of tails) table.#threads.set(thread, state)
    table.#more = more
    table.#lastEnded = last_ended
    table.#number = number
    return table
  }

  tails(max: number): ThreadTails {
    const all = [...this.#threads]
    const tails = all.slice(-max).map(([thread, state]) => ({ thread, ...state }))
    return { tails, more: this.#more || all.length > max, last_ended: this.#lastEnded, number: this.#number }
  }

  /** Whether all that is known of the thread is here. */
  holds(thread: string): boolean {
    return !this.#more || this.#threads.has(thread)
  }

  /** Finds thread and parents of an arriving call. `known` returns a call of this program, or undefined. Unknown parents are ignored. */
  place(arrival: ThreadArrival, open_calls: number, known: (call: string) => KnownCall | undefined): Placement {
    const continued = this.#continued(arrival, known)
    if (continued !== null) return continued
    const declared = arrival.parents === null ? null : knownParents(arrival.parents, known)
    // If all declared parents are unknown, the call counts as having declared none.
    const told = declared !== null && (declared.length > 0 || arrival.parents?.length === 0)
    const named = this.#isBusy(arrival, known) ? this.#fresh() : arrival.thread
    const thread = named ?? (told ? this.#threadAfter(declared, known) : this.#inferred(open_calls))
    if (told) return { thread, parents: declared, parents_known: true }
    const previous = this.#previous(thread, known)
    return previous === null
      ? { thread, parents: [], parents_known: false }
      : { thread, parents: [previous], parents_known: true }
  }

  /** The call was placed on `thread`. */
  remember(call: string, thread: string, { thread: session, turn }: ThreadArrival): void {
    if (turn != null) this.#turns.remember(call, thread, session, turn)
  }

  opened(thread: string, call: string): void {
    const last_ended = this.#threads.get(thread)?.last_ended ?? null
    // The threads lie in order of use.
    this.#threads.delete(thread)
    this.#threads.set(thread, { last_call: call, last_ended })
  }

  ended(thread: string, call: string): void {
    this.#lastEnded = thread
    const state = this.#threads.get(thread)
    if (state !== undefined) state.last_ended = call
  }

  lastCall(thread: string): string | null {
    return this.#threads.get(thread)?.last_call ?? null
  }

  /** Its place by its conversation. Null: that says nothing. */
  #continued(arrival: ThreadArrival, known: (call: string) => KnownCall | undefined): Placement | null {
    const { thread: session, turn, parents } = arrival
    if (turn == null || parents !== null) return null
    const found = this.#turns.find(session, turn)
    if (found.kind === 'unknown') return null
    if (found.kind === 'other') return { thread: this.#fresh(), parents: [], parents_known: false }
    const { thread } = found
    if (found.kind === 'answered') {
      // Its client has had the answer, also where that was not reported yet.
      const goes_on = this.lastCall(thread) === found.call
      return { thread: goes_on ? thread : this.#fresh(), parents: [found.call], parents_known: true }
    }
    const previous = this.#previous(thread, known)
    if (this.#isOpen(thread, known)) return { thread: this.#fresh(), parents: [], parents_known: false }
    return { thread, parents: previous === null ? [] : [previous], parents_known: previous !== null }
  }

  /** Whether the call names its session's main thread while that has an open call. */
  #isBusy({ thread, main_thread }: ThreadArrival, known: (call: string) => KnownCall | undefined): boolean {
    return thread !== null && main_thread === true && this.#isOpen(thread, known)
  }

  #isOpen(thread: string, known: (call: string) => KnownCall | undefined): boolean {
    const last = this.lastCall(thread)
    return last !== null && known(last)?.state === 'open'
  }

  /** The call of the thread that the next one depends on: its last one, or, while that is open, the last that ended. */
  #previous(thread: string, known: (call: string) => KnownCall | undefined): string | null {
    const state = this.#threads.get(thread)
    if (state === undefined) return null
    return known(state.last_call)?.state === 'open' ? state.last_ended : state.last_call
  }

  #inferred(open_calls: number): string {
    return open_calls === 0 && this.#lastEnded !== null ? this.#lastEnded : this.#fresh()
  }

  /** The thread of the first declared parent that is the last call of its thread; else the call forks. */
  #threadAfter(parents: readonly string[], known: (call: string) => KnownCall | undefined): string {
    for (const parent of parents) {
      const thread = known(parent)?.thread
      if (thread !== undefined && this.#threads.get(thread)?.last_call === parent) return thread
    }
    return this.#fresh()
  }

  #fresh(): string {
    let name: string
    do {
      name = `t${this.#number}`
      this.#number += 1
    } while (this.#threads.has(name))
    return name
  }
}

function knownParents(parents: readonly string[], known: (call: string) => KnownCall | undefined): string[] {
  const found = new Set<string>()
  for (const parent of parents) {
    if (found.size >= PARENTS_MAX) break
    if (known(parent) !== undefined) found.add(parent)
  }
  return [...found]
}
