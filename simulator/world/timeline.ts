/**
 * The virtual clock: what happens next, at which microsecond. At one microsecond engines end their steps first, then programs
 * arrive, then messages come (in the order in which they were sent), then queues let calls through, then engines report, and last
 * engines plan their next steps. So nothing depends on when an event was put in, and an engine that takes many steps at once leaves all others as they
 * would have been.
 */

import { invariant } from '../../gpu-agent/engine/invariant.ts'
import { Heap, type HeapNode } from '../../gpu-agent/engine/order/heap.ts'

/** Ascending: what comes first at one microsecond. */
export const TURN = { step_end: 0, arrival: 1, message: 2, queue: 3, report: 4, plan: 5 } as const

export class Timer implements HeapNode {
  heap_index = -1
  at_us = 0
  readonly turn: number
  /** Unique among the timers of its turn. */
  readonly key: number
  readonly run: (now_us: number) => void

  constructor(turn: number, key: number, run: (now_us: number) => void) {
    this.turn = turn
    this.key = key
    this.run = run
  }

  get isSet(): boolean {
    return this.heap_index !== -1
  }
}

export class Timeline {
  readonly #timers = new Heap<Timer>(isBefore)
  #messages = 0
  #now_us = 0
  #turn = 0

  get now_us(): number {
    return this.#now_us
  }

  set(timer: Timer, at_us: number): void {
    invariant(Number.isSafeInteger(at_us) && at_us >= this.#now_us, 'events lie ahead, at whole microseconds')
    if (timer.isSet) this.#timers.remove(timer)
    timer.at_us = at_us
    this.#timers.push(timer)
  }

  cancel(timer: Timer): void {
    if (timer.isSet) this.#timers.remove(timer)
  }

  /** `run` happens `delay_us` from now; at once if that is 0 and it is the messages' turn already. */
  send(delay_us: number, run: (now_us: number) => void): void {
    if (delay_us === 0 && this.#turn === TURN.message) run(this.#now_us)
    else this.set(new Timer(TURN.message, this.#messages++, run), this.#now_us + delay_us)
  }

  /** Until nothing is left to happen, `done` says so, or the next event lies after `until_us`. */
  run(done: () => boolean = () => false, until_us = Number.POSITIVE_INFINITY): void {
    for (let timer = this.#timers.peek(); timer !== undefined; timer = this.#timers.peek()) {
      if (timer.at_us > until_us || done()) return
      this.#timers.remove(timer)
      this.#now_us = timer.at_us
      this.#turn = timer.turn
      timer.run(timer.at_us)
    }
  }
}

function isBefore(a: Timer, b: Timer): boolean {
  if (a.at_us !== b.at_us) return a.at_us < b.at_us
  return a.turn === b.turn ? a.key < b.key : a.turn < b.turn
}
