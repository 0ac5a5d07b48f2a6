/**
 * What an engine's status says: the latest report of the engine (once a second), brought up to date by the calls that this
 * side has sent since and those that have ended. The number of calls is exact, since the agent knows its own; whether one
 * waits or runs is the engine's word as far as it goes.
 */
export interface LoadReport {
  waiting: number
  running: number
  queued_tokens: number
  kv_used_tokens: number
}

export const NO_LOAD: LoadReport = { waiting: 0, running: 0, queued_tokens: 0, kv_used_tokens: 0 }

interface Opened {
  choices: number
  prompt_tokens: number
  /** The report that the engine last gave has the call. */
  reported: boolean
  /** It waits in the agent's own queue: the engine does not know of it. */
  here: boolean
}

export class ReportedLoad {
  readonly #calls = new Map<string, Opened>()
  #report: LoadReport = NO_LOAD

  opened(lease: string, choices: number, prompt_tokens: number): void {
    this.#calls.set(lease, { choices, prompt_tokens, reported: false, here: false })
  }

  waits(lease: string, here: boolean): void {
    const call = this.#calls.get(lease)
    if (call === undefined) return
    call.here = here
    if (here) call.reported = false
  }

  ended(lease: string): void {
    this.#calls.delete(lease)
  }

  reported(report: LoadReport): void {
    this.#report = report
    for (const call of this.#calls.values()) call.reported = !call.here
  }

  /** The engine is gone. */
  clear(): void {
    this.#calls.clear()
    this.#report = NO_LOAD
  }

  now(seats: number): LoadReport {
    let open = 0
    let here_calls = 0
    let unreported_tokens = 0
    for (const { choices, prompt_tokens, reported, here } of this.#calls.values()) {
      if (here) here_calls += choices
      else open += choices
      if (!reported) unreported_tokens += prompt_tokens
    }
    const { waiting, running, queued_tokens, kv_used_tokens } = this.#report
    // An engine that lets calls wait has no room for more than it runs; else it runs what has seats.
    const runs = Math.min(open, waiting > 0 ? running : seats)
    const queued = (open === 0 ? 0 : queued_tokens) + unreported_tokens
    return { waiting: here_calls + open - runs, running: runs, queued_tokens: queued, kv_used_tokens }
  }
}
